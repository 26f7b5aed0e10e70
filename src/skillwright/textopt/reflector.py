"""The analysts behind `EnvAdapter.reflect`'s default: rows in, raw patches out."""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skillwright.core import (
    ContractError,
    FailureSummaryEntry,
    Patch,
    RawPatch,
    ReflectRequest,
)
from skillwright.core.codec import encode_fields
from skillwright.core.jsonio import dumps, write_text
from skillwright.rollout.transcript import read_rows
from skillwright.textopt.context import ANY_REWARD, StepContext, StepSettings
from skillwright.textopt.optimizer import Optimizer
from skillwright.textopt.proposal import AnalystFault
from skillwright.textopt.reflect import AnalystPatch, Reflection, reflect

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TextReflector:
    """A core `Reflector` over an `Optimizer`.

    Attributes:
        optimizer: Who reads and proposes.
        settings: What the request does not say. Every reward above zero is a success, as adapters
            were written for.
        loop: The event loop that the optimiser's model belongs to; calls are sent there from the
            adapter's thread. ``None`` runs a loop of its own for each request.
    """

    optimizer: Optimizer
    settings: StepSettings = field(
        default_factory=lambda: StepSettings(success_threshold=ANY_REWARD)
    )
    loop: asyncio.AbstractEventLoop | None = None

    def reflect(self, request: ReflectRequest) -> list[dict[str, Any] | None]:
        """Return raw patches in the order of the minibatches; ``None`` for one that failed.

        Rows that cannot be read and answers that cannot be used are logged as warnings.

        Raises:
            ContractError: It is called on the event loop that it would wait for.
            EngineDown: Not one analyst could be reached.
        """
        read = read_rows(request.results, request.prediction_dir)
        for row in read.skipped:
            logger.warning("row %r is not analysed: %s", row.id, row.reason)
        reflection = self._wait(
            reflect(
                replace(
                    self.optimizer,
                    env_prompts={**self.optimizer.env_prompts, **dict(request.prompts)},
                ),
                replace(
                    self.settings,
                    minibatch_size=request.minibatch_size,
                    failure_only=request.failure_only,
                    analyst_workers=request.analyst_workers,
                ),
                StepContext(
                    name="adapter",
                    skill=request.skill,
                    budget=request.edit_budget,
                    seed=request.seed,
                    earlier_steps=request.step_buffer_context,
                    meta_skill=request.meta_skill_context,
                ),
                read.rows,
            )
        )
        reflection.refuse_dead_optimizer()
        for fault in reflection.faults:
            logger.warning("analyst %s gave nothing usable: %s", fault.call, fault.failure.message)
        key = self.settings.update_mode.payload_key
        if request.patches_dir is not None:
            _keep(reflection, request.patches_dir, key)
        return [_payload(outcome, key) for outcome in reflection.outcomes]

    def _wait(self, coroutine: Coroutine[Any, Any, Reflection]) -> Reflection:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if self.loop is None:
                return asyncio.run(coroutine)
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()
        coroutine.close()
        raise ContractError(
            "reflect() blocks, and was called on an event loop's own thread; "
            "call it from a worker thread (asyncio.to_thread)"
        )


def _keep(reflection: Reflection, folder: Path, key: str) -> None:
    """Write each minibatch's answer under its documented name, faults included.

    The files are for people. Nothing is read back: a file of the same number may stem from other
    trajectories.
    """
    for outcome in reflection.outcomes:
        name = outcome.call.rpartition(".")[2]
        kind = "fail" if name.startswith("f") else "succ"
        body = {**encode_fields(outcome), **(_payload(outcome, key) or {})}
        write_text(folder / f"minibatch_{kind}_{int(name[1:]):03d}.json", dumps(body, indent=2))


def _payload(outcome: AnalystPatch | AnalystFault, key: str) -> dict[str, Any] | None:
    if isinstance(outcome, AnalystFault):
        return None
    raw = RawPatch(
        patch=Patch([p.edit for p in outcome.proposals], outcome.reasoning),
        source_type=outcome.source_type,
        batch_size=len(outcome.trajectories),
        failure_summary=[
            FailureSummaryEntry(note.failure_type, note.count, note.description)
            for note in outcome.failures
        ],
    )
    payload = raw.to_dict()
    items = payload["patch"].pop("edits")
    # Beyond the documented fields, so that an adapter that passes them on keeps the evidence.
    for item, proposal in zip(items, outcome.proposals, strict=True):
        item["evidence"] = [one.to_dict() for one in proposal.evidence]
    for entry, note in zip(payload["failure_summary"], outcome.failures, strict=True):
        entry["ids"] = list(note.trajectories)
    payload["patch"][key] = items
    if outcome.execution_notes:
        payload["appendix_notes"] = list(outcome.execution_notes)
    return {**payload, "success_patterns": list(outcome.success_patterns)}
