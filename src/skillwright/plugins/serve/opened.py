"""Servers from a command's options: a run's policy, a folder, a GGUF file, an endpoint."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Final

from skillwright.bank import refuse_unsafe
from skillwright.bank.embedding.embedders import Encoder, LexicalEmbedder
from skillwright.bank.source import classify
from skillwright.config.bank import BankSection
from skillwright.config.load import is_rl_config
from skillwright.config.rl import HfPolicyConfig
from skillwright.core import ConfigError, DataError, PlainSkill, RunError, Task
from skillwright.core.loopback import HOST
from skillwright.core.skill_file import read_skill_file
from skillwright.core.waits import waiting
from skillwright.envs import spec
from skillwright.jobs.run import (
    DocumentAndBank,
    bank_source,
    find_run,
    find_shape,
    opened_embedder,
    read_injected_bank,
)
from skillwright.jobs.weights import refuse_without_torch
from skillwright.models import HttpClient, find_backend, find_weights
from skillwright.models.http.client import without_secrets
from skillwright.plugins.serve.connections import listening
from skillwright.plugins.serve.dialects import category_in
from skillwright.plugins.serve.front import Answerer, Bounds, Front, Skills
from skillwright.plugins.serve.recording import Conversations
from skillwright.plugins.serve.upstream import Upstream
from skillwright.runs.folder import CONFIG_NAME

if TYPE_CHECKING:
    from skillwright.policy.hf import HfPolicy

_USUAL: Final = {"upstream": 64, "weights": 16, "gguf": 4}
"""Default number of concurrent requests; a GGUF's server has memory for each."""
_WAITING: Final = 4  # waiting requests per concurrent one
_BYTES: Final = 4  # per loaded weight


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a server.

    Attributes:
        policy: Run, folder of weights, GGUF file or installed package of weights; "" for
            ``upstream``.
        upstream: URL of a remote endpoint.
        key: Key of requests.
        upstream_key: The endpoint's key; "" if clients send their own.
        bank: Bank whose skills are injected, or "".
        skill: Skill document that is injected, or "".
        env: Environment whose rules determine task categories, or "".
        search: Search settings of the bank.
        record: Name of the run that stores conversations, or "".
        root: Folder of runs.
        in_flight: Concurrent requests; ``None`` for the default.
        silent_s: Seconds without a byte after which a client or an endpoint counts as gone.
        connections: Maximum open connections; each needs two files.
    """

    policy: str = ""
    upstream: str = ""
    key: str = field(default="", repr=False)
    upstream_key: str = field(default="", repr=False)
    bank: str = ""
    skill: str = ""
    env: str = ""
    search: BankSection = field(default_factory=BankSection)
    record: str = ""
    root: Path = Path("runs")
    in_flight: int | None = None
    silent_s: float = 600.0
    connections: int = 1_024


@dataclass(frozen=True, slots=True)
class Serving:
    """A running server; ``named`` describes what answers."""

    front: Front
    named: str
    brings_keys: bool
    run: Path | None


@asynccontextmanager
async def serving(settings: Settings, bound: socket) -> AsyncIterator[Serving]:
    """Serve on a socket until the block ends."""
    async with AsyncExitStack() as held:
        client = await held.enter_async_context(HttpClient())
        skills = held.enter_context(_skills(settings))
        answerer, rows = await _answerer(settings, client, held)
        most = settings.in_flight or rows
        named = settings.policy or without_secrets(settings.upstream)
        bounds = Bounds(most, _WAITING * most, settings.silent_s)
        conversations = None
        if settings.record:
            facts = {
                "answers": named,
                "bank": settings.bank,
                "skill": settings.skill,
                "env": settings.env,
            }
            secrets = (settings.key, settings.upstream_key)
            conversations = Conversations(
                settings.root, settings.record, settings.env, facts, secrets
            )
            held.push_async_callback(conversations.close)
        is_local = bound.getsockname()[0] == HOST
        front = Front(answerer, settings.key, bounds, skills, conversations, is_local=is_local)
        await held.enter_async_context(listening(front.handle, bound, settings.connections))
        path = conversations.path if conversations else None
        yield Serving(front, named, answerer.takes_client_keys, path)


@contextmanager
def _skills(settings: Settings) -> Iterator[Skills | None]:
    if settings.env:
        spec(settings.env)
    document = read_skill_file(settings.skill).text() if settings.skill else ""
    if not settings.bank:
        yield Skills(PlainSkill(document), settings.env) if document.strip() else None
        return
    bank = read_injected_bank(settings.bank, "--bank")
    refuse_unsafe(bank.active, settings.bank)
    with opened_embedder(settings.search.embedder) as embedder:
        words = Encoder(LexicalEmbedder())

        def category(task: Task) -> str:
            known = category_in(task.description, task.env)
            return known or classify(task.description, bank, task.env, words).category

        source = replace(bank_source(bank, settings.search, embedder), categorize=category)
        yield Skills(DocumentAndBank(document, source), settings.env)


async def _answerer(
    settings: Settings, client: HttpClient, held: AsyncExitStack
) -> tuple[Answerer, int]:
    """Return the backend that answers requests, with its number of concurrent requests."""
    if settings.upstream:
        root = settings.upstream.rstrip("/").removesuffix("/v1")

        async def there() -> str:
            return root

        return Upstream(client, there, settings.silent_s, settings.upstream_key), _USUAL["upstream"]
    weights = _gguf(settings)
    if weights is not None:
        rows = settings.in_flight or _USUAL["gguf"]
        local = find_backend("local")
        local.check_package()
        assert local.serve is not None
        server = local.serve(str(weights), rows, client)

        async def here() -> str:
            return await asyncio.to_thread(server.address, settings.silent_s)

        with waiting(f"loading {weights.name}", "it answers"):
            await here()
        return Upstream(client, here, settings.silent_s, server.key), rows
    rows = settings.in_flight or _USUAL["weights"]
    policy = await asyncio.to_thread(_language_model, settings)
    from skillwright.plugins.serve.batching import ContinuousBatch
    from skillwright.plugins.serve.chat import PolicyChat

    batch = ContinuousBatch(policy, rows)
    held.callback(batch.close)
    return PolicyChat(policy, Path(settings.policy).name, batch), rows


def _gguf(settings: Settings) -> Path | None:
    """Return the GGUF file that a policy's name refers to; ``None`` for a run or a folder."""
    path = Path(settings.policy).expanduser()
    if path.is_dir() and not (path / CONFIG_NAME).is_file():
        return None
    try:
        find_run(settings.policy, settings.root)
    except RunError as no_run:
        try:
            return find_weights(settings.policy)
        except DataError as no_weights:
            if path.suffix.lower() == ".gguf" or path.is_file():
                raise
            raise ConfigError(
                f"{settings.policy!r} is no policy: it is no folder that `save_pretrained` wrote; "
                f"{no_run} {no_weights}"
            ) from no_weights
    return None


def _language_model(settings: Settings) -> "HfPolicy":
    refuse_without_torch()
    path = Path(settings.policy).expanduser()
    if path.is_dir() and not (path / CONFIG_NAME).is_file():
        return _of_folder(path)
    return _of_run(settings)


def _of_folder(path: Path) -> "HfPolicy":
    if (path / "adapter_config.json").is_file():
        raise ConfigError(
            f"{str(path)!r} holds a LoRA adapter, which goes over another model's weights; save "
            "all of them: `skillwright policy save RUN DIR`, or merge_and_unload of peft"
        )
    if not (path / "config.json").is_file():
        raise ConfigError(
            f"{str(path)!r} is no policy: it has neither config.yaml, as runs have, nor "
            "config.json, as `save_pretrained` writes"
        )
    _refuse_too_large(str(path))
    from skillwright.policy.hf import HfPolicy

    with waiting(f"loading {path}", "it answers"):
        return HfPolicy.load_pretrained(str(path))


def _of_run(settings: Settings) -> "HfPolicy":
    path = find_run(settings.policy, settings.root)
    if not is_rl_config(path / CONFIG_NAME):
        raise ConfigError(
            f"run {str(path)!r} has no weights; serve what it learned before an endpoint: "
            f"`skillwright serve --upstream URL --skill {path}/best_skill.md`"
        )
    from skillwright.jobs.weights.starting_weights import run_weights
    from skillwright.jobs.weights.wiring import PolicyMaker
    from skillwright.policy.hf import HfPolicy

    found = run_weights(path)
    if not isinstance(found.config.policy, HfPolicyConfig):
        raise ConfigError(
            f"run {str(path)!r} trained a command scorer, which chooses among the commands that an "
            "environment lists and cannot converse; serve a run with policy.kind: hf"
        )
    _refuse_too_large(found.config.policy.model)
    with waiting(f"loading the weights of {path.name}", "it answers"):
        policy = PolicyMaker(found.config).make(found.state.policy or {})
        found.put_into(policy)
    if not isinstance(policy, HfPolicy):
        raise ConfigError("only a language model can be served")
    return policy


def _refuse_too_large(model: str) -> None:
    """Refuse weights that exceed the memory: the system would kill the process."""
    from skillwright.jobs.weights import free_memory

    try:
        needed, free = find_shape(model).weights * _BYTES, free_memory()
    except ConfigError:  # the size is unknown before loading
        return
    if free is not None and needed > free:
        raise ConfigError(
            f"{model!r} takes {needed / 1e9:,.1f} GB as it is loaded, and {free / 1e9:,.1f} GB "
            "are free; serve a GGUF file of fewer bits, or a smaller model"
        )
