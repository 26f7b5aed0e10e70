"""The folders of one run: where it works, the mounted skill, and its lock."""

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

from skillwright.core import ConfigError, DataError
from skillwright.core.jsonio import dumps
from skillwright.plugins.executors.config import ExecConfig
from skillwright.plugins.executors.process import kill_marked

# The folder that a command-line agent works in: the task, and the skill mounted as files.
#
# A skill is mounted where clients look for one (agentskills.io). A text that a client would expand
# or run (``$ARGUMENTS``, ``!`command` ``, ``@file``) is laid beside it, unchanged, for SKILL.md to
# name. Source of `prepare_workspace` and `render_skill_md`: SkillOpt (microsoft/SkillOpt).


SKILL_NAME = "skillopt-target"
DESCRIPTION = "What was learned about this job. Read it before you start on the task."
PREAMBLE = "Follow these instructions wherever they apply to the task."
CLIENT_FOLDERS = (".agents/skills", ".claude/skills")
REFERENCE = "references/skill.md"

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_NAME, _LONGEST_DESCRIPTION = 64, 1024
_LIVE = re.compile(
    r"\$(ARGUMENTS|\d|\{)"  # replaced by the words after a command
    r"|!\s*`|^\s*```\s*!"  # run by a shell
    r"|(?<!\w)@\S",  # replaced by a file
    re.MULTILINE,
)
# Answers lie in these folders of the benchmarks.
_NEVER_LINKED = frozenset({"officeqa_split", "sealqa_split"})


class Prepared(NamedTuple):
    """Where the skill and the task lie."""

    skill_path: Path
    task_path: Path


def is_live(text: str) -> bool:
    """Tell whether a client would expand or run something in a text that it loads as a skill."""
    return _LIVE.search(text) is not None


def render_skill_md(
    content: str,
    name: str = SKILL_NAME,
    description: str = DESCRIPTION,
    preamble: str = PREAMBLE,
) -> str:
    """Write a skill document as a SKILL.md: frontmatter, title, preamble, body.

    Args:
        content: The learned text, as it is.
        name: 1 to 64 of ``a-z0-9-``; also the folder's name.
        description: 1 to 1024 characters: what it is, and when to use it.
        preamble: Stands before the body.

    Raises:
        DataError: The name or the description breaks the rules of Agent Skills.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise DataError(
            f"skill name {name!r}: use 1 to {_LONGEST_NAME} lower-case letters, digits and single "
            "hyphens between them, such as 'house-rules'"
        )
    shown = "".join(c for c in " ".join(description.split()) if c.isprintable() and c not in "<>")
    if not 0 < len(shown) <= _LONGEST_DESCRIPTION:
        raise DataError(
            f"skill {name!r}: its description has {len(shown)} characters; 1 to "
            f"{_LONGEST_DESCRIPTION} are allowed"
        )
    # A JSON string is a quoted YAML string: colons, '#' and a leading '-' mean nothing in it.
    front = f"---\nname: {dumps(name)}\ndescription: {dumps(shown)}\n---\n"
    title = name.replace("-", " ").capitalize()
    body = content.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").strip()
    return f"{front}\n# {title}\n\n{preamble}\n\n{body}\n"


def mount_skill(folder: Path, content: str, name: str = SKILL_NAME) -> Path:
    """Mount a skill document where each client looks for it.

    Returns:
        The SKILL.md of the cross-client place, ``.agents/skills/<name>/SKILL.md``.
    """
    live = is_live(content)
    pointer = f"Read [{REFERENCE}]({REFERENCE}) first: it holds the instructions, word by word."
    document = render_skill_md(pointer if live else content, name)
    for client in CLIENT_FOLDERS:
        place = folder / client / name
        write_file(place / "SKILL.md", document)
        if live:
            write_file(place / REFERENCE, content)
    return folder / CLIENT_FOLDERS[0] / name / "SKILL.md"


def prepare_workspace(  # noqa: PLR0913  documented signature
    work_dir: Path | str,
    skill_md: str,
    task_text: str,
    task_filename: str = "task.md",
    images: Iterable[Path | str] = (),
    extra_files: Mapping[str, str] | None = None,
    copy_files: Mapping[str, Path | str] | None = None,
    link_dirs: Mapping[str, Path | str] | None = None,
) -> Prepared:
    """Empty a folder and lay out the task, the skill and the files that come with it.

    Args:
        work_dir: The folder; whatever it holds is removed.
        skill_md: The SKILL.md, as `render_skill_md` writes it; blank mounts none.
        task_text: What is to be done.
        task_filename: The name of the task's file.
        images: Files that are copied to ``attachments/NN_name`` and listed in
            ``ATTACHMENTS.md``.
        extra_files: Path inside the folder -> text.
        copy_files: Path inside the folder -> file that is copied there.
        link_dirs: Path inside the folder -> folder that is linked there.

    Raises:
        DataError: A path leads out of the folder, a file is missing, or the folder is one that
            must not be emptied.
    """
    folder = _emptied(Path(work_dir))
    skill_path = folder / CLIENT_FOLDERS[0] / SKILL_NAME / "SKILL.md"
    if skill_md.strip():
        for client in CLIENT_FOLDERS:
            write_file(folder / client / SKILL_NAME / "SKILL.md", skill_md)
    task_path = _inside(folder, task_filename)
    write_file(task_path, task_text)
    for name, text in (extra_files or {}).items():
        write_file(_inside(folder, name), text)
    for name, source in (copy_files or {}).items():
        _copy(Path(source), _inside(folder, name))
    for name, source in (link_dirs or {}).items():
        _link(Path(source), _inside(folder, name))
    _attach(folder, [Path(image) for image in images])
    return Prepared(skill_path, task_path)


def _emptied(folder: Path) -> Path:
    real = folder.resolve()
    if real == Path.home() or Path.cwd().is_relative_to(real):
        raise DataError(f"{str(real)!r} would be emptied; choose a folder of its own for the work")
    if real.is_dir():
        shutil.rmtree(real)
    real.mkdir(parents=True)
    return real


def _inside(folder: Path, name: str) -> Path:
    place = (folder / name).resolve()
    if place == folder or not place.is_relative_to(folder):
        raise DataError(f"file {name!r} lies outside of the work folder; give a path inside it")
    return place


def write_file(path: Path, text: str) -> None:
    """Write a text, whatever a model put into it; half a character becomes a question mark."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "replace"))


def copy_files(source: Path, place: Path) -> None:
    """Copy the files of a folder into another one, over what is there; links stay behind."""

    def links(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if (Path(folder) / name).is_symlink()]

    shutil.copytree(source, place, ignore=links, dirs_exist_ok=True)


def _copy(source: Path, place: Path) -> None:
    if not source.is_file():
        raise DataError(f"there is no file {str(source)!r} to copy into the work folder")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)


def _link(source: Path, place: Path) -> None:
    if _NEVER_LINKED & set(source.resolve().parts):
        raise DataError(f"{str(source)!r} holds the answers of its benchmark and is never shown")
    if not source.is_dir():
        raise DataError(f"there is no folder {str(source)!r} to link into the work folder")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(source.resolve(), target_is_directory=True)


def _attach(folder: Path, images: list[Path]) -> None:
    if not images:
        return
    names = [f"attachments/{number:02d}_{path.name}" for number, path in enumerate(images, 1)]
    for path, name in zip(images, names, strict=True):
        _copy(path, folder / name)
    write_file(folder / "ATTACHMENTS.md", "".join(f"- {name}\n" for name in names))


# The folder of one run, locked while it lasts: what is free is cleared up by the next run.


if sys.platform != "win32":
    import fcntl

_PREFIX = "skillwright-exec-"
_LOCK = "lock"
_LONGEST_LOGIN = 1_000_000  # bytes


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for one run, whose name is its mark, and remove it at the end."""
    root = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    try:
        # Renamed once it is held, so that nobody ever finds a lock that is still free.
        with (root / f".{_LOCK}").open("wb") as lock:
            _hold(lock)
            (root / f".{_LOCK}").rename(root / _LOCK)
            yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def sweep() -> None:
    """End and remove what runs left behind whose process was killed."""
    if sys.platform == "win32":
        return
    for root in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if root.is_symlink() or root.stat().st_uid != os.getuid():
                continue
            with (root / _LOCK).open("r+b") as lock:
                _hold(lock)
                kill_marked(root.name)
                shutil.rmtree(root, ignore_errors=True)


def return_login(place: Path, login: Path) -> None:
    """Keep a login that a program renewed in its own home.

    Its home has a link to the person's login. A program that writes through the link changes that
    file itself; one that puts a new file in the link's place has the only good login in its hands.
    """
    with suppress(OSError, ValueError):
        found = place.lstat()
        if not S_ISREG(found.st_mode) or found.st_size > _LONGEST_LOGIN:
            return
        renewed = place.read_bytes()
        if not isinstance(json.loads(renewed), dict):
            return
        handle, name = tempfile.mkstemp(prefix=f".{login.name}-", dir=login.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(renewed)
        Path(name).replace(login)


def _hold(lock: IO[bytes]) -> None:
    """Lock a file until it is closed."""
    if sys.platform != "win32":
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


# What a program is given of our environment, and what it may see and write.


# Makes the work folder the only writable place, where bubblewrap (``bwrap``) can.


logger = logging.getLogger(__name__)

_FENCE = (
    *("--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc"),
    *("--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
)
_TEMPORARY = Path("/tmp")
# What a person keeps at home and no agent has to see; what does not exist is left out.
_PRIVATE = (
    *(".ssh", ".gnupg", ".password-store", ".local/share/keyrings", ".mozilla", ".thunderbird"),
    *(".aws", ".azure", ".kube", ".docker", ".oci", ".s3cfg", ".boto", ".vault-token"),
    *(".config/gh", ".config/hub", ".config/gcloud", ".config/doctl", ".config/rclone"),
    *(".config/git/credentials", ".git-credentials", ".netrc", "_netrc", ".pgpass", ".my.cnf"),
    *(".npmrc", ".yarnrc.yml", ".pypirc", ".cargo/credentials.toml", ".gem/credentials"),
    *(".cache/huggingface/token", ".huggingface/token", ".kaggle", ".config/op"),
    *(".config/google-chrome", ".config/chromium"),
    *(".codex", ".claude", ".claude.json"),
)
# Variables that say where else one of these lies.
_NAMING = (
    *("CODEX_HOME", "CLAUDE_CONFIG_DIR", "NETRC", "KUBECONFIG", "DOCKER_CONFIG", "GNUPGHOME"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"),
    *("AZURE_CONFIG_DIR", "CLOUDSDK_CONFIG", "HF_TOKEN_PATH", "NPM_CONFIG_USERCONFIG"),
    "PGPASSFILE",
)
_NOTHING = "/dev/null"
_PROBE_S = 10


@dataclass(frozen=True, slots=True)
class Fence:
    """What a fenced program may see and write.

    Attributes:
        root: The folder of this run, writable; ``work`` and ``tmp`` lie in it.
        frozen: Folders below ``root`` that it may only read.
        program: Its file, which stays visible wherever it lies.
        login: A file outside that it may write: a login is renewed in place.
        hidden: Files and folders that it may not see, beside what people keep at home.
    """

    root: Path
    program: Path
    frozen: Sequence[Path] = ()
    login: Path | None = None
    hidden: Sequence[Path] = ()

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs ``argv`` inside the fence.

        A folder inside ``root`` takes the place of ``/tmp``. The network stays: the program must
        reach its model.
        """
        private = self.root / "tmp"
        options = [bwrap_path(), *_FENCE, "--bind", str(private), str(_TEMPORARY)]
        covered = [_TEMPORARY]
        for place in self._hidden():
            if place.is_dir():
                options += ["--tmpfs", str(place)]
                covered.append(place)
            else:
                options += ["--ro-bind", _NOTHING, str(place)]
        for file in dict.fromkeys((self.program, self.program.resolve())):
            for place in covered:
                if file.is_relative_to(place):
                    # All that was installed with it: a launcher looks for its parts around itself.
                    installed = str(place / file.relative_to(place).parts[0])
                    options += ["--ro-bind", installed, installed]
        options += ["--bind", str(self.root), str(self.root)]
        for place in self.frozen:
            options += ["--ro-bind", str(place), str(place)]
        if self.login is not None:
            options += ["--bind", str(self.login), str(self.login)]
        return [*options, "--chdir", str(self.root / "work"), "--", *argv]

    def _hidden(self) -> list[Path]:
        """List what is there to hide, by its true place; one inside another is hidden with it."""
        named = (os.environ.get(name) for name in _NAMING)
        wanted = [
            *(Path.home() / name for name in _PRIVATE),
            *(Path(value) for each in named if each for value in each.split(os.pathsep)),
            *self.hidden,
        ]
        found: list[Path] = []
        for place in sorted({path.expanduser().resolve() for path in wanted}):
            # What lies in /tmp is out of sight; nothing is mounted below what is hidden already.
            covered = any(map(place.is_relative_to, (*found, _TEMPORARY)))
            if not covered and _is_there(place) and not Path.home().is_relative_to(place):
                found.append(place)
        return found


def _is_there(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:  # we may not look, and neither may the program
        return False


def bwrap_path() -> str:
    """Return where bubblewrap is, or ``""``."""
    return shutil.which("bwrap") or ""


@lru_cache
def why_no_fence(*, nested: bool) -> str:
    """Say why no fence can be built here; ``""`` where it can."""
    if not bwrap_path():
        return "there is no bwrap on the PATH (package bubblewrap)"
    inner = [bwrap_path(), *_FENCE] if nested else []
    command = [bwrap_path(), *_FENCE, *inner, "true"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap does not run: {error}"
    return "" if done.returncode == 0 else done.stderr.strip() or "bwrap failed without a word"


@lru_cache  # so that it is said once, however many models a process makes
def say_unfenced(backend: str, sandbox: str, problem: str, nests: bool) -> None:
    """Warn that a program runs without bubblewrap, and say what that leaves open."""
    writes = (
        "can write wherever you can"
        if sandbox == "danger-full-access"
        else "has tools that only read"
    )
    if nests:
        writes = "writes only where its own sandbox lets it"
    logger.warning(
        "%s runs without bubblewrap (%s): it can read what you can, your keys and this process's "
        "environment included, and %s. Install bubblewrap, or set isolation: none to say that this "
        "is meant.",
        backend,
        problem,
        writes,
    )


# What a command-line agent is given of our environment: what it needs, and no other key.


_ALLOWED = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE"),
)
_VERSION_S = 30


@dataclass(frozen=True, slots=True)
class Login:
    """How a program proves who it is.

    Attributes:
        env: The variable with the key, or none.
        file: The file of a login that a person made with the program itself.
    """

    env: dict[str, str] = field(default_factory=dict, repr=False)
    file: Path | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys, to be taken out of what the program prints."""
        return tuple(value for value in self.env.values() if value)


def find_login(config: ExecConfig, variable: str, others: Sequence[str], file: Path) -> Login:
    """Find a program's key, else the login that was made with it."""
    if key := config.given_key or os.environ.get(config.api_key_env, "").strip():
        known = (variable, *others)
        return Login({config.api_key_env if config.api_key_env in known else variable: key})
    if config.api_key_env not in (variable, *others):
        raise ConfigError(
            f"backend {config.backend!r} has its key in the environment variable "
            f"{config.api_key_env} (api_key_env), which is not set: set it, or leave api_key_env "
            f"out for the login of {config.path!r} itself"
        )
    for name in others:
        if token := os.environ.get(name, "").strip():
            return Login({name: token})
    if file.is_file():
        return Login(file=file.resolve())
    raise ConfigError(
        f"backend {config.backend!r} has neither a key nor a login: set the environment variable "
        f"{config.api_key_env}, or sign in with {config.path!r} itself, which writes {str(file)!r}"
    )


def child_env(config: ExecConfig, home: Path, temporary: Path) -> dict[str, str]:
    """Return the environment of a program, without its key: an allow-list, and fresh folders."""
    env = {
        name: value
        for name in (*_ALLOWED, *config.pass_env)
        if (value := os.environ.get(name)) is not None
    }
    return {"LANG": "C.UTF-8", **env, "HOME": str(home), "TMPDIR": str(temporary)}


def find_program(config: ExecConfig) -> Path:
    """Find a program on the ``PATH``, or at its path."""
    found = shutil.which(Path(config.path).expanduser())
    if found is None:
        raise ConfigError(
            f"backend {config.backend!r} runs the program {config.path!r}, which is not "
            "there or cannot be run. Install it, or give its file in path"
        )
    return Path(found).absolute()


def version_of(program: Path) -> str:
    """Ask a program for its version, once per file."""
    return _version_of(program, program.stat().st_mtime_ns)


@lru_cache
def _version_of(program: Path, changed_ns: int) -> str:
    del changed_ns  # a program that was updated is asked again
    env = {name: os.environ[name] for name in _ALLOWED if name in os.environ}
    with TemporaryDirectory() as home:
        try:
            process = subprocess.Popen(
                [program, "--version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**env, "HOME": home},
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(
                f"{str(program)!r} cannot be run: {error.strerror or error}"
            ) from error
        with process:
            try:
                printed, _ = process.communicate(timeout=_VERSION_S)
            except subprocess.TimeoutExpired:
                printed = b""
                os.killpg(process.pid, signal.SIGKILL)
    version = " ".join(printed.decode("utf-8", "replace").split())[:80]
    if not version or process.returncode:
        raise ConfigError(
            f"`{program} --version` gives no version (exit code {process.returncode}); records "
            "need one. Install the program again, or give another file in path"
        )
    return version
