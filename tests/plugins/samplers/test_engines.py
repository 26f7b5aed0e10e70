"""Free answers by vLLM or SGLang: stand-ins answer in their place, with their interfaces."""

import gc
import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hf_world import hf_config, write_tiny
from policy.tiny_models import tiny_model, tiny_tokenizer
from rl_world import recipe
from skillwright.core import ConfigError, RunError, TurnContext
from skillwright.jobs.weights import supervised
from skillwright.jobs.weights.wiring import PolicyMaker
from skillwright.plugins.samplers.engines import Engine
from skillwright.policy import GrpoObjective, GrpoSettings, SftLoss, update
from skillwright.policy.hf import HfPolicy, HfSettings, Lora

KINDS = ("vllm", "sglang")
LORA = Lora(rank=4, alpha=8)


@pytest.fixture(params=KINDS)
def kind(request, monkeypatch):
    """The name of an engine, whose stand-in is installed and forgotten again."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "fake_engines"))
    yield request.param
    for name in (*KINDS, "answering"):
        sys.modules.pop(name, None)


def policy(kind="", **settings):
    made = HfPolicy(
        tiny_model(),
        tiny_tokenizer(),
        HfSettings(max_new_tokens=8, device="cpu", precision="float32", **settings),
    )
    made.engine = Engine(kind, made, 0.3) if kind else None
    return made


def context(text, seed=0, commands=()):
    messages = ({"role": "user", "content": text},)
    return TurnContext(messages, seed, {"admissible_commands": list(commands)})


def learn(backend):
    rows = [backend.target(context("go"), "take the mug")]
    backend.forward_backward(rows, SftLoss.over(rows))
    backend.optim_step(0.01)


def answers(backend, temperature=0.0):
    asked = [context(text, seed) for seed, text in enumerate(("go", "look at it", "go to shelf"))]
    return backend.sample(asked, temperature=temperature)


def token_ids(sampled):
    return [one.act.token_ids for one in sampled]


def only(kind):
    """Return the one engine that was made."""
    (made,) = importlib.import_module(kind).made
    return made


@pytest.mark.parametrize("lora", [None, LORA], ids=["full", "lora"])
def test_an_engine_answers_with_the_present_weights(kind, lora):
    served, own = policy(kind, lora=lora), policy(lora=lora)
    if lora is not None:  # adapters begin with numbers that are drawn
        own.begin_from(served.state())
    for _ in range(3):
        assert token_ids(answers(served)) == token_ids(answers(own))
        learn(served)
        learn(own)
    assert only(kind).held.reads == 3


def test_weights_are_handed_over_when_they_have_changed_and_only_then(kind):
    served = policy(kind)
    before = served.state()["weights"]["trained"]
    kept = {**served.state(), "weights": {**served.state()["weights"]}}
    kept["weights"]["trained"] = {name: one.clone() for name, one in before.items()}
    first = answers(served)
    assert token_ids(answers(served)) == token_ids(first)
    assert only(kind).held.reads == 1
    for _ in range(3):
        learn(served)
    assert token_ids(answers(served)) != token_ids(first)
    served.begin_from(kept)
    assert token_ids(answers(served)) == token_ids(first)
    assert only(kind).held.reads == 3


def test_probabilities_are_the_policys_own_and_rows_can_be_learned_from(kind):
    served = policy(kind)
    sampled = answers(served, temperature=1.3)
    rows = [one.row for one in sampled]
    assert {row.temperature for row in rows} == {1.3}
    assert [row.old_logprobs for row in rows] == served.logprobs(rows)
    assert all(all(row.loss_mask) for row in rows)
    assert token_ids(answers(served, temperature=1.3)) == token_ids(sampled)
    for one in sampled:
        ended = one.act.token_ids[-1] in served.speech.stop_ids
        assert one.act.finish_reason == ("stop" if ended else "length")
        assert one.act.text == served.speech.text(one.act.token_ids)


def test_answers_that_are_held_to_commands_are_drawn_here(kind):
    served, own = policy(kind), policy()
    commands = ("take mug", "look")
    mixed = [
        context("go", 1, commands),
        context("look at it", 2),
        context("go to shelf", 3, commands),
    ]
    sampled = served.sample(mixed, temperature=0.0)
    assert token_ids(sampled) == token_ids(own.sample(mixed, temperature=0.0))
    assert [one.act.text in commands for one in sampled] == [True, False, True]
    assert len(only(kind).held.known) == 1


def test_the_folder_of_weights_goes_with_the_policy(kind):
    served = policy(kind)
    answers(served)
    folder = Path(only(kind).held.folder)
    assert folder.is_dir()
    del served
    gc.collect()
    assert not folder.parent.exists()


def test_an_engines_own_probabilities_are_kept_at_the_temperature_of_sampling(kind):
    served = policy(kind)
    answers(served)
    only(kind).held.noise = 0.25
    only(kind).held.forget()
    rows = [one.row for one in answers(served, temperature=1.3)]
    for row in rows:
        expected = [one + 0.25 for one in row.old_logprobs]
        assert row.sampler_logprobs == pytest.approx(expected, abs=1e-5)
    assert [one.row.sampler_logprobs for one in answers(served)] == [()] * 3  # greedy


def test_an_engine_without_probabilities_is_refused_where_they_are_needed(kind):
    served = policy(kind)
    answers(served)
    only(kind).gives_logprobs = False
    rows = [
        replace(one.row, advantage=1.0, episode=str(number))
        for number, one in enumerate(answers(served, temperature=1.3))
    ]
    settings = GrpoSettings(objective=GrpoObjective(kl_weight=0.0, tis_cap=2.0))
    with pytest.raises(RunError, match=r"no log-probabilities.*grpo\.tis_cap: 0"):
        update(served, rows, settings, seed=0)
    off = GrpoSettings(objective=GrpoObjective(kl_weight=0.0))
    assert update(served, rows, off, seed=0).total().sampler_gap == 0


async def test_a_training_samples_by_an_engine(kind, tmp_path):
    base = write_tiny(tmp_path / "base")
    config = hf_config(
        tmp_path,
        base,
        policy={"sampler": kind},
        cold_start={"steps": 2, "tasks": 2, "episodes": 1},
    )
    _, report = await recipe(config)
    assert list(report.state.iterations) == [1]
    assert 0 < report.state.iterations[1].sampler_gap < 1e-4
    # Weights of the cold start and of the iteration, and both again for the sealed test.
    assert only(kind).held.reads == 4


def test_an_engine_that_cannot_be_started_says_what_to_set(kind, monkeypatch):
    if kind != "vllm":
        pytest.skip("one stand-in that fails is enough")
    served = policy(kind, context_tokens=13)
    monkeypatch.setattr(HfPolicy, "_check_fits", lambda *_: None)
    with pytest.raises(RunError, match=r"vllm failed: RuntimeError: .*policy\.sampler: own"):
        answers(served)


@pytest.mark.parametrize("name", KINDS)
def test_an_engine_that_is_not_installed_is_named_before_a_run_begins(tmp_path, name):
    if importlib.util.find_spec(name):
        pytest.skip(f"{name} is installed here")
    config = hf_config(tmp_path, write_tiny(tmp_path / "base"), policy={"sampler": name})
    with pytest.raises(ConfigError, match=f"pip install {name}"):
        PolicyMaker(supervised(config)).check()
