"""Errors and failures."""

import pickle

import pytest

from skillwright.core import (
    ConfigError,
    ContractError,
    DataError,
    EnvError,
    Failure,
    FailureCause,
    ModelError,
    ModelRefused,
    ModelTimeout,
    ReplyInvalid,
    RunError,
    SkillwrightError,
    UsageError,
    did_you_mean,
)

ERRORS = [
    ConfigError,
    ContractError,
    DataError,
    EnvError,
    ModelError,
    ModelRefused,
    ModelTimeout,
    ReplyInvalid,
    RunError,
    UsageError,
]


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_has_one_base_and_survives_pickling(kind):
    copy = pickle.loads(pickle.dumps(kind("what, where, next move")))
    assert type(copy) is kind
    assert isinstance(copy, SkillwrightError)
    assert str(copy) == "what, where, next move"


@pytest.mark.parametrize(
    ("kind", "code"),
    [(ConfigError, 2), (DataError, 2), (RunError, 2), (ModelRefused, 2), (ModelError, 1)],
)
def test_an_error_knows_its_exit_code(kind, code):
    assert kind("x").exit_code == code


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (ModelError("x"), FailureCause.MODEL),
        (ModelRefused("x"), FailureCause.MODEL_REFUSED),
        (ReplyInvalid("x"), FailureCause.REPLY),
        (ModelTimeout("x"), FailureCause.TIMEOUT),
        (TimeoutError("x"), FailureCause.TIMEOUT),
        (EnvError("x"), FailureCause.ENVIRONMENT),
        (ZeroDivisionError("x"), FailureCause.ENVIRONMENT),
    ],
)
def test_a_fault_is_charged_to_the_boundary_that_it_crossed(fault, cause):
    assert Failure.of(fault) == Failure(cause, "x")


def test_a_fault_without_a_message_is_named_by_its_type():
    assert Failure.of(TimeoutError()).message == "TimeoutError"


@pytest.mark.parametrize("cause", FailureCause)
def test_a_failure_reads_back_what_it_wrote(cause):
    failure = Failure(cause, "why")
    assert failure.to_dict() == {"cause": cause.value, "message": "why"}
    assert Failure.from_dict(failure.to_dict()) == failure


def test_an_unknown_cause_is_refused():
    with pytest.raises(ValueError, match="gremlins"):
        Failure.from_dict({"cause": "gremlins", "message": ""})


def test_the_nearest_word_is_named_or_all_of_them():
    assert did_you_mean("alfword", ["webshop", "alfworld"]) == "Did you mean 'alfworld'?"
    assert did_you_mean("qqq", ["webshop", "alfworld"]) == "Known: alfworld, webshop."
    assert did_you_mean("qqq", []) == "Nothing is known under any name."
    assert did_you_mean("qqq", [f"run-{n:03}" for n in range(300)]).endswith(
        "run-018, run-019, and 280 more."
    )
