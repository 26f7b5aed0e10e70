"""Dataclasses read back what they wrote, older ones too, and say what is wrong with bad ones."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import Failure, FailureCause, Usage
from skillwright.core.jsonio import (
    REFUSE_UNKNOWN,
    JsonRecord,
    NotDecodable,
    decode,
    encode,
)
from skillwright.evaluation import (
    AlphaLedger,
    Decision,
    Interval,
    PairedDifference,
    PairedEffect,
    Score,
    ScoreTable,
    SelectionBias,
    SplitReport,
    Verdict,
)
from skillwright.textopt import FailurePattern, StepEntry, StepMemory, TriedEdit

STORED = (
    Failure,
    PairedDifference,
    PairedEffect,
    Score,
    ScoreTable,
    SelectionBias,
    SplitReport,
    StepEntry,
    Usage,
    Verdict,
)
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))


@dataclass(frozen=True, slots=True)
class Inner(JsonRecord):
    cause: FailureCause
    pair: tuple[int, str]


@dataclass(frozen=True, slots=True)
class Outer(JsonRecord):
    __pydantic_config__: ClassVar = REFUSE_UNKNOWN

    inner: Inner
    many: tuple[Inner, ...] = ()
    named: Mapping[str, Inner] = field(default_factory=dict)


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_a_stored_class_reads_back_what_it_wrote(kind, data):
    value = data.draw(st.from_type(kind))
    assert decode(kind, json.loads(json.dumps(encode(value)))) == value


def test_enums_are_written_as_values_and_tuples_as_lists():
    inner = Inner(FailureCause.MODEL, (1, "x"))
    written = {"cause": "model", "pair": [1, "x"]}
    outer = Outer(inner, (inner,), {"a": inner})
    assert outer.to_dict() == {"inner": written, "many": [written], "named": {"a": written}}
    assert type(encode(Decision.ACCEPT)) is str
    assert encode((Interval(0.0, 1.0), {"b", "a"})) == [[0.0, 1.0], ["a", "b"]]
    assert Outer.from_dict(outer.to_dict()) == outer


def test_a_value_of_an_older_version_takes_defaults_for_what_it_lacks():
    inner = {"cause": "model", "pair": [1, "x"]}
    assert Outer.from_dict({"inner": inner}) == Outer(Inner(FailureCause.MODEL, (1, "x")))
    assert decode(StepMemory, {"entries": [], "max_steps": 3}) == StepMemory(max_steps=3)


def test_unknown_keys_are_dropped_or_refused_as_the_class_says():
    inner = {"cause": "model", "pair": [1, "x"], "new": 1}
    assert decode(Inner, inner) == Inner(FailureCause.MODEL, (1, "x"))
    with pytest.raises(NotDecodable, match="Outer: 'new' is unknown"):
        decode(Outer, {"inner": inner, "new": 1})


@pytest.mark.parametrize(
    ("kind", "bad", "message"),
    [
        (Failure, {"cause": "model"}, "Failure: 'message' is missing"),
        (Outer, {"inner": {"cause": "gremlins", "pair": [1, "x"]}}, r"inner\.cause.*'gremlins'"),
        (Outer, {"inner": {"cause": "model", "pair": ["x", "x"]}}, r"inner\.pair\.0.*'x'"),
        (AlphaLedger, {"total": 2.0, "planned": 1}, "AlphaLedger: alpha is 2.0"),
        (TriedEdit, [], r"TriedEdit: .* not \[\]"),
        (FailurePattern, None, "FailurePattern: .* not None"),
    ],
)
def test_a_bad_value_is_named_with_its_place(kind, bad, message):
    with pytest.raises(NotDecodable, match=message):
        decode(kind, bad)


def test_what_is_read_can_be_named():
    with pytest.raises(NotDecodable, match="event 3 of 'a-run': 'message' is missing"):
        decode(Failure, {"cause": "model"}, "event 3 of 'a-run'")


def test_only_who_decodes_waits_for_pydantic():
    asked = "import sys, skillwright.core.jsonio; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0
