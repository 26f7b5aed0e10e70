"""Weights on disk: which checkpoints there are, and which are still needed.

checkpoints/iteration_00000.ckpt    what the cold start ended with: the reference
checkpoints/iteration_00040.ckpt    the best on val
checkpoints/iteration_00050.ckpt    the latest
"""

import re
from collections.abc import Iterable
from pathlib import Path

from skillwright.bank import BankStore
from skillwright.core import RunError
from skillwright.jobs.rl.state import RlState
from skillwright.policy import (
    BankVersionGone,
    Checkpoint,
    CheckpointDamaged,
    PolicyBackend,
    load_checkpoint,
    save_checkpoint,
)

_NAME = re.compile(r"iteration_(\d{5,})\.ckpt")


class Checkpoints:
    """The checkpoints of a run."""

    def __init__(self, folder: Path, bank_store: BankStore) -> None:
        self._folder = folder
        self._bank_store = bank_store

    @property
    def iterations(self) -> list[int]:
        """After which iterations there is one, rising."""
        if not self._folder.is_dir():
            return []
        found = (_NAME.fullmatch(path.name) for path in self._folder.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def path(self, iteration: int) -> Path:
        """Return the file of an iteration's checkpoint."""
        return self._folder / f"iteration_{iteration:05d}.ckpt"

    def save(self, backend: PolicyBackend, iteration: int, bank_version: int) -> None:
        """Keep everything that the next iteration depends on."""
        bank = self._bank_store.load(bank_version)
        kept = Checkpoint(backend.snapshot(), iteration, bank_version, bank.digest)
        try:
            save_checkpoint(self.path(iteration), kept)
        except OSError as error:
            raise RunError(
                f"checkpoint {str(self.path(iteration))!r} cannot be written: {error.strerror}. "
                "Make room, then resume; the one before it is untouched"
            ) from error

    def load(self, backend: PolicyBackend, iteration: int) -> Checkpoint:
        """Take a policy back to a checkpoint."""
        versions = {0, *self._bank_store.versions()}
        kept = load_checkpoint(self.path(iteration), versions)
        version = kept.bank_version or 0
        if self._bank_store.load(version).digest != kept.bank_digest:
            raise BankVersionGone(
                f"checkpoint {str(self.path(iteration))!r} was trained with another version "
                f"{version} of the skill bank than {str(self._bank_store.path)!r} holds: bring "
                "back the bank's file that belongs to this run"
            )
        try:
            backend.load(kept.policy)
        except CheckpointDamaged as error:
            raise CheckpointDamaged(f"checkpoint {str(self.path(iteration))!r}: {error}") from error
        return kept

    def latest(self, backend: PolicyBackend, before: int) -> int:
        """Take a policy back to the latest checkpoint that can be read; return its iteration.

        A damaged one is passed over: what came after the one before it is played again, and ends
        the same.
        """
        damage: CheckpointDamaged | None = None
        for iteration in reversed([number for number in self.iterations if number <= before]):
            try:
                self.load(backend, iteration)
            except CheckpointDamaged as error:
                damage = damage or error
            else:
                return iteration
        raise damage or CheckpointDamaged(
            f"there is no checkpoint in {str(self._folder)!r}, and the run is past its cold start; "
            "restore the folder from a copy, or start a new run"
        )

    def prune(self, state: RlState, latest: int) -> None:
        """Delete what is no longer needed: all but the reference, the best and the latest."""
        best = state.best.iteration if state.best else 0
        for iteration in self._others({0, best, latest}):
            self.path(iteration).unlink(missing_ok=True)
        for unfinished in self._folder.glob(".iteration_*"):  # a process was killed there
            unfinished.unlink(missing_ok=True)

    def _others(self, needed: Iterable[int]) -> list[int]:
        kept = set(needed)
        return [number for number in self.iterations if number not in kept]
