"""``skillwright init FOLDER``: from a skill's folder with evals to a configuration."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skillwright.cli.words import counted, make_console, print_words
from skillwright.config import RunConfig, load_config
from skillwright.core import DataError, SkillwrightError
from skillwright.core.fence import without_controls
from skillwright.core.jsonio import read_text, write_text
from skillwright.core.skill_file import SKILL_FILE, read_skill_file
from skillwright.datasets import Splits, parse_ratio
from skillwright.datasets.clusters import clusters_of
from skillwright.datasets.evals_files import ASSERTIONS, TRIGGER, evals_in
from skillwright.datasets.rows import EVALS_SUFFIXES, Row
from skillwright.datasets.rows import Table as Rows
from skillwright.envs.table.assertions import what_is_left_out, why_left_out
from skillwright.envs.table.draft import mapping
from skillwright.envs.table.splits import dealing_pattern
from skillwright.jobs.inspect.standard import errors
from skillwright.jobs.run import make_splits

out = make_console()

# The more cases decide, the less do few cases prove nothing; the last one only measures.
_RATIOS: Final = ("1:1:1", "1:2:1", "1:4:1")
_ALL_MEASURE: Final = "0:0:1"
_MOST_CASES: Final = 400
_UNTELLING: Final = ("eval", "evals", "tests")
OWN_SERVER: Final = (
    "  # Your own server: {backend: openai_chat, model: NAME, base_url: http://localhost:8000/v1}"
)
SCRIPTED: Final = (
    "models:",
    "  # Programs in the place of models. A real one: {backend: openai_chat, model: gpt-5.5}",
    OWN_SERVER,
    "  target: {backend: scripted, model: clerk, noise: 0.05}  # acts",
    "  optimizer: {backend: scripted, model: clerk_analyst}  # proposes",
)


UNLEARNABLE: Final = (
    "Scripted models only learn answers that many rows share, and no JSON, so they cannot learn "
    "these data: training would gain nothing. Name a real model (--model), or set "
    "OPENAI_API_KEY or ANTHROPIC_API_KEY."
)


@dataclass(frozen=True, slots=True)
class Llms:
    """Models, as YAML.

    Attributes:
        target: The model that acts.
        optimizer: The model that proposes, and judges.
        remark: What a person should know about them, or "".
    """

    target: str
    optimizer: str
    remark: str = ""

    @property
    def needs_key(self) -> bool:
        """Whether a person must do something before they answer."""
        return self.remark.startswith("set ")

    @property
    def lines(self) -> list[str]:
        """The section ``models`` of a configuration."""
        return [
            f"models:  # {self.remark}" if self.remark else "models:",
            *([OWN_SERVER] if "base_url" not in self.target else []),
            f"  target: {self.target}  # acts",
            f"  optimizer: {self.optimizer}  # proposes",
        ]


@dataclass(frozen=True, slots=True)
class SkillEvals:
    """The evals of a skill.

    Attributes:
        skill: The skill's folder; ``None`` if the file lies in none.
        path: The file of evals.
        rows: Its cases, or its queries about the description.
    """

    skill: Path | None
    path: Path
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """The name of the configuration, and so of its runs."""
        if self.skill is not None:
            return self.skill.resolve().name
        names = [self.path.stem, *(one.name for one in self.path.resolve().parents)]
        return next((one for one in names if one and one not in _UNTELLING), "evals")

    @property
    def are_queries(self) -> bool:
        """Whether the rows only test the description."""
        return TRIGGER in self.rows[0]


def find_evals(path: Path, encoding: str | None = None) -> SkillEvals | None:
    """Find the evals of a skill's folder, or read a file of evals; ``None`` for other files.

    Raises:
        DataError: The folder has no SKILL.md or no evals, or the evals cannot be read.
    """
    if path.is_dir() or path.name == SKILL_FILE:
        folder = read_skill_file(path).path.parent
        if Path.cwd().resolve().is_relative_to(folder.resolve()):
            raise DataError(
                f"{str(folder)!r} is the skill's own folder, and runs would be written into it; "
                f"change to a folder above it, and name it {folder.resolve().name!r} there"
            )
        if (found := evals_in(folder)) is None:
            other = next(iter(sorted((folder / "evals").glob("*.json"))), "ROWS.csv")
            raise DataError(
                f"{str(folder)!r} has a skill and no evals; write evals/evals.json such as "
                '{"evals": [{"id": 1, "prompt": "...", "assertions": ["..."]}]}, or name a file '
                f"of rows: skillwright init {other}"
            )
        return SkillEvals(folder, found, tuple(Rows(found, encoding).rows()))
    if path.suffix.lower() not in (".json", ".jsonl", ".ndjson", *EVALS_SUFFIXES):
        return None
    first = Rows(path, encoding).head(1)  # a table may have millions of rows
    if not first or not (ASSERTIONS in first[0] or first[0].keys() == {"query", TRIGGER}):
        return None
    places = (path.parent, path.parent.parent)
    skill = next((one for one in places if (one / SKILL_FILE).is_file()), None)
    return SkillEvals(skill, path, tuple(Rows(path, encoding).rows()))


def init_skill(evals: SkillEvals, llms: Llms | None, to: Path) -> dict[str, Any]:
    """Write a configuration for the evals of a skill, and return facts about it.

    Args:
        evals: The skill and its cases.
        llms: The models; ``None`` for scripted ones, which judge nothing.
        to: The file that is written.
    """
    has_judge = llms is not None
    left_out, usable = list[str](), len(evals.rows)
    if not evals.are_queries:
        left_out = what_is_left_out(evals.rows, has_judge=has_judge)
        usable -= sum(
            bool(why_left_out(row[ASSERTIONS], has_judge=has_judge)) for row in evals.rows
        )
    if not usable:
        move = "Correct the cases" if has_judge else "Correct the cases, or name a --model"
        raise DataError(
            f"{str(evals.path)!r}: no case can be scored, so nothing is written: "
            f"{'; '.join(left_out)}. {move}, and run init again"
        )
    try:
        ratio, proof = _planned(evals, llms, to, usable)
    except SkillwrightError:
        to.unlink(missing_ok=True)
        raise
    return {
        "path": str(to),
        "skill": None if evals.skill is None else str(evals.skill),
        "evals": str(evals.path),
        "cases": len(evals.rows),
        "usable": usable,
        "left_out": left_out,
        "proof": proof,
        "problem": "" if evals.skill is None else _problem(evals.skill),
        "unlearnable": llms is None and not _shares_answers(evals),
        "next": "eval" if ratio == _ALL_MEASURE else "train",
    }


def show_skill(evals: SkillEvals, llms: Llms | None, facts: Mapping[str, Any]) -> None:
    """Show what `init_skill` found and wrote, and the next commands."""
    content = _content(evals, has_judge=llms is not None)
    print_words(out, without_controls(f"{evals.path}: {content}"))
    for line in facts["left_out"]:
        print_words(out, without_controls(line), "yellow")
    if facts["problem"]:
        said = f"clients may not load {evals.skill}: {facts['problem']}"
        print_words(out, without_controls(said), "yellow")
    print_words(out, f"wrote {facts['path']}", "bold")
    print_words(out, f"What can be proven: {facts['proof']}.")
    if facts["unlearnable"]:
        print_words(out, UNLEARNABLE, "yellow")
    if llms is not None and llms.needs_key:
        print_words(out, f"Before it runs: {llms.remark}.", "yellow")
    command = f"skillwright {facts['next']} {shlex.quote(facts['path'])}"
    out.print(f"Next:  {command}", markup=False)
    if evals.skill is not None and facts["next"] == "eval":
        out.print(f"Without the skill:  {command} --set skill.init=", markup=False)


def _problem(skill: Path) -> str:
    """Return why clients would not load a skill, or ""."""
    text = read_text(skill / SKILL_FILE, "skill file")
    return next(iter(errors(text, skill.resolve())), "")


def write_measured(evals: SkillEvals, llms: Llms | None, to: Path) -> None:
    """Write a configuration that measures a skill on all of its evals."""
    write_text(to, _written(evals, llms, _ALL_MEASURE, to))


def _content(evals: SkillEvals, *, has_judge: bool) -> str:
    if evals.are_queries:
        return f"{counted(len(evals.rows), 'request')} that should or should not open the skill"
    total, judged = _checks(evals)
    by = "a model" if has_judge else "nothing"
    rest = f", {judged} by {by}" if judged else ""
    return (
        f"{counted(len(evals.rows), 'case')}, {counted(total, 'assertion')}: {total - judged} "
        f"checked by rule{rest}"
    )


def _shares_answers(evals: SkillEvals) -> bool:
    """Tell whether the evals ask for words that several of them share, as labels are."""
    if evals.are_queries:
        return True
    checks = (one for row in evals.rows for one in row[ASSERTIONS]["checks"])
    wanted = [one["values"][0] for one in checks if one.get("rule") == "contains"]
    return 2 * len(set(wanted)) <= len(wanted) > 0


def _checks(evals: SkillEvals) -> tuple[int, int]:
    """Count the assertions, and those for a judge."""
    checks = [one for row in evals.rows for one in row[ASSERTIONS]["checks"]]
    return len(checks), sum("rule" not in one for one in checks)


def _written(evals: SkillEvals, llms: Llms | None, ratio: str, to: Path) -> str:
    is_measured = ratio == _ALL_MEASURE
    verb = "eval" if is_measured else "train"
    verb_of_body = "measured as it is" if is_measured else "trained"
    why = "too few cases to train; all are measured" if is_measured else "train, val, test"
    skill = "" if evals.skill is None else mapping({"init": str(evals.skill)})
    return "\n".join(
        [
            f"# {'Measure' if is_measured else 'Train'} with: skillwright {verb} {to}",
            *([f"skill: {skill}  # its body is {verb_of_body}"] if skill else []),
            *("env:", "  name: table", "  config:"),
            *(_query_lines(evals) if evals.are_queries else _case_lines(evals, llms)),
            f"  data: {mapping({'path': str(evals.path), 'ratio': ratio})}  # {why}",
            *(SCRIPTED if llms is None else llms.lines),
            "",
        ]
    )


def _case_lines(evals: SkillEvals, llms: Llms | None) -> Iterator[str]:
    yield "    # What the agent reads of a case; it never reads the assertions"
    yield '    prompt: "{{ prompt }}"'
    _, judged = _checks(evals)
    if not judged:
        yield "    scorer: assertions  # all of them are checked by rule"
    elif llms is None:
        yield "    # {kind: assertions, model: ...} also checks those without a rule"
        yield "    scorer: assertions"
    else:
        yield "    # The model judges the assertions that no rule checks"
        yield f"    scorer: {{kind: assertions, model: {llms.optimizer}}}"


def _query_lines(evals: SkillEvals) -> Iterator[str]:
    yield "    # Should the agent open the skill for a query?"
    yield "    prompt: |"
    if evals.skill is not None:
        head = read_skill_file(evals.skill).head.splitlines()
        # Braces would be template syntax.
        about = [line for line in head if line.startswith(("name:", "description:"))]
        yield from (f"      {line.replace('{', '(').replace('}', ')')}" for line in about)
    yield "      Request: {{ query }}"
    yield "      Answer with true if the skill fits the request, else with false."
    yield f"    answer: {TRIGGER}"


def _planned(evals: SkillEvals, llms: Llms | None, to: Path, usable: int) -> tuple[str, str]:
    """Write the first shares with which a training could prove something, else all for test.

    Returns:
        The shares, and what can be proven with them.
    """
    write_measured(evals, llms, to)
    config = load_config(to)
    problem = ""
    for ratio in _RATIOS:
        if not _is_enough(config, ratio, usable):
            continue
        write_text(to, _written(evals, llms, ratio, to))
        splits = make_splits(config := load_config(to))
        if not (problem := why_too_few(config, splits)):
            train, val = splits.train.tasks, splits.val.tasks
            return ratio, config.power(len(train), len(val), clusters_of(val))
    write_measured(evals, llms, to)
    more = range(usable + 1, _MOST_CASES)
    enough = (n for n in more if any(_is_enough(config, one, n) for one in _RATIOS))
    needs = f"training it needs at least {next(enough, _MOST_CASES)} cases to prove a gain"
    return _ALL_MEASURE, (
        f"how well the skill does on {counted(usable, 'case')}; {problem or needs}"
    )


def why_too_few(config: RunConfig, splits: Splits) -> str:
    """Return why a training on these tasks could prove nothing, or ""."""
    train, val = splits.train.tasks, splits.val.tasks
    return config.why_hopeless(len(train), len(val), clusters_of(val))


def _is_enough(config: RunConfig, ratio: str, cases: int) -> bool:
    """Tell whether a training on this many different cases could prove something."""
    pattern = dealing_pattern(parse_ratio(ratio))
    dealt = Counter(pattern[at % len(pattern)] for at in range(cases))
    train, val, test = (dealt[split] for split in range(3))
    return bool(train and val and test) and not config.why_hopeless(train, val)
