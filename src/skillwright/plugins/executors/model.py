"""A model that is a program at a command line: one run of it per answer."""

import asyncio
import logging
import re
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar, Generic, TypeVar

from skillwright.core import (
    Completion,
    ConfigError,
    Message,
    ModelError,
    Purpose,
    ReplyInvalid,
    RequestRefused,
    Sampling,
    Usage,
)
from skillwright.core.jsonio import digest
from skillwright.core.secrets import Redactor, environment_secrets
from skillwright.models.http.retry import Retry
from skillwright.models.http.traffic import Limiter
from skillwright.models.http.wire import UsageCheck, charged
from skillwright.models.skill_md import SKILL_NAME, write_file
from skillwright.plugins.executors.config import ExecConfig
from skillwright.plugins.executors.process import Program, run_program
from skillwright.plugins.executors.report import ExecReport, fault_of_report
from skillwright.plugins.executors.workspace import (
    Fence,
    Login,
    copy_files,
    find_program,
    mount_skill,
    return_login,
    run_folder,
    say_unfenced,
    sweep,
    version_of,
    why_no_fence,
)

REMINDER = "Your last answer was empty. Answer with the assistant's next message, as text."

_TASK = (
    'You take part in the conversation below. Messages with role "system" are your instructions. '
    'Write the next message with role "assistant". It is handed on verbatim: answer with that '
    "message alone, in the form that the instructions ask for."
)
# A closing tag inside a message would end it early.
_CLOSING = re.compile(r"</(?=message>)")
# Claude Code takes the word, or what is quoted behind it, for a file and reads it into the prompt,
# whatever tools are allowed: seen with 2.1.329 for @/etc/passwd and @"a b.txt" on stdin.
_MENTION = re.compile(r"(?<!\w)@(?=\S)")


def render_prompt(messages: Sequence[Message], *notes: str) -> str:
    """Render the task, the conversation and the notes; never start with a slash (a command)."""
    tagged = map(_tagged, messages)
    return "\n\n".join((_TASK, *tagged, *(note for note in notes if note))) + "\n"


def _tagged(message: Message) -> str:
    said = _CLOSING.sub("<\\/", message["content"])
    return f'<message role="{message["role"]}">\n{said}\n</message>'


def without_mentions(prompt: str) -> str:
    """Set ``@name`` at the start of a word apart as ``@ name``, so that no client reads a file."""
    return _MENTION.sub("@ ", prompt)


def tell_mount(skill_name: str) -> str:
    """Write the sentence that tells an agent where the skill is mounted."""
    return (
        f"The instructions' skill is also installed as the skill {skill_name!r} "
        f"(.agents/skills/{skill_name}/SKILL.md)."
    )


@dataclass(frozen=True, slots=True)
class Keeper:
    """Gives each run a folder for its output, and removes outdated ones."""

    config: ExecConfig
    label: str

    def next_folder(self) -> Path | None:
        """Make a folder for one run; return the beginning of its files' names, or ``None``."""
        if self.config.keep_output is None:
            return None
        root = Path(self.config.keep_output)
        root.mkdir(parents=True, exist_ok=True)
        return Path(mkdtemp(prefix=f"{self.label}-", dir=root)) / self.label

    def settle(self, place: Path | None, *, failed: bool) -> None:
        """Remove outdated output after a run: keep all, or the latest failures."""
        most = self.config.keep_failures
        if place is None or most is None:
            return
        if not failed:
            shutil.rmtree(place.parent, ignore_errors=True)
            return
        kept = [path for path in place.parent.parent.glob(f"{self.label}-*") if path.is_dir()]
        for folder in sorted(kept, key=_age)[:-most]:
            # A folder in use is among the latest, unless very many runs are concurrent.
            shutil.rmtree(folder, ignore_errors=True)


def _age(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:  # another run removed it meanwhile
        return 0.0


logger = logging.getLogger(__name__)

Config = TypeVar("Config", bound=ExecConfig, covariant=True)

_MOST_TOKENS = 1_000_000_000  # of all calls of one run
_MOST_OUTPUT = 16_000_000  # bytes that one run may print
_WAITS_S = 60.0  # for the waits between attempts
_LINGERS_S = 10.0  # of silence after a result, in which a program may still clean up


@dataclass(frozen=True, slots=True)
class Workspace:
    """The fresh folders of one run: work, home, and temporary files."""

    root: Path

    @property
    def work(self) -> Path:
        """The current folder of the program."""
        return self.root / "work"

    @property
    def home(self) -> Path:
        """Its home folder, so that no personal skills, notes and settings reach a measurement."""
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        """Its folder for temporary files."""
        return self.root / "tmp"


@dataclass(frozen=True, slots=True)
class Request:
    """The input of one run.

    Attributes:
        messages: The conversation so far.
        skill: The skill document to mount; blank mounts none.
        acts: Whether the settings' permissions apply; else the run reads an empty folder.
        sampling: Settings; those that the program does not have are not used.
        note: Text after the conversation.
        folder: A folder whose copy is in the work folder.
        keeps_edits: Whether its changes are copied back.
    """

    messages: Sequence[Message]
    skill: str = ""
    acts: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    note: str = ""
    folder: Path | None = None
    keeps_edits: bool = False

    @property
    def mounted(self) -> str:
        """The name of the mounted skill, or ``""``."""
        return SKILL_NAME if self.skill.strip() else ""


class CommandLine(ABC, Generic[Config]):
    """Arguments and output format of one program, without side effects."""

    label: ClassVar[str]
    """A short name for files: ``codex``, ``claude``."""
    login_file: ClassVar[str]
    """Where in its fresh home the program looks for a login."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @abstractmethod
    def login(self) -> Login:
        """Find the key or the login."""

    def nests(self, request: Request) -> bool:
        """Tell whether the program builds a sandbox of its own."""
        return False

    @abstractmethod
    def prompt(self, request: Request) -> str:
        """Return what the program reads from stdin."""

    def files(self, request: Request) -> Mapping[str, str]:
        """Return files that the arguments name, by their path below the root of the place."""
        return {}

    @abstractmethod
    def argv(self, request: Request, place: Workspace) -> list[str]:
        """Return the arguments after the program; the prompt comes by stdin."""

    @abstractmethod
    def env(self, request: Request, place: Workspace) -> dict[str, str]:
        """Return the environment, without the key."""

    @abstractmethod
    def report(self, stdout: str) -> ExecReport:
        """Read what the program printed."""


class ExecModel:
    """A chat model that is a program; each answer is one run in an empty folder."""

    def __init__(
        self,
        line: CommandLine[ExecConfig],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        config = line.config
        self._line = line
        self._program = find_program(config)
        self._login = line.login()
        self._limiter = Limiter(config.max_concurrent, config.max_concurrent)
        self._keeper = Keeper(config, line.label)
        self._retry = Retry(
            max_attempts=config.max_attempts,
            timeout_s=config.timeout_s,
            deadline_s=config.timeout_s * config.max_attempts + _WAITS_S,
            sleep=sleep,
            clock=clock,
        )
        self._version = version_of(self._program)
        self._usage_check = UsageCheck(self._name)
        sweep()
        asked = (Request(()), Request((), acts=True))
        unfenced = [request for request in asked if not self._is_fenced(request)]
        if unfenced and config.isolation == "auto":
            nests = line.nests(unfenced[-1])  # the request with more permissions
            say_unfenced(config.backend, config.sandbox, why_no_fence(nested=nests), nests)

    @property
    def identity(self) -> str:
        """``{backend}:{model}@{version}#{digest of the settings that change answers}``."""
        config = self._line.config
        matters = digest(config.what_matters())[:12]
        return f"{config.backend}:{config.model}@{self._version}#{matters}"

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer a conversation from an empty, read-only folder.

        Seeds are ignored, as these programs have none. Tools, a temperature and the like raise
        `RequestRefused`; a program that fails at every attempt, or answers nothing, `ModelError`.
        """
        self._refuse_what_it_has_not(tools, sampling)
        return await self.ask(Request(messages, sampling=sampling))

    async def ask(self, request: Request) -> Completion:
        """Run the program until its answer is not empty; errors as in `complete`."""
        spent: list[Usage] = []  # by attempts that gave no answer
        # The timeout starts inside the slot: queueing does not count.
        async with self._limiter.slot():
            try:
                report = await self._answered(request, spent)
            except ModelError as error:
                total = sum(spent, Usage())
                error.failed_calls = total.failed_calls + total.calls
                error.usage = replace(total, failed_calls=0, calls=0)
                raise
        return self._completion(report, sum(spent, report.usage))

    async def _answered(self, request: Request, spent: list[Usage]) -> ExecReport:
        async def attempt(timeout_s: float) -> ExecReport:
            try:
                return await self._run(request, timeout_s)
            except ModelError as fault:
                spent.append(replace(fault.usage, failed_calls=1))
                raise

        for _ in range(self._line.config.empty_retries + 1):
            report, _ = await self._retry.call(attempt)
            if report.answer.strip():
                return report
            spent.append(report.usage)
            if report.finish_reason == "content_filter":
                raise RequestRefused(
                    f"{self._name} withheld its answer: the model refused the conversation. "
                    "It says nothing about the agent; use another model"
                )
            request = replace(request, note=REMINDER)
        raise ReplyInvalid(
            f"{self._name} ended well {self._line.config.empty_retries + 1} times without an "
            "answer. Look at what it did with keep_output, or raise EXEC_EMPTY_RESPONSE_RETRIES"
        )

    @property
    def _name(self) -> str:
        return f"{self._line.config.backend} ({self._program.name} {self._version})"

    def _completion(self, report: ExecReport, usage: Usage) -> Completion:
        return Completion(
            text=report.answer,
            finish_reason=report.finish_reason,
            model=report.model or self._line.config.model,
            usage=usage,
            reasoning=report.reasoning,
        )

    async def _run(self, request: Request, timeout_s: float) -> ExecReport:
        keep, answered = self._keeper.next_folder(), False
        try:
            report = await self._run_once(request, timeout_s, keep)
            answered = bool(report.answer.strip())
            return report
        finally:
            self._keeper.settle(keep, failed=not answered)

    async def _run_once(self, request: Request, timeout_s: float, keep: Path | None) -> ExecReport:
        with run_folder() as root:
            place = self._furnished(root, request)
            argv = [str(self._program), *self._line.argv(request, place)]
            prompt = self._line.prompt(request)
            secrets = (*self._login.secrets, *environment_secrets())
            if keep is not None:
                shown = Redactor(secrets).exact(prompt)
                write_file(keep.with_name(f"{keep.name}_prompt.txt"), shown)
            program = Program(
                argv=self._fenced(argv, request, place),
                stdin=prompt,
                folder=place.work,
                env={**self._line.env(request, place), **self._login.env},
                timeout_s=timeout_s,
                max_output_bytes=_MOST_OUTPUT,
                name=self._name,
                secrets=secrets,
                keep=keep,
                spent=lambda stdout: self._priced(self._line.report(stdout)).usage,
                is_whole=lambda stdout: self._line.report(stdout).is_whole,
                lingers_s=_LINGERS_S,
            )
            try:
                output = await run_program(program)
            finally:
                if self._login.file is not None:
                    return_login(place.home / self._line.login_file, self._login.file)
            if request.folder is not None and request.keeps_edits:
                copy_files(place.work, request.folder)
        report = self._priced(self._line.report(output.stdout))
        if keep is not None:
            summary = "\n".join((*report.trace, "", report.answer or report.failure, ""))
            write_file(keep.with_name(f"{keep.name}_trace_summary.txt"), summary)
        fault = fault_of_report(report, output, self._name)
        if fault is not None:
            raise charged(fault, report.usage)
        if request.mounted and report.skills is not None and request.mounted not in report.skills:
            logger.warning(
                "%s did not find the mounted skill; it has it in the prompt only", self._name
            )
        return report

    def _furnished(self, root: Path, request: Request) -> Workspace:
        place = Workspace(root)
        login = place.home / self._line.login_file
        for needed in (place.work, place.temporary, login.parent):
            needed.mkdir(parents=True)
        if self._login.file is not None:
            login.symlink_to(self._login.file)
        if request.folder is not None:
            copy_files(request.folder, place.work)
        for name, text in self._line.files(request).items():
            write_file(place.root / name, text)
        if request.mounted:
            mount_skill(place.work, request.skill, request.mounted)
        return place

    def _fenced(self, argv: list[str], request: Request, place: Workspace) -> list[str]:
        if not self._is_fenced(request):
            return argv
        may_write = request.acts and self._line.config.sandbox != "read-only"
        frozen = () if may_write else (place.work,)
        hidden = tuple(map(Path, self._line.config.hidden))
        return Fence(place.root, self._program, frozen, self._login.file, hidden).wrap(argv)

    def _is_fenced(self, request: Request) -> bool:
        config = self._line.config
        if config.isolation == "none":
            return False
        nests = self._line.nests(request)
        problem = why_no_fence(nested=nests)
        # Some sandbox must bound writing: the program's own, or ours.
        writes = request.acts and config.sandbox == "workspace-write"
        if problem and (config.isolation == "bwrap" or (writes and not nests)):
            nested = (
                "Let it stand alone with sandbox: danger-full-access, or leave the program's own "
                "sandbox alone with isolation: auto"
            )
            alone = "Install it, or go without: isolation: none with sandbox: read-only"
            raise ConfigError(
                f"backend {config.backend!r}: isolation by bubblewrap does not work here: "
                f"{problem}. {nested if nests else alone}"
            )
        return not problem

    def _priced(self, report: ExecReport) -> ExecReport:
        """Add the cost: by configured, else reported, else list prices (with a key only)."""
        config = self._line.config
        says_cost = report.usage.cost_usd is not None
        listed = None if says_cost or not self._login.env else config.known_prices
        priced = report.priced(config.prices or listed)
        plausible = self._usage_check.plausible(priced.usage, _MOST_TOKENS, _MOST_TOKENS)
        return replace(priced, usage=plausible)

    def _refuse_what_it_has_not(self, tools: Sequence[dict[str, Any]], sampling: Sampling) -> None:
        given = {
            "tools": bool(tools),
            "temperature": sampling.temperature is not None,
            "top_p": sampling.top_p is not None,
            "stop": bool(sampling.stop),
            "logprobs": sampling.logprobs is not None,
        }
        refused = [name for name, is_given in given.items() if is_given]
        if refused:
            raise RequestRefused(
                f"{self._name} takes no {refused[0]}: the program decides. Leave it out, or use a "
                "backend with an endpoint, such as 'openai_chat'"
            )
