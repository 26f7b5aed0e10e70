"""Passes over columns that do not move, as a GPU replays them; without one nothing is recorded."""

import pytest

from policy.tiny_models import tiny_model, tiny_tokenizer
from skillwright.core import TurnContext
from skillwright.policy.hf import HfPolicy, HfSettings, steady
from skillwright.policy.hf.steady import Recording, Steady

LONG = HfSettings(max_new_tokens=90, device="cpu", precision="float64")


def usual(kind="qwen"):
    return HfPolicy(tiny_model(kind), tiny_tokenizer(), LONG)


def with_passes(kind="qwen"):
    backend = usual(kind)
    off = Recording(is_possible=False)
    backend._begin = lambda lane: Steady(lane, backend._read_steady, off)
    return backend


def two_turns(backend):
    talks = [({"role": "user", "content": "heat the mug " * number},) for number in range(1, 9)]
    first = backend.sample([TurnContext(t, seed=n) for n, t in enumerate(talks)], temperature=1.0)
    more = {"role": "user", "content": "and now?"}
    talks = [
        (*talk, {"role": "assistant", "content": one.act.text}, more)
        for talk, one in zip(talks, first, strict=True)
    ]
    second = [TurnContext(talk, seed=100 + n) for n, talk in enumerate(talks)]
    return [*first, *backend.sample(second, temperature=1.0)]


def same(found, wanted):
    assert [one.act.token_ids for one in found] == [one.act.token_ids for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one.act.logprobs == pytest.approx(other.act.logprobs, abs=1e-9)
        assert one.act.usage == other.act.usage


@pytest.mark.parametrize("kind", ["qwen", "llama"])
def test_answers_are_the_ones_that_the_usual_way_gives(kind, monkeypatch):
    monkeypatch.setattr(steady, "AHEAD", 1)  # room runs out before the answers end
    wanted, found = two_turns(usual(kind)), two_turns(with_passes(kind))
    same(found, wanted)
    lengths = [len(one.act.token_ids) for one in found]
    assert max(lengths) == 90
    assert min(lengths) < 80  # some ended while others were read on
    assert min(one.act.usage.cached_tokens for one in found[8:]) > 30  # the lane was given back


def test_a_model_that_cannot_be_recorded_is_read_all_the_same():
    backend = usual()
    backend._recording = Recording(is_possible=True)  # which it is not, without a GPU
    same(two_turns(backend), two_turns(usual()))
    assert not backend._recording.is_possible
