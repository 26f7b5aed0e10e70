"""What a command-line agent is given of our environment: what it needs, and no other key."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from skillwright.core import ConfigError
from skillwright.models.executors.config import ExecConfig

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
