"""Names in the event log of a run: the kinds of its events and the jobs.

They stand apart from the jobs, which take much longer to import than a listing of runs needs.
"""

from enum import StrEnum
from typing import Final

MADE = "made"
"""The first event of a run: its job and its initial facts."""
EVALUATED = "evaluated"
"""The event with the report of an evaluation."""
CHECK: Final = "check"
"""The job of a run that compares a new skill with an old one."""
CHECKED: Final = "checked"
"""The event with the report of a check."""
SERVE: Final = "serve"
"""The job of a run that holds the conversations of `skillwright serve`."""
RL: Final = "rl"
"""The job of a run that trains weights."""
UNUSABLE: Final = "optimizer_unusable"
"""The event with which a training stops because the optimizer's replies cannot be used."""
STUDY_NAME = "study.yaml"
"""The file that makes a folder of runs a study."""


class Kind(StrEnum):
    """The kinds of events in a run's store."""

    BASELINE = "baseline"
    """The initial skill has its score on val."""
    STEP = "step"
    """A step is decided."""
    EPOCH = "epoch"
    """An epoch is updated."""
    FINAL = "final"
    """The last skill, where it is not the best one, was judged against that."""
    TEST_OPENED = "test_opened"
    """The sealed tasks are opened; the artifacts that will be scored are fixed."""
    TEST = "test"
    """The artifacts have their scores on test."""
    CONFIRMED = "confirmed"
    """The initial and the best skill have their scores on the tasks that no gate has drawn."""
    LINES = "lines"
    """Lines that do not help are taken out of the current skill."""
    FINISHED = "finished"
    """Nothing is left to do."""
    CONTINUED = "continued"
    """A finished training that its budget had cut short continues with a larger one."""
    RESTORED = "restored"
    """A person made another version the released one."""


class RlKind(StrEnum):
    """The kinds of events of a run."""

    BANK = "first_bank"
    POLICY = "policy"
    """The policy is built, and has learned nothing yet."""
    COLD_START = "cold_start"
    """The policy has learned from the expert; its weights are now the reference."""
    ITERATION = "iteration"
    EVOLUTION = "evolution"
    """An update of the bank is decided."""
    POLICY_STEP = "policy_step"
    """The gate has judged the weights of a policy step."""
    VALIDATION = "validation"
    RELEASE = "rl_release"
    """The selected weights were tested against the baseline."""
    INTERNALIZED = "internalized"
    """It is decided whether skills that were distilled into the weights are retired."""
    TEST_OPENED = "rl_test_opened"
    """The sealed tasks are opened; the artifacts to score are fixed."""
    TEST = "rl_test"
    FINISHED = "rl_finished"
