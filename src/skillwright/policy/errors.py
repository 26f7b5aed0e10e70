"""The errors of policies. A prompt over the window is a `ContextOverflow`, as at an endpoint."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from skillwright.core import ConfigError, ContractError, DataError, RunError, SkillwrightError


class ModelMissing(ConfigError):
    """A base model is not on this machine."""


class NoChatTemplate(ConfigError):
    """A tokenizer does not say how a conversation is written."""


class ReferenceMissing(ConfigError):
    """A loss measures the distance from a reference, and none is frozen, or another one."""


class GroupTooSmall(ConfigError):
    """A group of one has nothing to be compared with."""


class TargetRefused(DataError):
    """A demonstration holds an action that the policy cannot take there."""


class CheckpointDamaged(RunError):
    """A checkpoint is not what was written, or of another policy."""


class BankVersionGone(RunError):
    """The bank version that a checkpoint refers to is not there."""


class ForeignRow(ContractError):
    """A row's tokens were made by another tokenizer, vocabulary or template."""


class RewardInvalid(ContractError):
    """A reward is not a finite number."""


class OutOfMemory(SkillwrightError):
    """A device's memory is spent."""


@contextmanager
def memory_watched(doing: str, settings: tuple[str, str, str]) -> Iterator[None]:
    """Turn both ways in which torch runs out of memory into one error that says what to lower."""
    try:
        yield
    except (torch.OutOfMemoryError, RuntimeError, MemoryError) as fault:
        if isinstance(fault, RuntimeError) and not _is_about_memory(fault):
            raise
        first, second, third = settings
        text = str(fault).strip()
        told = text.splitlines()[0] if text else type(fault).__name__
        raise OutOfMemory(
            f"memory is spent while {doing}: {told} Lower {first}, {second} or {third}."
        ) from fault


def _is_about_memory(fault: RuntimeError) -> bool:
    if isinstance(fault, torch.OutOfMemoryError):
        return True
    # The CPU's allocator raises a plain RuntimeError.
    return "DefaultCPUAllocator" in str(fault) or "out of memory" in str(fault)
