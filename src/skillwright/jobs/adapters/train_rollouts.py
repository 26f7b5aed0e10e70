"""A micro-batch of an adapter, ready for analysts: its own, or ours with its prompts."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from skillwright.core import Failure, FailureCause
from skillwright.core.jsonio import digest, text_digest
from skillwright.jobs.adapters.play import PREDICTIONS, Played, Player, raise_if_hopeless
from skillwright.rollout import EngineDown
from skillwright.rollout.foreign_rows import Row, as_json
from skillwright.textopt import (
    AnalystFault,
    Reflection,
    Skipped,
    StepContext,
    StepSettings,
    TrainRollouts,
    Transcripts,
    read_raw_patches,
    read_rows,
)

_PROMPTS = ("analyst_error", "analyst_success")
_FORMS = ("_rewrite", "_full_rewrite")
MOST_LOST_REFLECTIONS = 3
"""So many faults of an adapter's own analysts in a row, and the run stops: each costs a step."""

_log = logging.getLogger(__name__)


async def make_train_rollouts(
    player: Player, played: Played, settings: StepSettings | None
) -> TrainRollouts:
    """Prepare a micro-batch for analysts."""
    if settings is None or not player.foreign.overrides("reflect"):
        rows = await _with_references(player, played, played.stored)
        prompts = await _own_prompts(player)
        return TrainRollouts(await _transcripts(played, rows), played.ask.seed, env_prompts=prompts)
    transcripts = await _transcripts(played, list(played.stored.values()))
    # Its own analysts may look for what no store can keep.
    rows = await _with_references(player, played, played.rows)
    analysts = _OwnAnalysts(player, played, rows, transcripts, settings)
    return TrainRollouts(transcripts, played.ask.seed, reflect=analysts.reflect)


async def _transcripts(played: Played, rows: Sequence[Row]) -> Transcripts:
    read = await asyncio.to_thread(read_rows, rows, played.folder / PREDICTIONS)
    return Transcripts(read.rows, (*read.skipped, *_faults(played)))


@dataclass(frozen=True, slots=True)
class _OwnAnalysts:
    """An adapter's `reflect`, asked once for every question."""

    player: Player
    played: Played
    rows: Sequence[Row]
    transcripts: Transcripts
    settings: StepSettings

    async def reflect(self, context: StepContext) -> Reflection:
        """Ask the adapter's analysts; what they said before a resume they are not asked again.

        Raises:
            EngineDown: They failed several times in a row.
            ModelRefused: An endpoint that they use refuses the key or the model.
            UsageError: What they were asked for cannot be done.
        """
        if not self.rows:
            return Reflection()
        about = [context.name, context.seed, context.earlier_steps, context.meta_skill]
        key = digest([self.played.key, text_digest(context.skill), *about])
        proposed = self.player.memory.patches(key)
        if proposed is None:
            try:
                answer = await self._ask(context)
            except Exception as error:  # noqa: BLE001 - foreign code; logged, and a fault
                raise_if_hopeless(error)
                return Reflection((self._fault(context, error),))
            self.player.lost_reflections = 0
            proposed = self.player.memory.keep_patches(key, *_listed(answer))
        read = read_raw_patches(
            proposed.patches,
            name=context.name,
            transcripts=self.transcripts,
            settings=self.settings,
            context=context,
        )
        if proposed.note:
            read = replace(read, notes=(f"{context.name}: {proposed.note}", *read.notes))
        self._tell(context, proposed.patches, read)
        return read

    def _tell(self, context: StepContext, patches: Sequence[Any], read: Reflection) -> None:
        """Show what became of an answer that could not be used as it came, in one line."""
        # One that is None is how an adapter says of a minibatch that there is nothing to propose.
        none = {f"{context.name}.a{at}" for at, patch in enumerate(patches) if patch is None}
        notes = [note for note in read.notes if note.partition(" ")[0] not in none]
        notes += [f"{patch.call}: {note}" for patch in read.patches for note in patch.notes]
        if notes:
            more = f" (and {len(notes) - 1} more, in the store)" if len(notes) > 1 else ""
            _log.warning("%s: reflect, %s%s", self.player.name, notes[0], more)

    def _fault(self, context: StepContext, error: Exception) -> AnalystFault:
        player, name = self.player, self.player.name
        player.foreign.faults.warn(f"{name}: reflect failed for {context.name}", error)
        said = f"reflect of {name!r} raised {type(error).__name__}: {error}"
        player.lost_reflections += 1
        if player.lost_reflections >= MOST_LOST_REFLECTIONS:
            raise EngineDown(
                f"{said}. That is {player.lost_reflections} times in a row; mend it, and the run "
                "continues."
            ) from error
        # Analysts call nobody but an endpoint; its faults end the step's run, as ours would.
        lost = isinstance(error, ConnectionError)
        cause = FailureCause.MODEL if lost else Failure.of(error).cause
        return AnalystFault(f"{context.name}.a0", Failure(cause, said), "")

    async def _ask(self, context: StepContext) -> Any:
        foreign, root = self.player.foreign, self.played.folder.parent  # the step's
        patches = root / "patches"
        patches.mkdir(parents=True, exist_ok=True)
        session = self.player.session
        with nullcontext() if session is None else session.hear() as hearing:
            answer = await foreign.call(
                foreign.adapter.reflect,
                list(self.rows),
                context.skill,
                str(root),
                prediction_dir=str(self.played.folder / PREDICTIONS),
                patches_dir=str(patches),
                random_seed=self.played.ask.seed,
                step_buffer_context=context.earlier_steps,
                meta_skill_context=context.meta_skill,
            )
        if hearing is not None:
            hearing.refuse_missing()
        return answer


def _listed(answer: Any) -> tuple[list[Any], str]:
    """Return patches as JSON, and what is odd about the answer as a whole."""
    if answer is None:
        return [], "it returned None; an empty list says that there is nothing to propose"
    if not isinstance(answer, list | tuple):
        return [as_json(answer)], f"it returned {type(answer).__name__}, not a list of patches"
    return [as_json(patch) for patch in answer], ""


async def _with_references(player: Player, played: Played, by_id: Mapping[str, Row]) -> list[Row]:
    """Return the scored rows with what only analysts may know, where their items are known."""
    rows = [by_id[r.task_id] for r in played.results if r.task_id in by_id]
    if not rows or not played.items:
        return rows
    foreign, items = player.foreign, list(played.items.values())
    extended = await foreign.consult(rows, foreign.adapter.attach_reference_context, rows, items)
    if not all(isinstance(row, dict) for row in extended):
        _log.warning("%s: attach_reference_context returned what are no rows", player.name)
        return rows
    named: set[str] = set()
    for item in items:
        nothing: dict[str, Any] = {}
        found = await foreign.consult(nothing, foreign.adapter.get_reference_metadata, item)
        named |= {str(name) for name in found.get("fields") or ()}
    if named:
        _log.info("%s: analysts see reference fields %s", player.name, ", ".join(sorted(named)))
    return extended


def _faults(played: Played) -> list[Skipped]:
    return [
        Skipped(result.task_id, f"it has no score: {result.failure.message}")
        for result in played.results
        if result.failure is not None
    ]


async def _own_prompts(player: Player) -> dict[str, str]:
    """Return the prompts that the adapter brings for analysts, by our names for them."""
    foreign, adapter = player.foreign, player.foreign.adapter
    found = {
        "analyst_error": await foreign.consult("", adapter.get_error_minibatch_prompt),
        "analyst_success": await foreign.consult("", adapter.get_success_minibatch_prompt),
    }
    for name in (prompt + form for prompt in _PROMPTS for form in _FORMS):
        found[name] = await foreign.consult("", adapter._load_env_prompt, name)
    return {name: text for name, text in found.items() if text}
