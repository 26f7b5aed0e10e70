"""Where the recipe's configuration becomes objects."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from skillwright.bank import BankStore, Embedder
from skillwright.bank.teaching.teacher import Teacher
from skillwright.config.rl import RlConfig
from skillwright.core import (
    Agent,
    ChatModel,
    EpisodeResult,
    ModelRefused,
    PlainSkill,
    SkillSource,
)
from skillwright.evaluation import Terms
from skillwright.jobs.bank.arena import make_teacher
from skillwright.jobs.parts.bank_source import EmbedderLedger, opened_embedder
from skillwright.jobs.parts.engine import make_engine, make_env
from skillwright.jobs.parts.memory import StoredCalls, StoredEpisodes
from skillwright.jobs.parts.opened import MakeModel, Opened, opened
from skillwright.jobs.rl.policies import PolicyMaker
from skillwright.jobs.rl.progress import RlWatcher
from skillwright.jobs.rl.tasks import RlTasks, find_rl_tasks
from skillwright.jobs.rl.told import Teller
from skillwright.jobs.train.wiring import terms_of
from skillwright.models import agent_of, make_model
from skillwright.policy import PolicyAgent, PolicyBackend
from skillwright.rollout import EpisodeRecorder, LocalEngine, MakeEnv
from skillwright.rollout.local import Mode
from skillwright.runs import RunStore


class KeptOnly:
    """A recorder that keeps episodes and never gives one back: a policy learns from fresh ones."""

    def __init__(self, recorder: EpisodeRecorder) -> None:
        self._recorder = recorder

    def find(self, key: str) -> EpisodeResult | None:
        """Find nothing."""
        del key
        return None

    def known_to_fail(self, key: str) -> bool:
        """Ask the recorder."""
        return self._recorder.known_to_fail(key)

    def record(self, result: EpisodeResult) -> EpisodeResult:
        """Keep a result, and return it as it was played, with what was sampled."""
        self._recorder.record(result)
        return result

    def abandon(self, result: EpisodeResult) -> None:
        """Keep what it consumed."""
        self._recorder.abandon(result)


@dataclass(frozen=True, slots=True)
class Workshop:
    """What it takes to run the recipe."""

    config: RlConfig
    store: RunStore
    bank_store: BankStore
    tasks: RlTasks
    minds: Mapping[str, ChatModel]
    maker: PolicyMaker
    teller: Teller
    terms: Terms
    make_env: MakeEnv
    opened: Opened
    ledger: EmbedderLedger
    watcher: RlWatcher
    checkpoints: Path

    def mind_engine(self, role: str, max_turns: int | None = None) -> LocalEngine:
        """Return an engine in which a mind acts, each episode at its own pace."""
        agent = agent_of(self.minds[role])
        kept = StoredEpisodes(self.store, agent.identity)
        return self._engine(agent, kept, "free", max_turns)

    def measuring_engine(
        self, backend: PolicyBackend, temperature: float, max_turns: int | None = None
    ) -> LocalEngine:
        """Return an engine in which the present weights act; an episode is played once."""
        backend.forget()
        agent = PolicyAgent(backend, temperature, remembers=False)
        kept = StoredEpisodes(self.store, agent.identity)
        return self._engine(agent, kept, "lockstep", max_turns)

    def training_engine(self, agent: PolicyAgent) -> LocalEngine:
        """Return an engine whose episodes are learnt from, by the agent that remembers them."""
        agent.backend.forget()
        recorder = None
        if self.config.grpo.keep_rollouts:
            recorder = KeptOnly(StoredEpisodes(self.store, agent.identity))
        return self._engine(agent, recorder, "lockstep")

    def teacher(self, stage: str) -> Teacher:
        """Return the teacher, whose luck is the stage's own."""
        calls = self.opened.calls(self.minds["teacher"], self.permit)
        return make_teacher(calls, self.config.minds["teacher"], self.config.run.seed, stage)

    def source(self, version: int) -> SkillSource:
        """Return what tasks are told by a version of the bank."""
        return self.teller.source(self.bank_store.load(version))

    @asynccontextmanager
    async def permit(self, kind: str = "episode") -> AsyncIterator[None]:
        """Ask the budget before something begins, once it knows what embedding has cost."""
        self.ledger.settle()
        async with self.opened.budget.permit(kind):
            yield

    def _engine(
        self,
        agent: Agent,
        recorder: EpisodeRecorder | None,
        mode: Mode,
        max_turns: int | None = None,
    ) -> LocalEngine:
        seen = self.opened.seen
        return make_engine(
            self.config, agent, recorder, seen, self.permit, mode=mode, max_turns=max_turns
        )


def stop_if_refused(teacher: Teacher) -> None:
    """Stop where the teacher's endpoint refuses every request: a wrong key does not mend itself."""
    refusal = teacher.model.refusal if isinstance(teacher.model, StoredCalls) else None
    if refusal is not None:
        raise ModelRefused(f"the teacher was refused: {refusal}")


@asynccontextmanager
async def workshop(
    config: RlConfig,
    store: RunStore,
    watcher: RlWatcher,
    make: MakeModel = make_model,
    maker: PolicyMaker | None = None,
) -> AsyncIterator[Workshop]:
    """Make the parts of a run; what they hold open is closed at the end."""
    async with opened(config, store, watcher, make) as parts:
        held, minds = parts.held, {role: parts.model(mind) for role, mind in config.minds.items()}
        embedder = held.enter_context(opened_embedder(config.bank.embedder))
        ledger = EmbedderLedger(embedder, store)
        held.callback(ledger.settle)
        bank_store = held.enter_context(BankStore.open(store.folder / "bank" / "bank.sqlite"))
        yield Workshop(
            config=config,
            store=store,
            bank_store=bank_store,
            tasks=find_rl_tasks(config),
            minds=minds,
            maker=maker or PolicyMaker(config),
            teller=make_teller(config, embedder),
            terms=terms_of(config),
            make_env=make_env(config.env),
            opened=parts,
            ledger=ledger,
            watcher=watcher,
            checkpoints=store.folder / "checkpoints",
        )


def make_teller(config: RlConfig, embedder: Embedder) -> Teller:
    """Return what tells tasks their skills; base trajectories come to it when they are played."""
    bank = config.bank
    return Teller(
        embedder=embedder,
        settings=bank.retrieval,
        budget=bank.budget,
        hierarchy=bank.hierarchy,
        raw=PlainSkill("") if bank.told == "nothing" else None,
    )
