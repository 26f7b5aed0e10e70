"""The folders of one run, the mounted skill, the bubblewrap sandbox, and the login."""

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from tempfile import TemporaryDirectory
from typing import IO

from skillwright.core import ConfigError
from skillwright.models.skill_md import CLIENT_FOLDERS, SKILL_NAME, render_skill_md, write_file
from skillwright.plugins.executors.config import ExecConfig

# Skills are mounted in the clients' folders (agentskills.io). A text that a client would expand or
# run (``$ARGUMENTS``, ``!`command` ``, ``@file``) is stored unchanged in a file of its own, which
# SKILL.md refers to.

REFERENCE = "references/skill.md"

_LIVE = re.compile(
    r"\$(ARGUMENTS|\d|\{)"  # replaced by the words after a command
    r"|!\s*`|^\s*```\s*!"  # run by a shell
    r"|(?<!\w)@\S",  # replaced by a file
    re.MULTILINE,
)


def is_live(text: str) -> bool:
    """Tell whether a client would expand or run something in a text that it loads as a skill."""
    return _LIVE.search(text) is not None


def mount_skill(folder: Path, content: str, name: str = SKILL_NAME) -> Path:
    """Mount a skill document for every client; return ``.agents/skills/<name>/SKILL.md``."""
    live = is_live(content)
    pointer = f"Read [{REFERENCE}]({REFERENCE}) first: it holds the instructions, word by word."
    document = render_skill_md(pointer if live else content, name)
    for client in CLIENT_FOLDERS:
        place = folder / client / name
        write_file(place / "SKILL.md", document)
        if live:
            write_file(place / REFERENCE, content)
    return folder / CLIENT_FOLDERS[0] / name / "SKILL.md"


def copy_files(source: Path, place: Path) -> None:
    """Copy the files of a folder over those of another one, without symbolic links."""

    def links(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if (Path(folder) / name).is_symlink()]

    shutil.copytree(source, place, ignore=links, dirs_exist_ok=True)


if sys.platform != "win32":
    import fcntl

_PREFIX = "skillwright-exec-"
_LOCK = "lock"
_LONGEST_LOGIN = 1_000_000  # bytes


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder for one run, and remove it at the end."""
    root = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    try:
        # Renamed after it is locked, so that no other process finds it unlocked.
        with (root / f".{_LOCK}").open("wb") as lock:
            _hold(lock)
            (root / f".{_LOCK}").rename(root / _LOCK)
            yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def sweep() -> None:
    """Remove the folders of runs whose process was killed."""
    if sys.platform == "win32":
        return
    for root in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if root.is_symlink() or root.stat().st_uid != os.getuid():
                continue
            with (root / _LOCK).open("r+b") as lock:
                _hold(lock)
                shutil.rmtree(root, ignore_errors=True)


def return_login(place: Path, login: Path) -> None:
    """Store a login that a program renewed in its home folder.

    The home has a link to the user's login. Some programs write through the link; others replace
    the link with a new file, which is then the only valid login.
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


logger = logging.getLogger(__name__)

_FENCE = (
    *("--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc"),
    *("--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
)
_TEMPORARY = Path("/tmp")
# Private files in the home folder, hidden from agents; missing ones are skipped.
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
# Variables with other paths of such files.
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
    """Files that a sandboxed program may see and write.

    Attributes:
        root: Writable folder of this run, with ``work`` and ``tmp``.
        frozen: Read-only folders below ``root``.
        program: Executable, always visible.
        login: Writable file outside ``root``: programs renew a login in place.
        hidden: Hidden files and folders, in addition to private ones in the home folder.
    """

    root: Path
    program: Path
    frozen: Sequence[Path] = ()
    login: Path | None = None
    hidden: Sequence[Path] = ()

    def wrap(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs ``argv`` in the sandbox.

        A folder in ``root`` is mounted as ``/tmp``. The network stays, for the model's endpoint.
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
                    # The whole installation: a launcher loads files near its own.
                    installed = str(place / file.relative_to(place).parts[0])
                    options += ["--ro-bind", installed, installed]
        options += ["--bind", str(self.root), str(self.root)]
        for place in self.frozen:
            options += ["--ro-bind", str(place), str(place)]
        if self.login is not None:
            options += ["--bind", str(self.login), str(self.login)]
        return [*options, "--chdir", str(self.root / "work"), "--", *argv]

    def _hidden(self) -> list[Path]:
        """List the resolved paths to hide; a path inside another one is left out."""
        named = (os.environ.get(name) for name in _NAMING)
        wanted = [
            *(Path.home() / name for name in _PRIVATE),
            *(Path(value) for each in named if each for value in each.split(os.pathsep)),
            *self.hidden,
        ]
        found: list[Path] = []
        for place in sorted({path.expanduser().resolve() for path in wanted}):
            # /tmp is replaced as a whole, and nothing can be mounted inside a hidden folder.
            covered = any(map(place.is_relative_to, (*found, _TEMPORARY)))
            if not covered and _is_there(place) and not Path.home().is_relative_to(place):
                found.append(place)
        return found


def _is_there(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:  # not readable here, so not readable for the program
        return False


def bwrap_path() -> str:
    """Return the path of bubblewrap, or ``""``."""
    return shutil.which("bwrap") or ""


@lru_cache
def why_no_fence(*, nested: bool) -> str:
    """Return why bubblewrap does not work here, or ``""``."""
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


@lru_cache  # one warning per process
def say_unfenced(backend: str, sandbox: str, problem: str, nests: bool) -> None:
    """Warn that a program runs without bubblewrap, and list what it can reach."""
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


_ALLOWED = (
    *("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE"),
)
_VERSION_S = 30


@dataclass(frozen=True, slots=True)
class Login:
    """The key or login of a program: a variable with the key, or the program's login file."""

    env: dict[str, str] = field(default_factory=dict, repr=False)
    file: Path | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """Keys, to be redacted in the program's output."""
        return tuple(value for value in self.env.values() if value)


def find_login(config: ExecConfig, variable: str, others: Sequence[str], file: Path) -> Login:
    """Find a program's key, else its login file."""
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
    """Return the environment of a program: allowed variables and fresh folders, without the key."""
    env = {
        name: value
        for name in (*_ALLOWED, *config.pass_env)
        if (value := os.environ.get(name)) is not None
    }
    return {"LANG": "C.UTF-8", **env, "HOME": str(home), "TMPDIR": str(temporary)}


def find_program(config: ExecConfig) -> Path:
    """Find a program on the ``PATH``, or at its path."""
    path = Path(config.path).expanduser()
    # Path drops "./", without which `which` searches the PATH.
    found = shutil.which(path if path.name == config.path else path.absolute())
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
    del changed_ns  # part of the cache key: an updated program runs again
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
