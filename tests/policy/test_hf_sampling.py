"""The language-model policy: what it samples, and what its rows say."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from transformers import MambaConfig, MambaForCausalLM

from policy.errands import played, specs
from policy.tiny_models import TRIMMING, tiny_model, tiny_tokenizer
from skillwright.core import ConfigError, ContractError, TurnContext
from skillwright.models import ContextOverflow
from skillwright.policy import ModelMissing, NoChatTemplate, OutOfMemory, joined
from skillwright.policy.hf import HfPolicy, HfSettings

SMALL = HfSettings(max_new_tokens=8, device="cpu", precision="float32")
COMMANDS = ["go to shelf", "go to shelf 1", "go to mug", "look"]


def policy(settings=SMALL, *, kind="qwen", template=None, **changes):
    tokenizer = tiny_tokenizer(template) if template else tiny_tokenizer()
    return HfPolicy(tiny_model(kind, **changes), tokenizer, settings)


def context(text, seed=0, commands=None):
    offered = {"admissible_commands": commands} if commands else {}
    messages = ({"role": "system", "content": "be good"}, {"role": "user", "content": text})
    return TurnContext(messages, seed, offered)


def differences(backend, rows):
    return [
        abs(new - old)
        for row, line in zip(rows, backend.logprobs(rows), strict=True)
        for new, old, chosen in zip(line, row.old_logprobs, row.loss_mask, strict=True)
        if chosen
    ]


@pytest.mark.parametrize("kind", ["qwen", "llama"])
def test_a_sample_depends_on_its_seed_and_not_on_its_batch(kind):
    backend = policy(kind=kind)
    contexts = [context("heat the mug " * (number % 5), seed=number) for number in range(12)]
    together = backend.sample(contexts, temperature=1.0)
    for one, asked in zip(together, contexts, strict=True):
        alone = policy(kind=kind).sample([asked], temperature=1.0)[0]
        assert alone.act.token_ids == one.act.token_ids
        assert alone.act.logprobs == pytest.approx(one.act.logprobs, abs=2e-5)
    assert len({one.act.token_ids for one in together}) > 6


def test_rows_of_limited_batches_are_the_same_rows():
    contexts = [context("go " * (number % 3), seed=number) for number in range(5)]
    whole = policy().sample(contexts, temperature=1.0)
    cut = policy(HfSettings(max_new_tokens=8, sample_rows=2)).sample(contexts, temperature=1.0)
    assert [one.act.token_ids for one in cut] == [one.act.token_ids for one in whole]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("commands", [None, COMMANDS])
def test_training_sees_the_probabilities_that_sampling_saw(temperature, commands):
    backend = policy()
    contexts = [context("take mug " * (n % 4), seed=n, commands=commands) for n in range(8)]
    rows = [one.row for one in backend.sample(contexts, temperature=temperature)]
    assert max(differences(backend, rows)) < 5e-5
    assert {row.temperature for row in rows} == {temperature}


def test_temperature_zero_takes_the_likeliest_whatever_the_seed():
    backend = policy()
    answers = backend.sample([context("look", seed=n) for n in range(4)], temperature=0.0)
    assert len({one.act.token_ids for one in answers}) == 1
    assert max(differences(backend, [one.row for one in answers])) < 5e-5


def test_an_answer_is_one_of_the_admissible_commands():
    backend = policy()
    contexts = [context("go", seed=n, commands=COMMANDS) for n in range(60)]
    sampled = backend.sample(contexts, temperature=30.0)
    assert {one.act.text for one in sampled} == set(COMMANDS)
    assert {one.act.finish_reason for one in sampled} == {"stop"}


def test_shares_of_commands_are_their_probabilities():
    backend = policy()
    draws = 600
    contexts = [context("go", seed=n, commands=COMMANDS) for n in range(draws)]
    said = [one.act.text for one in backend.sample(contexts, temperature=1.0)]
    total = 0.0
    for command in COMMANDS:
        row = backend.target(contexts[0], command)
        share = math.exp(sum(backend.logprobs([row])[0]))
        total += share
        assert said.count(command) / draws == pytest.approx(share, abs=0.08)
    assert total == pytest.approx(1.0, abs=1e-5)


def test_a_token_that_nothing_could_replace_teaches_nothing():
    row = policy().sample([context("go", commands=["look"])], temperature=1.0)[0].row
    assert row.chosen == 0
    assert set(row.old_logprobs) == {0.0}


def test_a_command_may_be_as_long_as_the_context():
    backend = policy()
    (one,) = backend.sample([context("go", commands=["look", "x" * 1500])], temperature=0.0)
    assert one.act.text in ("look", "x" * 1500)
    with pytest.raises(ContextOverflow, match="answer of up to 2041"):
        backend.sample([context("go", commands=["look", "x" * 2040])], temperature=0.0)


def test_a_mixed_batch_holds_some_to_commands_and_others_to_nothing():
    contexts = [context("go", seed=1, commands=COMMANDS), context("go", seed=2)]
    backend = policy()
    held, free = backend.sample(contexts, temperature=1.0)
    assert held.act.text in COMMANDS
    assert len(free.act.token_ids) == 8
    assert max(differences(backend, [held.row, free.row])) < 5e-5


def test_equal_prompts_are_read_once_and_answered_apart():
    backend = policy()
    reads = []
    forward = backend.weights.model.forward
    backend.weights.model.forward = lambda **inputs: (
        reads.append(inputs["input_ids"].shape) or forward(**inputs)
    )
    backend.sample([context("heat mug", seed=n) for n in range(6)], temperature=1.0)
    assert reads[0][0] == 1
    assert all(shape == (6, 1) for shape in reads[1:])


@pytest.mark.parametrize("kind", ["qwen", "llama"])
@pytest.mark.parametrize("history", [None, 1])
@pytest.mark.parametrize("listed", [True, False])
async def test_turns_with_a_kept_cache_are_the_turns_without_one(kind, history, listed):
    wanted = specs(tasks=3, draws=3, listed=listed)
    runs = []
    for keep in (True, False):
        settings = HfSettings(max_new_tokens=6, keep_cache=keep, device="cpu")
        backend = policy(settings, kind=kind)
        results, agent = await played(backend, wanted, history=history, turns=4)
        rows = [row for result in results for row in agent.rows(result)]
        assert max(differences(backend, rows), default=0) < 5e-5
        runs.append([[turn.act for turn in result.trajectory.turns] for result in results])
    with_cache, without = runs
    assert [[a.token_ids for a in turns] for turns in with_cache] == [
        [a.token_ids for a in turns] for turns in without
    ]
    later = [act.usage.cached_tokens for turns in with_cache for act in turns[1:]]
    assert later
    assert min(later) > 0
    assert {act.usage.cached_tokens for turns in without for act in turns} == {0}


async def test_a_later_prompt_holds_the_very_tokens_that_were_sampled():
    results, agent = await played(policy(), specs(listed=False), turns=3)
    for result in results:
        rows = agent.rows(result)
        for before, after in pairwise(rows):
            past = before.context.prompt_ids + before.token_ids
            assert after.context.prompt_ids[: len(past)] == past
        (whole,) = joined(rows)
        assert whole.chosen == sum(row.chosen for row in rows)


async def test_a_template_that_trims_is_read_anew_and_still_trained_as_sampled():
    backend = policy(template=TRIMMING)
    results, agent = await played(backend, specs(draws=4, listed=False), turns=3)
    rows = [row for result in results for row in agent.rows(result)]
    assert max(differences(backend, rows)) < 5e-5


async def test_a_window_of_turns_starts_a_new_row():
    results, agent = await played(policy(), specs(listed=False), turns=4, history=1)
    rows = agent.rows(results[0])
    # The second prompt continues where the first ended; the third has lost the first exchange.
    assert len(joined(rows)) == 3


@pytest.mark.parametrize(
    "commands", [None, COMMANDS, ["look", "look at the shelf", "take mug 1 from shelf 2"]]
)
def test_a_sliding_window_is_sampled_without_a_kept_cache(commands):
    changes = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0}
    backend = policy(**changes)
    contexts = [context("heat the mug " * (n % 3), n, commands) for n in range(12)]
    rows = [one.row for one in backend.sample(contexts, temperature=1.0)]
    assert backend._lanes == {}
    assert max(differences(backend, rows)) < 5e-5


def test_a_prompt_that_leaves_no_room_is_refused_with_the_numbers():
    settings = HfSettings(max_new_tokens=8, context_tokens=40)
    with pytest.raises(ContextOverflow, match="answer of up to 8 do not fit the policy's context"):
        policy(settings).sample([context("heat " * 30)], temperature=1.0)


async def test_an_episode_that_outgrows_the_context_is_cut_and_the_others_continue():
    settings = HfSettings(max_new_tokens=8, context_tokens=75, device="cpu")
    results, agent = await played(policy(settings), specs(listed=False), turns=9)
    assert {result.stop_reason.value for result in results} == {"context"}
    assert all(agent.rows(result) for result in results)


@pytest.mark.parametrize("commands", [None, COMMANDS])
def test_a_model_whose_probabilities_are_no_numbers_is_named(commands):
    backend = policy()
    with torch.no_grad():
        backend.weights.model.lm_head.weight.fill_(math.nan)
    with pytest.raises(ContractError, match="not a number"):
        backend.sample([context("go", commands=commands)], temperature=1.0)


def test_a_tokenizer_without_a_template_is_refused():
    with pytest.raises(NoChatTemplate, match="no chat template"):
        HfPolicy(tiny_model(), tiny_tokenizer(None))


def test_a_model_that_keeps_no_keys_and_values_is_refused():
    sizes = {"vocab_size": 300, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4}
    ends = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
    with pytest.raises(ConfigError, match="MambaForCausalLM has no past_key_values"):
        HfPolicy(MambaForCausalLM(MambaConfig(**sizes, **ends)), tiny_tokenizer(), SMALL)


def test_a_template_that_refuses_a_role_is_named():
    template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    )
    with pytest.raises(NoChatTemplate, match="roles system, user: no system"):
        policy(template=template).sample([context("go")], temperature=1.0)


def test_a_base_model_that_is_not_there_is_not_fetched(tmp_path):
    with pytest.raises(ModelMissing, match=r"is not on this machine.*hf download"):
        HfPolicy.load_pretrained(str(tmp_path / "nobody" / "nothing"))


def test_a_saved_model_is_loaded_and_samples_the_same(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    loaded, again = (HfPolicy.load_pretrained(str(tmp_path), SMALL) for _ in range(2))
    assert loaded.identity == again.identity == policy().identity
    assert loaded.encoding == again.encoding
    asked = [context("go", seed=3)]
    answers = [one.sample(asked, temperature=1.0)[0].act.token_ids for one in (loaded, again)]
    assert answers[0] == answers[1]


def test_spent_memory_says_which_settings_to_lower():
    backend = policy()

    def forward(**_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes")

    backend.weights.model.forward = forward
    advice = "Lower rollout.max_concurrent, policy.max_new_tokens or policy.context_tokens"
    with pytest.raises(OutOfMemory, match=advice):
        backend.sample([context("go")], temperature=1.0)


def test_after_forget_a_sample_is_that_of_a_policy_that_has_read_nothing():
    backend, fresh = policy(), policy()
    asked = [context("heat the mug " * (number % 3), seed=number) for number in range(6)]
    backend.sample([context("heat the mug " * 9)], temperature=1.0)
    assert max(one.act.usage.cached_tokens for one in backend.sample(asked, temperature=1.0)) > 0
    backend.forget()
    assert backend.sample(asked, temperature=1.0) == fresh.sample(asked, temperature=1.0)


@pytest.mark.parametrize("commands", [None, COMMANDS])
def test_prompts_that_are_kept_once_are_answered_as_prompts_that_every_answer_keeps(commands):
    contexts = [
        context("heat the mug " * (n % 3), seed=n, commands=commands if n % 2 else None)
        for n in range(14)
    ]
    answers, columns = [], []
    for share in (True, False):
        backend = policy()
        backend._mode = replace(backend._mode, packed=share)
        forward = backend.weights.model.forward
        backend.weights.model.forward = lambda forward=forward, share=share, **inputs: (
            columns.append((share, inputs["past_key_values"].get_seq_length())) or forward(**inputs)
        )
        answers.append(backend.sample(contexts, temperature=1.0))
        # The next turn continues from what was read, wherever it was kept.
        backend.weights.model.forward = forward
        answers[-1] += backend.sample(contexts[::-1], temperature=1.0)
        assert min(one.act.usage.cached_tokens for one in answers[-1][14:]) > 10
    for one, other in zip(*answers, strict=True):
        assert one.act.token_ids == other.act.token_ids
        assert one.act.logprobs == pytest.approx(other.act.logprobs, abs=2e-5)
    # Behind the prompts, answers keep their own tokens only.
    assert max(width for share, width in columns if share) < 20
    assert max(width for share, width in columns if not share) > 40
