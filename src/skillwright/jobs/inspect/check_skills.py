"""Find the two skills of a check: files, folders, versions in runs, and revisions in git."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from skillwright.config import RunConfig, is_rl_config, load_config
from skillwright.core import ConfigError, DataError, RunError, Task
from skillwright.core.jsonio import digest
from skillwright.core.skill_file import SKILL_FILE, SkillFile, read_skill_file
from skillwright.datasets.clusters import CLUSTER
from skillwright.jobs.inspect.provenance import StoredSkill, find_skill
from skillwright.jobs.run import Callback, find_run
from skillwright.jobs.run.bench import SplitName
from skillwright.jobs.run.tasks import is_adapter, make_splits
from skillwright.jobs.text.check import CheckPlan, CheckReport, run_check, start_check
from skillwright.jobs.text.evaluate import EvalPlan
from skillwright.jobs.text.launch import Run, begin_run
from skillwright.jobs.text.preflight import preflight
from skillwright.runs import RunStore
from skillwright.runs.folder import CONFIG_NAME, STORE_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """What to check, as a person says it.

    Attributes:
        new: The new skill: a file, a folder, or a version of a run.
        against: The old one: the same, or a revision of the new one in git; "" is no skill.
        config: The configuration that is played; ``None`` is that of a run among the skills.
        overrides: Settings over it, such as ``env.data.test=20``.
        root: The folder that holds runs; ``None`` is that of the configuration.
        split: The tasks; ``None`` is ``test``, or ``val`` of an adapter.
        margin: The loss that "not worse" rules out, in (0, 1).
        draws: Maximum draws per task and side; 0 for the test's own.
    """

    new: str
    against: str = ""
    config: Path | None = None
    overrides: Sequence[str] = ()
    root: Path | None = None
    split: SplitName | None = None
    margin: float = 0.1
    draws: int = 0


async def begin_check(request: CheckRequest) -> Run:
    """Find both skills, ask the model one question, and make the run of a check.

    Raises:
        UsageError: A skill, the configuration, a task or a setting is missing or wrong.
        ModelRefused: The endpoint refuses the key or the model.
        ModelError: The endpoint does not answer.
    """
    root, settings = _settings(request)
    new = new_skill(request.new, settings, root)
    old = old_skill(request.against, new, settings, root)
    split = _split(request.split, settings)
    notes = tuple(differences(new, old, settings, split))
    plan = CheckPlan(new.name, old.name, split, request.margin, request.draws, notes)
    await preflight(settings, EvalPlan(split, 1))
    return start_check(settings, new.text, old.text, plan)


MOST_ITEMS: Final = 40
"""Lines and paragraphs of a skill above which whole sections are measured."""


async def begin_model_check(request: CheckRequest, model: str) -> tuple[Run, StoredSkill]:
    """Make an evaluation of the new skill with another model of the same endpoint, on val.

    Its episodes are the first draws of an `ablate` that measures each line. Raises as
    `begin_check`.
    """
    named = [f"models.target.model={json.dumps(model)}"]
    root, settings = _settings(replace(request, overrides=[*request.overrides, *named]))
    if getattr(settings.models.target, "prices", None) is not None:
        # They are those of the other model.
        named.append("models.target.prices=null")
        root, settings = _settings(replace(request, overrides=[*request.overrides, *named]))
    new = new_skill(request.new, settings, root)
    run = await begin_run(settings, new.text, EvalPlan("val", 1))
    return run, StoredSkill(run.folder.path, 0, new.text)


def _settings(request: CheckRequest) -> tuple[Path, RunConfig]:
    """Return the folder of runs, and the configuration under the name of a check."""
    root = request.root or Path("runs")
    settings = load_config(request.config or _config_of(request, root), request.overrides)
    named = settings.run.model_copy(update={"name": f"{settings.run.name}-check"})
    if request.root is not None:
        named = named.model_copy(update={"root": str(root)})
    return root, settings.model_copy(update={"run": named})


async def check_skill(request: CheckRequest, callback: Callback) -> CheckReport:
    """Make a check from beginning to end; raises as `begin_check` and `run_check`."""
    with await begin_check(request) as run:
        return await run_check(run, callback)


def _split(split: SplitName | None, settings: RunConfig) -> SplitName:
    if not is_adapter(settings.env):
        return split or "test"
    if split not in (None, "val"):
        raise ConfigError("an adapter plays pairs on its val tasks alone: leave --split out")
    return "val"


def _config_of(request: CheckRequest, root: Path) -> Path:
    """Return the configuration of the run that is checked, or that is checked against."""
    new = request.new
    for where in filter(None, (new, request.against)):
        if not Path(where).is_dir() or (Path(where) / CONFIG_NAME).is_file():
            with suppress(RunError):  # a file of no run, or a git revision
                return find_skill(where, root).run / CONFIG_NAME
    if not Path(new).exists():
        return find_run(new.rpartition("@")[0] or new, root) / CONFIG_NAME
    file = Path(new).resolve()
    mine = (file.name, file.parent.name)  # `init` names its file by the skill's folder
    near = sorted((one.stem not in mine, one.name) for one in Path().glob("*.y*ml"))
    such = f", such as --config {shlex.quote(near[0][1])}" if near else ""
    raise ConfigError(
        f"say what is played with --config{such}; `skillwright init` writes such a file for your "
        "rows"
    )


NO_SKILL = "no skill"
"""How the blank skill is displayed."""


@dataclass(frozen=True, slots=True)
class NamedSkill:
    """A skill to check.

    Attributes:
        text: What the agent reads.
        name: Where it is from, as displayed.
        path: Its file or folder on disk; ``None`` for a version of a run.
        run: The folder of its run; ``None`` for a file.
        title: The ``name`` in the frontmatter, or "".
        unread: Its linked files that the agent does not read, by path in the folder.
    """

    text: str
    name: str
    path: Path | None = None
    run: Path | None = None
    title: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)


def new_skill(where: str, config: RunConfig, root: str | Path = "runs") -> NamedSkill:
    """Find the skill to check: a file, a folder with a SKILL.md, or a version of a run.

    Raises:
        DataError: It cannot be read.
        RunError: There is no such file, folder or run.
    """
    path = Path(where)
    if path.exists() and not (path / CONFIG_NAME).is_file():
        return _of_file(read_skill_file(path), where, config, path)
    found = find_skill(where, root)
    return NamedSkill(found.text, f"{found.run.name}@{found.version}", run=found.run)


def old_skill(
    where: str, new: NamedSkill, config: RunConfig, root: str | Path = "runs"
) -> NamedSkill:
    """Find the skill to compare with: blank, as `new_skill`, or a revision of the new one in git.

    Raises:
        ConfigError: It is none of these; the message says what was tried.
        DataError: It cannot be read, or its run has other tasks.
    """
    if not where:
        return NamedSkill("", NO_SKILL)
    path = Path(where)
    if path.is_file() or (path / SKILL_FILE).is_file() or (path / CONFIG_NAME).is_file():
        found = new_skill(where, config, root)
    else:
        try:
            found = new_skill(where, config, root)
        except (RunError, DataError) as error:
            if new.path is None:
                raise ConfigError(
                    f"--against {where!r} names no file, folder or run; a git revision needs a "
                    "new skill that is a file or folder"
                ) from error
            found = at_revision(new.path, where, config)
    if found.run is not None:
        _refuse_other_tasks(found, config)
    return found


def differences(
    new: NamedSkill, old: NamedSkill, config: RunConfig, split: SplitName
) -> Iterator[str]:
    """Yield remarks on the two skills that put the result of a check in doubt."""
    if new.title and old.title and new.title != old.title:
        yield f"the old skill is called {old.title!r} and the new one {new.title!r}"
    if old.path is not None and new.unread != old.unread:
        names = sorted(
            one
            for one in {**new.unread, **old.unread}
            if new.unread.get(one) != old.unread.get(one)
        )
        yield (
            f"the agent does not read {', '.join(names)}, which changed too: skill.train: "
            "body+references would inject it"
        )
    if config.skill.bank:
        yield "the bank of the configuration is injected on both sides"
    for run in dict.fromkeys(one.run for one in (new, old) if one.run is not None):
        if count := _trained_on(run, config, split):
            yield f"{run.name} learned from {count} of the {split} tasks, so its score is too high"


def _of_file(found: SkillFile, name: str, config: RunConfig, path: Path) -> NamedSkill:
    reads_all = config.skill.train != "body"
    text = found.text(references=reads_all)
    unread = {} if reads_all else found.references
    return NamedSkill(text, name, path=path, title=_title(found), unread=unread)


def _title(found: SkillFile) -> str:
    for line in found.head.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() == "name":
            return value.strip().strip("'\"")
    return ""


def _refuse_other_tasks(found: NamedSkill, config: RunConfig) -> None:
    """Refuse a run on another environment."""
    if found.run is None or is_rl_config(found.run / CONFIG_NAME):
        return
    theirs = load_config(found.run / CONFIG_NAME).env.name
    if theirs != config.env.name:
        raise DataError(
            f"{found.name} was made for the environment {theirs!r}, and this check plays "
            f"{config.env.name!r}: name a skill for the same tasks with --against"
        )


def _trained_on(run: Path, config: RunConfig, split: SplitName) -> int:
    """Count the tasks of a split that a run learned from, by their contents."""
    if is_adapter(config.env):
        return 0
    splits = make_splits(config)
    tasks = splits.test.open() if split == "test" else getattr(splits, split).tasks
    with RunStore.open(run / STORE_NAME, read_only=True) as store:
        played = {one.task_id: one.id for one in store.episodes(phase="train")}
        learned = {_content(store.task(episode)) for episode in played.values()}
    return sum(_content(task) in learned for task in tasks)


def _content(task: Task) -> str:
    return digest({name: value for name, value in task.extras.items() if name != CLUSTER})


def at_revision(path: Path, revision: str, config: RunConfig) -> NamedSkill:
    """Read a skill as it was at a revision of the git repository that holds it.

    Raises:
        ConfigError: There is no git, no repository or no such revision.
        DataError: The revision has no such file.
    """
    folder, name = (path, SKILL_FILE) if path.is_dir() else (path.parent, path.name)
    tried = f"--against {revision!r} is no file, skill folder or run"
    if shutil.which("git") is None:
        raise ConfigError(f"{tried}, and git, which could read a revision, is not installed")
    top = _git(folder, "rev-parse", "--show-toplevel")
    if top.returncode:
        said = _said(top)
        where = "is in no git repository" if "not a git" in said else f"git refuses: {said}"
        raise ConfigError(f"{tried}, and {str(folder)!r} {where}")
    commit = _git(folder, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    if commit.returncode:
        shallow = _git(folder, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
        hint = "; the clone is shallow, fetch its history first (fetch-depth: 0)" * shallow
        raise ConfigError(f"{tried}, and no revision of the git repository{hint}")
    short = commit.stdout.decode()[:9]
    with TemporaryDirectory() as temporary:
        copy = Path(temporary) / folder.resolve().name
        is_skill_folder = name == SKILL_FILE
        listed = _git(folder, "ls-tree", "-r", "-z", commit.stdout.decode().strip(), "--", "./")
        for file in _readable(listed.stdout) if is_skill_folder else [name]:
            shown = _git(folder, "show", f"{commit.stdout.decode().strip()}:./{file}")
            if shown.returncode == 0:
                (copy / file).parent.mkdir(parents=True, exist_ok=True)
                (copy / file).write_bytes(shown.stdout)
        if not (copy / name).is_file():
            raise DataError(
                f"{str(path)!r} is not in revision {revision!r} ({short}): it was added or renamed "
                "later, or never committed. Name the old file or folder with --against"
            )
        found = read_skill_file(copy if is_skill_folder else copy / name)
        return _of_file(found, f"{path} at {revision} ({short})", config, path)


def _readable(listed: bytes) -> Iterator[str]:
    """Yield the text files of ``git ls-tree -z``, without symbolic links."""
    for entry in listed.decode("utf-8", "surrogateescape").split("\0"):
        about, _, name = entry.partition("\t")
        if about.startswith("100") and name.endswith((".md", ".txt")):
            yield name


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", str(folder), *arguments]
    # In a hook, these name the repository that is committed to, whose index may be another.
    variables = {name: value for name, value in os.environ.items() if name != "GIT_INDEX_FILE"}
    return subprocess.run(command, capture_output=True, check=False, env=variables)


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[0].removeprefix("fatal: ") if lines else f"git ended with {done.returncode}"
