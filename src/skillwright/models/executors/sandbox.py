"""Makes the work folder the only writable place, where bubblewrap (``bwrap``) can."""

import logging
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

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


@lru_cache  # so that it is said once, however many minds a process makes
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
