"""The bench of a third-party `EnvAdapter`, of either release of SkillOpt's adapter interface.

An adapter writes to the folders of SkillOpt (``steps/step_0001/rollout``, ...), below ``adapter/``
in the run's folder. A folder's name depends only on what is rolled out, so an adapter that
continues from its own files finds them after a resume.

Source: SkillOpt (microsoft/SkillOpt), API reference of June 2026 and the later release.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

from skillwright.config.env import AdapterData
from skillwright.config.run import RunConfig
from skillwright.core import ConfigError, EpisodeResult, RunError, SkillwrightError, Task
from skillwright.core.concurrency import together
from skillwright.core.jsonio import digest
from skillwright.datasets import BatchSpec
from skillwright.datasets.clusters import CLUSTER
from skillwright.datasets.memorized import memorized, memorized_line
from skillwright.evaluation import Draws
from skillwright.jobs.run.bank_source import refuse_bank
from skillwright.jobs.run.bench import Longitudinal, Sizes, SplitName, StepRef
from skillwright.jobs.run.progress import Callback, NullCallback, StageStarted
from skillwright.jobs.run.resources import Resources
from skillwright.jobs.run.tasks import make_adapter
from skillwright.jobs.text.adapters.models import (
    MakeRole,
    bound_models,
    flat_settings,
    named_models,
    set_up_within,
)
from skillwright.jobs.text.adapters.play import AdapterMemory, BatchPermit, Played, Player
from skillwright.jobs.text.adapters.rollouts import (
    AdapterDuel,
    AdapterPlanner,
    HeldOut,
    Rollouts,
    make_train_rollouts,
    refuse_no_score,
)
from skillwright.rollout.compat import ModelSession
from skillwright.rollout.foreign import ForeignAdapter
from skillwright.rollout.foreign_rows import Item, Row, as_json, items_by_id
from skillwright.rollout.workers import worker_engine
from skillwright.runs import RunStore
from skillwright.textopt import (
    Comparison,
    Optimizer,
    PairPolicy,
    Skipped,
    StepSettings,
    TextReflector,
    TrainRollouts,
)

# Longitudinal comparison: train episodes rolled out with both skills, and paired.
#
# Source: SkillOpt (microsoft/SkillOpt), longitudinal pairs, with the same sample and seed.


SAMPLE_STRIDE = 2_000
"""Distance between the seeds of the samples of consecutive epochs."""


async def compare_skills(
    rollouts: Rollouts, wanted: Longitudinal, sides: tuple[str, str], epoch: int
) -> Comparison:
    """Roll out a sample of train episodes with both skills, until there are enough pairs."""
    comparison = Comparison(wanted.wanted, wanted.policy, wanted.success_threshold)
    # Equal texts have no difference to measure, so nothing is played.
    if sides[0] == sides[1] and wanted.policy is PairPolicy.CHANGED:
        return comparison
    planner = rollouts.planner
    seed = planner.seed + epoch * SAMPLE_STRIDE
    batch: BatchSpec | None = await planner.sample(epoch, wanted.wanted, seed)
    rounds, items, rows = 0, dict[str, Item](), dict[str, Row]()
    while batch is not None:
        before, after = await _both(rollouts, batch, sides, (epoch, rounds))
        comparison = _with_pairs(comparison, before, after)
        items |= {**(before.items or {}), **(after.items or {})}
        rows |= after.stored
        rounds += 1
        seen = {result.task_id for result in before.results} | items.keys()
        batch = _next_batch(rollouts, comparison, seen, seed)
    return await _representative_first(rollouts, comparison, items, rows)


async def _both(
    rollouts: Rollouts, batch: BatchSpec, sides: tuple[str, str], at: tuple[int, int]
) -> tuple[Played, Played]:
    epoch, number = at
    again = f"_more_{number:02d}" if number else ""
    player = rollouts.player
    player.callback.on_event(
        StageStarted("epoch update", epoch=epoch, episodes=2 * batch.batch_size)
    )
    before, after = await together(
        player.play(
            replace(
                rollouts.ask(
                    batch, text, "train", f"slow_update/epoch_{epoch:02d}/rollout_{side}{again}"
                ),
                phase="slow_update",
                is_once=True,
            )
        )
        for side, text in zip(("prev", "curr"), sides, strict=True)
    )
    return before, after


def _with_pairs(comparison: Comparison, before: Played, after: Played) -> Comparison:
    """Add the episodes that both skills have, by row id, in the order of the previous skill."""
    current = {result.task_id: result for result in after.results}
    old = [result for result in before.results if result.task_id in current]
    old = old[: comparison.wanted]
    new = [current[result.task_id] for result in old]
    shared = {result.task_id for result in old}
    alone = [r for r in (*before.results, *after.results) if r.task_id not in shared]
    lost = tuple(Skipped(r.task_id, "it was rolled out under one skill only") for r in alone)
    tasks = tuple(result.spec.task for result in old)
    added = replace(comparison, queue=tasks).add(old, new)
    return replace(added, queue=(), lost=(*added.lost, *lost))


def _next_batch(
    rollouts: Rollouts, comparison: Comparison, seen: set[str], seed: int
) -> BatchSpec | None:
    """Return a batch that adds to the sample; ``None`` if it is complete or no items are left."""
    enough = len(comparison.pairs) >= comparison.wanted
    if enough or comparison.policy is not PairPolicy.CHANGED:
        return None
    more = rollouts.planner.others(dict.fromkeys(seen), seed)[: comparison.wanted]
    return rollouts.planner.part("train", [dict(item) for item in more]) if more else None


async def _representative_first(
    rollouts: Rollouts, comparison: Comparison, items: Mapping[str, Item], rows: Mapping[str, Row]
) -> Comparison:
    """Sort the representative pairs first: prompts have room for the first pairs only."""
    drawn = {pair.task_id: pair for pair in comparison.drawn}
    if not items or not drawn:
        return comparison
    foreign = rollouts.player.foreign
    chosen: list[Item] = await foreign.consult(
        [],
        foreign.adapter.select_representative_items,
        [rows[one] for one in drawn if one in rows],
        [dict(items[one]) for one in drawn if one in items],
        n_failures=len(drawn),
        n_successes=len(drawn),
        seed=rollouts.planner.seed,
    )
    first = [str(item.get("id")) for item in chosen if isinstance(item, Mapping)]
    order = [one for one in dict.fromkeys([*first, *drawn]) if one in drawn]
    return replace(comparison, drawn=tuple(drawn[one] for one in order))


_log = logging.getLogger(__name__)

FOLDER = "adapter"
"""The adapter's folder, below the run's folder."""


async def check_adapter(config: RunConfig) -> Sizes:
    """Set up an adapter as a run does, in a temporary folder, and return its sizes."""
    with (
        TemporaryDirectory(prefix="skillwright-", ignore_cleanup_errors=True) as scratch,
        RunStore.open(Path(scratch) / "run.sqlite") as store,
        named_models(config) as session,
    ):
        bench = await AdapterBench.open(config, store, Host(NullCallback(), session=session))
        bench.close()
    _say_what_has_no_effect(config)
    return bench.sizes


@asynccontextmanager
async def adapter_bench(
    config: RunConfig,
    store: RunStore,
    parts: Resources,
    model_of: MakeRole,
    *,
    forgets_failures: bool = False,
) -> AsyncIterator["AdapterBench"]:
    """Open the bench of the adapter that a configuration names; see `AdapterBench.open`."""
    refuse_bank(config)
    if config.rollout.reuse:
        raise ConfigError(
            "rollout.reuse: what an EnvAdapter rolled out in another run cannot be used again; "
            "leave it out"
        )
    if config.rollout.engine != "local":
        raise ConfigError(
            f"rollout.engine is {config.rollout.engine!r}, and an EnvAdapter rolls out by itself: "
            "leave it out. One whose requires_ray() is true finds Ray started, as rollout.ray says"
        )
    callback, budget = parts.seen.callback, parts.budget
    with bound_models(config, model_of, store, callback, budget) as session:
        identity = "the adapter plays" if session is None else model_of("target").identity
        host = Host(callback, partial(budget.permit, "episode"), session, identity)
        bench = await AdapterBench.open(config, store, host, forgets_failures=forgets_failures)
        try:
            async with bench.connected(config):
                yield bench
        finally:
            bench.close()


class Host(NamedTuple):
    """The parts of a run that an adapter uses; without a ``session``, it uses its own models."""

    callback: Callback
    permit: BatchPermit = nullcontext
    session: ModelSession | None = None
    target_identity: str = ""


@dataclass(slots=True)
class AdapterBench:
    """Plays an adapter's episodes; see `Bench`."""

    config: RunConfig
    rollouts: Rollouts
    train_size: int
    target_identity: str
    _settings: StepSettings | None = field(default=None, init=False)
    _is_open: bool = field(default=False, init=False)

    @classmethod
    async def open(
        cls, config: RunConfig, store: RunStore, host: Host, *, forgets_failures: bool = False
    ) -> Self:
        """Build the adapter that a configuration names, and set it up."""
        root = (store.folder / FOLDER).absolute()
        root.mkdir(parents=True, exist_ok=True)
        settings = flat_settings(config, root)
        memory = AdapterMemory(store, f"adapter:{config.env.name}", forgets_failures)
        with set_up_within(host.session):
            foreign = await make_adapter(config.env, settings)
            try:
                bench = await cls._set_up(config, foreign, settings, memory, host)
                bench._refuse_what_cannot_be()
            except BaseException as error:
                foreign.close()
                if isinstance(error, SkillwrightError) or not isinstance(error, Exception):
                    raise
                raise ConfigError(
                    f"adapter {config.env.name!r} cannot be set up: {type(error).__name__}: "
                    f"{error}. Its settings are in env.config."
                ) from error
        return bench

    @asynccontextmanager
    async def connected(self, config: RunConfig) -> AsyncIterator[None]:
        """Connect this process to Ray before the first rollout, where the adapter asks for it."""
        foreign = self.rollouts.player.foreign
        if not await foreign.call(foreign.adapter.requires_ray):
            yield
            return
        async with worker_engine("ray").connection(config.rollout.ray):
            yield

    @classmethod
    async def _set_up(
        cls,
        config: RunConfig,
        foreign: ForeignAdapter,
        settings: Mapping[str, Any],
        memory: AdapterMemory,
        host: Host,
    ) -> Self:
        planner = await _set_up(foreign, settings, memory, config)
        held_out: dict[SplitName, HeldOut] = {
            "val": await planner.held_out("val", settings["sel_env_num"]),
            "test": await planner.held_out("test", settings["test_env_num"]),
        }
        train_size = await _train_size(planner, config)
        asked = {key: value for key, value in settings.items() if key != "out_root"}
        version = str(getattr(foreign.adapter, "version", ""))
        player = Player(
            foreign=foreign,
            name=config.env.name,
            # Name and paths count as they are written: if files were moved, everything is rolled
            # out again, because nothing proves that they are the same.
            identity=digest([config.env.name, version, as_json(asked)]),
            memory=memory,
            root=Path(settings["out_root"]),
            retries=config.rollout.retries,
            callback=host.callback,
            task_types=await _task_types(foreign, config.env.name),
            permit=host.permit,
            max_failure_share=config.rollout.max_failure_share,
            session=host.session,
        )
        rollouts = Rollouts(player, planner, held_out)
        return cls(config, rollouts, train_size, host.target_identity)

    def bind(self, optimizer: Optimizer, settings: StepSettings) -> None:
        """Set the optimizer and its settings, for an adapter whose `reflect` uses our analysts."""
        self._settings = settings
        reflector = TextReflector(optimizer, settings, loop=asyncio.get_running_loop())
        self.player.foreign.adapter.bind_reflector(reflector)
        if self.player.session is not None:
            self.player.session.reflector = reflector

    def close(self) -> None:
        """Let the adapter's thread end."""
        self.player.foreign.close()

    @property
    def player(self) -> Player:
        """Rolls out, and remembers."""
        return self.rollouts.player

    @property
    def _kept(self) -> int:
        return self.config.evaluation.confirm_tasks

    @property
    def sizes(self) -> Sizes:
        """Numbers of episodes; ``None`` where they are unknown before a rollout."""
        held_out, known = self.rollouts.held_out, self.rollouts.ids("val", self._kept)
        val = len(known) if known else held_out["val"].size
        return Sizes(self.train_size, val, held_out["test"].size)

    @property
    def plays_whole(self) -> bool:
        """Whether a draw of any val item rolls out the whole split."""
        return not self.rollouts.knows_items("val")

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts about the episodes that are known before a rollout.

        The content of items is left out: `SplitDataLoader` compares it on a resume.
        """
        pool = getattr(self.rollouts.planner.loader, "train_items", None) or ()
        train = [str(item.get("id")) for item in pool if isinstance(item, Mapping)]
        val, test = self.rollouts.held_out["val"], self.rollouts.held_out["test"]
        return {
            "train": {"tasks": self.train_size, "sha256": digest(train)},
            "val": {"tasks": val.size, "sha256": digest(list(val.items or ()))},
            "test": {"tasks": test.size},
        }

    @property
    def clusters(self) -> Mapping[str, str]:
        """The cluster of each val item that names one."""
        items = self.rollouts.held_out["val"].items or {}
        return {one: str(item[CLUSTER]) for one, item in items.items() if item.get(CLUSTER)}

    def memorized(self, skill: str, initial: str) -> str:
        """Return a sentence on items whose answers a skill holds, if the items are known."""
        pool = items_by_id(getattr(self.rollouts.planner.loader, "train_items", None))
        known = {"val": self.rollouts.held_out["val"].items, "train": pool}
        found = {
            split: memorized(skill, initial, [Task(one, "", item) for one, item in items.items()])
            for split, items in known.items()
            if items
        }
        return memorized_line(found)

    async def batches(self, epoch: int, count: int, size: int) -> list[BatchSpec]:
        """Plan an epoch with the adapter's loader, or by seeds if it has none."""
        return await self.rollouts.planner.epoch(epoch, count, size)

    async def train_on(
        self, batch: BatchSpec, skill: str, place: StepRef, index: int
    ) -> TrainRollouts:
        """Roll out a micro-batch with feedback, for analysts to read."""
        folder = f"steps/step_{place.step:04d}"
        if self.config.train.accumulation > 1:
            folder += f"/batch_{index}"
        ask = replace(
            self.rollouts.ask(batch, skill, "train", f"{folder}/rollout"),
            step=place.step,
            is_once=True,
            trains_on=True,
        )
        played = await self.player.play(ask)
        return await make_train_rollouts(self.player, played, self._settings)

    async def measure(
        self, skill: str, split: SplitName, draw: int = 0, *, phase: str
    ) -> list[EpisodeResult]:
        """Roll out a whole split once."""
        ids = self.rollouts.ids("val", self._kept) if split == "val" else None
        results = await self.rollouts.play(split, skill, phase, draw=draw, ids=ids)
        refuse_no_score(results, split, self.player.name)
        return results

    def duel(self, incumbent: str, candidate: str, draws: Draws) -> AdapterDuel:
        """Return the duel of two skills on val; each draw rolls out the split once more."""
        ids = self.rollouts.ids("val", self._kept) or ()
        return AdapterDuel(self.rollouts, (incumbent, candidate), draws, ids)

    async def compare(self, previous: str, skill: str, epoch: int) -> Comparison:
        """Roll out train episodes with both skills, until there are enough pairs."""
        learning = self.config.optimizer
        wanted = Longitudinal(
            wanted=learning.slow_update_samples,
            policy=PairPolicy(learning.longitudinal_pair_policy),
            success_threshold=(
                self.config.gradient.success_threshold or self.config.env.success_threshold
            ),
        )
        return await compare_skills(self.rollouts, wanted, (previous, skill), epoch)

    async def open_test(self, skills: Mapping[str, str]) -> dict[str, list[EpisodeResult]]:
        """Roll out the sealed test split, once, with all skills concurrently."""
        if self._is_open:
            raise RunError("the test split was opened already; score every skill in one job")
        self._is_open = True
        return await self._play_all("test", skills, None, "test")

    async def confirm(self, skills: Mapping[str, str]) -> dict[str, list[EpisodeResult]]:
        """Roll out the val episodes that no gate has drawn, with all skills concurrently."""
        if not self._kept:
            return {}
        ids = (self.rollouts.ids("val") or ())[-self._kept :]
        return await self._play_all("val", skills, ids, "confirm")

    async def _play_all(
        self, split: SplitName, skills: Mapping[str, str], ids: Sequence[str] | None, phase: str
    ) -> dict[str, list[EpisodeResult]]:
        texts = tuple(dict.fromkeys(skills.values()))
        played = await together(self.rollouts.play(split, text, phase, ids=ids) for text in texts)
        by_text = dict(zip(texts, played, strict=True))
        for results in by_text.values():
            refuse_no_score(results, split, self.player.name)
        return {name: by_text[text] for name, text in skills.items()}

    def _refuse_what_cannot_be(self) -> None:
        kept, val = self._kept, self.rollouts.held_out["val"]
        if not kept:
            return
        if val.items is None:
            raise ConfigError(
                "evaluation.confirm_tasks keeps single val tasks from the gate, and adapter "
                f"{self.player.name!r} cannot be asked for single ones: that takes a data loader "
                "with items and build_env_from_batch(). Set it to 0."
            )
        if kept >= len(val.items):
            raise ConfigError(
                f"evaluation.confirm_tasks is {kept}, and val has {len(val.items)} tasks; the "
                "gate would have none"
            )


def _say_what_has_no_effect(config: RunConfig) -> None:
    """Warn of settings that an adapter ignores: it plays its episodes by itself."""
    usual = type(config.rollout)()
    for key in ("episode_timeout_s", "history_turns", "give_up_after"):
        if getattr(config.rollout, key) != getattr(usual, key):
            _log.warning(
                "rollout.%s has no effect: adapter %s plays its episodes itself",
                key,
                config.env.name,
            )


async def _set_up(
    foreign: ForeignAdapter, settings: Mapping[str, Any], memory: AdapterMemory, config: RunConfig
) -> AdapterPlanner:
    """Set up an adapter and its loader, as SkillOpt's trainer does."""
    adapter = foreign.adapter
    await foreign.call(adapter.setup, dict(settings))
    loader = await foreign.call(adapter.get_dataloader)
    if loader is not None:
        await foreign.call(loader.set_out_root, settings["out_root"])
        # Many adapters set up their loader by themselves; reading twice may double the items.
        if not await foreign.call(loader.get_train_size):
            await foreign.call(loader.setup, dict(settings))
        latest = memory.state()
        if latest is not None:
            await foreign.call(loader.load_state_dict, latest)
    return AdapterPlanner(
        foreign=foreign,
        loader=loader,
        memory=memory,
        seed=config.run.seed,
        out_root=settings["out_root"],
        accumulation=config.train.accumulation,
    )


async def _task_types(foreign: ForeignAdapter, name: str) -> frozenset[str]:
    """Return the task types that an adapter declares, maybe none."""
    try:
        return frozenset(map(str, await foreign.call(foreign.adapter.get_task_types) or ()))
    except Exception as error:  # noqa: BLE001 - foreign code; logged with its traceback
        foreign.faults.warn(f"{name}: get_task_types failed, so task types are not checked", error)
        return frozenset()


async def _train_size(planner: AdapterPlanner, config: RunConfig) -> int:
    """Return the number of episodes in an epoch."""
    data = config.env.data
    given = data.train if isinstance(data, AdapterData) else None
    known = None
    if planner.loader is not None:
        known = await planner.foreign.call(planner.loader.get_train_size)
        known = known or len(getattr(planner.loader, "train_items", None) or ()) or None
    if known and given and known != given:
        raise ConfigError(
            f"env.data.train is {given}, and the adapter's data loader has {known} train items; "
            "leave env.data.train out"
        )
    if not (known or given):
        raise ConfigError(
            f"the number of episodes per epoch of adapter {config.env.name!r} is unknown: set "
            "env.data.train, or let its data loader tell by get_train_size()"
        )
    return int(known or given or 0)
