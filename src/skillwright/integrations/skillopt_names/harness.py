"""`skillopt.model.codex_harness`: the target as a command-line agent in a folder.

Source: SkillOpt (microsoft/SkillOpt), its exec harnesses.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from skillwright.core import ConfigError, DataError, Message
from skillwright.core.jsonio import digest
from skillwright.integrations.skillopt_session import present_session


def _lazily(name: str) -> Callable[..., Any]:
    """Return a function of `skillwright.models`, which is imported when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module("skillwright.models"), name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def run_target_exec(  # noqa: PLR0913 - the documented signature
    work_dir: Path | str,
    prompt: str,
    model: str | None = None,
    timeout: float | None = None,
    images: Iterable[Path | str] | None = None,
    data_dirs: Iterable[Path | str] | None = None,
    allowed_tools: Any = None,
    permission_mode: Any = None,
    sandbox: Any = None,
    full_auto: Any = None,
    allow_file_edits: bool = False,
    **kwargs: Any,
) -> tuple[str, str]:
    """Run the target's program on the files of a folder, and return what it said last.

    It works in a copy, in the fences that the configuration gives it. With ``allow_file_edits``
    what it wrote is copied back. Which model, tools and sandbox it has is said by
    ``models.target``; the arguments for that say nothing here.
    """
    del model, timeout, images, allowed_tools, permission_mode, sandbox, full_auto, kwargs
    from skillwright.models import ExecAgent

    session = present_session()
    target: Any = session.model("target")
    if not isinstance(getattr(target, "program", target), ExecAgent):
        raise ConfigError(
            f"run_target_exec runs a program, and models.target.backend is "
            f"{session.minds['target'].backend!r}; ask is_target_exec_backend() first"
        )
    folder = Path(work_dir)
    if not folder.is_dir():
        raise DataError(f"there is no folder {str(folder)!r} to run in; prepare_workspace makes it")
    for source in map(Path, data_dirs or ()):
        if source.is_dir() and not (folder / source.name).exists():
            shutil.copytree(source, folder / source.name)
    asked: list[Message] = [{"role": "user", "content": prompt}]
    answer = session.put(
        digest([str(folder), prompt]),
        "target",
        partial(target.work, asked, folder, keeps_edits=allow_file_edits),
    )
    return answer.text, answer.reasoning or answer.text


EXEC_NAMES: Final[Mapping[str, Any]] = {
    "prepare_workspace": _lazily("prepare_workspace"),
    "render_skill_md": _lazily("render_skill_md"),
    "run_target_exec": run_target_exec,
}
"""The names of `skillopt.model.codex_harness`."""
