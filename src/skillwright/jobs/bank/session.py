"""The parts of a job that changes a bank: agent, teacher, gate."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from skillwright.bank import Bank, BankStore, Embedder, Teacher
from skillwright.bank.changes import IsNear, nearness
from skillwright.config.bank_settings import StudySettings, teacher_of
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, SkillSource
from skillwright.datasets import EvolutionTasks
from skillwright.jobs.run.bank_source import (
    DocumentAndBank,
    EmbedderLedger,
    bank_source,
    bank_work,
    opened_embedder,
)
from skillwright.jobs.run.bench import TextBench, terms_of, text_bench
from skillwright.jobs.run.evolution_round import EvolutionLoop
from skillwright.jobs.run.launch import model_secrets, read_initial_skill
from skillwright.jobs.run.memory import StoredCalls
from skillwright.jobs.run.money import Budget, priced_model
from skillwright.jobs.run.preflight import ask_models, look_at_environment
from skillwright.jobs.run.progress import Callback, RunStarted
from skillwright.jobs.run.resources import MakeModel, make_teacher, open_model, open_resources
from skillwright.jobs.run.tasks import evolution_split, is_adapter, refuse_unasked_data
from skillwright.models import HttpClient, ModelConfig, make_model
from skillwright.runs import RunStore


@dataclass(frozen=True, slots=True)
class BankSession:
    """The parts of a job that changes a bank.

    Attributes:
        evolution: The evolution split, whose failures the teacher reads.
        calls: The teacher's model, with stored answers.
        target: Identity of the agent.
        document: The text above the bank's skills in prompts.
    """

    config: RunConfig
    store: RunStore
    bench: TextBench
    evolution: EvolutionTasks
    calls: StoredCalls
    embedder: Embedder
    ledger: EmbedderLedger
    target: str
    document: str
    callback: Callback

    def teacher(self, stage: str) -> Teacher:
        """Return the teacher, seeded by the stage."""
        return make_teacher(self.calls, teacher_of(self.config), self.config.run.seed, stage)

    def started(self, bank: Path, episodes: int) -> RunStarted:
        """Return the event at the start, with the models and the maximum number of episodes."""
        sizes, evolution = self.bench.sizes, len(self.evolution.tasks)
        facts = (
            f"{sizes.train} train tasks, {evolution} of them to evolve on; {sizes.val} val tasks"
        )
        return RunStarted(
            name=bank.name,
            folder=str(bank),
            llms={"target": self.target, "teacher": self.calls.identity},
            facts=(facts,),
            episodes=episodes,
        )

    def source(self, bank: Bank, store: BankStore | None = None) -> SkillSource:
        """Return the skill source of a version of the bank."""
        skills = bank_source(bank, self.config.bank, self.embedder, store)
        return DocumentAndBank(self.document, skills)

    def loop(self, store: BankStore) -> EvolutionLoop:
        """Return the parts that all rounds of evolution share."""
        return EvolutionLoop(
            engine=lambda: self.bench.engine,
            source=lambda bank: self.source(bank, store),
            tasks=self.evolution,
            val=self.bench.splits.val,
            section=self.config.evolve,
            gate=self.config.evaluation.gate,
            terms=terms_of(self.config, self.bench.clusters),
            embedder=self.embedder,
            teacher=self.teacher,
            callback=self.callback,
        )


async def check_bank_job(config: RunConfig) -> None:
    """Check the configuration of a job that changes a bank, and ask each model one question.

    Raises:
        UsageError: A file, environment, task or key of the configuration is missing or wrong.
        ModelError: A model does not answer, or refuses the key.
    """
    if is_adapter(config.env):
        raise ConfigError(
            f"an EnvAdapter plays by itself and is given one document, so no bank is made of or "
            f"for it; {config.env.name!r} must be a text environment"
        )
    refuse_unasked_data(config.env)
    llms = [config.models.target, teacher_of(config)]
    unpriced = [llm for llm in llms if not priced_model("", llm).is_priced]
    if config.budget.usd is not None and unpriced:
        raise ConfigError(
            f"budget.usd = {config.budget.usd:g} cannot be held: no prices are known for "
            f"{getattr(unpriced[0], 'model', unpriced[0].backend)!r}. Set its prices, or bound "
            "budget.tokens instead"
        )
    read_initial_skill(config)
    look_at_environment(config)
    await ask_models({"target": config.models.target, "teacher": teacher_of(config)})


@asynccontextmanager
async def bank_session(
    config: RunConfig, store: RunStore, callback: Callback, make: MakeModel = make_model
) -> AsyncIterator[BankSession]:
    """Make the parts of a job, and close them at the end.

    Raises:
        UsageError: A file, environment, task or key of the configuration is missing or wrong.
    """
    _, latest = store.usage_since()
    async with open_resources(config, store, callback, make, after=latest) as parts:
        held, target = parts.held, parts.model(config.models.target)
        llm = parts.model(teacher_of(config))
        embedder = held.enter_context(opened_embedder(config.bank.embedder))
        ledger = EmbedderLedger(embedder, store)
        held.callback(ledger.settle)
        bench = held.enter_context(text_bench(config, store, parts, target))
        yield BankSession(
            config=config,
            store=store,
            bench=bench,
            evolution=evolution_split(bench.splits.train, config.evolve.nth),
            calls=parts.calls(llm),
            embedder=embedder,
            ledger=ledger,
            target=target.identity,
            document=read_initial_skill(config),
            callback=callback,
        )


@dataclass(frozen=True, slots=True)
class Study:
    """The parts of a job that learns from stored episodes."""

    llm: ModelConfig
    store: RunStore
    calls: StoredCalls
    is_near: IsNear

    def teacher(self, stage: str) -> Teacher:
        """Return the teacher, seeded by the stage."""
        return make_teacher(self.calls, self.llm, 0, stage)


@asynccontextmanager
async def study(
    bank: Path, settings: StudySettings, callback: Callback, make: MakeModel, *seen: Path
) -> AsyncIterator[Study]:
    """Make the parts of a job, and close them at the end.

    Args:
        bank: The bank's file; requests are stored next to it.
        settings: The teacher and its limits.
        callback: Receives the events.
        make: Makes the teacher.
        seen: Folders of the runs that are studied.

    Raises:
        BankError: The file cannot be written, or another process works on it.
    """
    llm = settings.models.teacher
    async with HttpClient() as client, AsyncExitStack() as held:
        store = held.enter_context(bank_work(bank, model_secrets([llm])))
        _, latest = store.usage_since()
        budget = Budget(settings.budget, store, after=latest)
        model = held.enter_context(open_model(llm, client, make, store, None, *seen))
        calls = StoredCalls(model, store, callback, permit=partial(budget.permit, "call"))
        is_near = nearness(held.enter_context(opened_embedder(settings.bank.embedder)))
        yield Study(llm, store, calls, is_near)
