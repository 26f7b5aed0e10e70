"""The language-model policy: gradients, the reference, adapters, snapshots."""

from dataclasses import replace

import pytest
import torch
from transformers import OPTConfig, OPTForCausalLM

from policy.errands import played, specs
from policy.kept import held, load
from policy.tiny_models import TRIMMING, tiny_model, tiny_tokenizer, with_fields
from skillwright.core import TurnContext
from skillwright.policy import (
    CheckpointDamaged,
    ForeignRow,
    GrpoLoss,
    GrpoObjective,
    NotFinite,
    OutOfMemory,
    ReferenceMissing,
    SftLoss,
    TargetRefused,
    TokenContext,
)
from skillwright.policy.hf import HfPolicy, HfSettings, Lora
from skillwright.policy.hf.forward import ForwardMode
from skillwright.policy.update import by_episode

EXACT = HfSettings(max_new_tokens=6, precision="float64", device="cpu")
LORA = with_fields(EXACT, lora=Lora(rank=4, alpha=8))
OBJECTIVE = GrpoObjective(kl_weight=0.05, entropy_weight=0.01)


def policy(settings=EXACT, seed=0, template=None):
    tokenizer = tiny_tokenizer(template) if template else tiny_tokenizer()
    return HfPolicy(tiny_model(seed=seed), tokenizer, settings)


def context(text="go to shelf", seed=0, commands=None):
    offered = {"admissible_commands": commands} if commands else {}
    return TurnContext(({"role": "user", "content": text},), seed, offered)


def sampled(backend, size=6, commands=None):
    contexts = [context("heat " * (n % 3), n, commands) for n in range(size)]
    rows = [one.row for one in backend.sample(contexts, temperature=1.2)]
    return [replace(row, advantage=(-1.0) ** n * (1 + n / 3)) for n, row in enumerate(rows)]


def gradients(backend, rows, objective=OBJECTIVE):
    report = backend.forward_backward(rows, GrpoLoss.over(rows, objective))
    found = {name: one.grad.clone() for name, one in backend.weights.trained().items()}
    backend._optimizer.zero_grad()
    return report, found


def assert_same(one, other, rtol):
    """Compare gradients; the models' own norms are single precision inside."""
    assert one.keys() == other.keys()
    for name in one:
        assert (one[name] - other[name]).norm() <= rtol * other[name].norm(), name


def moved(backend, rows, steps=2, rate=1e-2):
    for _ in range(steps):
        backend.forward_backward(rows, GrpoLoss.over(rows, replace(OBJECTIVE, kl_weight=0)))
        backend.optim_step(rate)


@pytest.mark.parametrize("average", ["tokens", "sequences"])
@pytest.mark.parametrize("commands", [None, ["go to shelf", "go to mug", "look"]])
def test_the_gradient_does_not_depend_on_micro_batches(average, commands):
    found = []
    for most in (1, 60, 100_000):
        backend = policy(with_fields(EXACT, micro_tokens=most))
        rows = sampled(backend, commands=commands)
        backend.freeze_reference()
        moved(backend, rows, steps=1)
        found.append(gradients(backend, rows, replace(OBJECTIVE, average=average)))
    for report, gradient in found[1:]:
        assert report.loss == pytest.approx(found[0][0].loss, rel=1e-6)
        assert_same(gradient, found[0][1], rtol=1e-6)


@pytest.mark.parametrize("settings", [EXACT, LORA])
def test_prompts_that_are_read_once_have_the_gradient_of_prompts_that_are_read_by_every_row(
    settings,
):
    found = []
    for mode in (None, ForwardMode(packed=False, chunked=False)):
        backend = policy(settings)
        prompts = ("heat the mug and put it on the shelf", "look", "go to the microwave")
        contexts = [context(prompts[n % 3], n) for n in range(9)]
        rows = [one.row for one in backend.sample(contexts, temperature=0.7)]
        rows = [replace(row, advantage=1.0 - n / 3) for n, row in enumerate(rows)]
        moved(backend, rows, steps=1)
        backend.freeze_reference()
        moved(backend, rows, steps=1)
        backend._mode = mode or backend._mode
        read = []
        backend.weights.model.get_input_embeddings().register_forward_pre_hook(
            lambda module, inputs, read=read: read.append(inputs[0].numel())
        )
        found.append((gradients(backend, rows), read))
    (shared, few), (plain, many) = found
    assert sum(few) < 0.6 * sum(many)
    assert shared[0].loss == pytest.approx(plain[0].loss, rel=1e-6)
    assert_same(shared[1], plain[1], rtol=1e-6)


def test_checkpointing_changes_no_gradient():
    rows = sampled(policy())
    reports = []
    for on in (False, True):
        backend = policy(with_fields(EXACT, gradient_checkpointing=on))
        backend.freeze_reference()
        reports.append(gradients(backend, rows))
    assert_same(reports[0][1], reports[1][1], rtol=1e-6)


def test_checkpointing_turns_no_dropout_on_that_is_no_module_of_its_own():
    torch.manual_seed(0)
    config = OPTConfig(
        vocab_size=300,
        hidden_size=32,
        word_embed_proj_dim=32,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        dropout=0.5,
        layerdrop=0.5,
        attention_dropout=0.5,
    )
    settings = with_fields(EXACT, gradient_checkpointing=True)
    backend = HfPolicy(OPTForCausalLM(config), tiny_tokenizer(), settings)
    rows = sampled(backend)
    report, _ = gradients(backend, rows, replace(OBJECTIVE, kl_weight=0))
    assert report.drift_max < 1e-9


@pytest.mark.parametrize("learned_before", [False, True])
def test_checkpointing_reads_the_reference_of_an_adapter_as_it_is(learned_before):
    backend = policy(with_fields(LORA, gradient_checkpointing=True))
    # Equal prompts, so that the reference reads them once and continues from its cache.
    rows = [
        one.row
        for one in backend.sample([context("heat " * 9, n) for n in range(6)], temperature=1)
    ]
    rows = [replace(row, advantage=1.0 - n / 3) for n, row in enumerate(rows)]
    if learned_before:
        moved(backend, rows)
    backend.freeze_reference()
    report, _ = gradients(backend, rows)
    assert report.kl == pytest.approx(0, abs=1e-12)


def test_masked_tokens_change_no_gradient_through_their_own_probability():
    backend = policy()
    prompt, answer = (5, 6, 7), (20, 21, 22, 23)
    row = replace(
        sampled(backend, 1)[0],
        context=TokenContext(prompt, (None,) * 4),
        token_ids=answer,
        old_logprobs=(-1.0,) * 4,
        loss_mask=(True, True, True, False),
        advantage=1.0,
    )
    objective = replace(OBJECTIVE, kl_weight=0)
    _, first = gradients(backend, [row], objective)
    # A last token that nobody chose: neither what it is nor what it was worth matters.
    other = replace(row, token_ids=(20, 21, 22, 99), old_logprobs=(-1.0, -1.0, -1.0, 50.0))
    _, second = gradients(backend, [other], objective)
    assert_same(first, second, rtol=0)


async def test_one_row_per_episode_has_the_gradient_of_its_turns():
    backend = policy()
    results, agent = await played(backend, specs(listed=False), turns=3)
    backend.freeze_reference()
    turns = [
        replace(row, advantage=0.5 - row.turn) for result in results for row in agent.rows(result)
    ]
    whole = by_episode(turns)
    assert len(whole) == len(results) < len(turns)
    apart, together = gradients(backend, turns), gradients(backend, whole)
    assert apart[0].loss == pytest.approx(together[0].loss, rel=1e-6)
    assert_same(apart[1], together[1], rtol=1e-6)


@pytest.mark.parametrize("settings", [EXACT, LORA])
def test_a_step_raises_what_was_good_and_the_reference_stays(settings):
    backend = policy(settings)
    rows = sampled(backend)
    before = backend.identity
    digest = backend.freeze_reference()
    old = backend.logprobs(rows)
    moved(backend, rows, steps=4)
    assert backend.identity != before
    assert backend.reference == digest
    gain = [sum(new) - sum(was) for new, was in zip(backend.logprobs(rows), old, strict=True)]
    assert sum(g for g, row in zip(gain, rows, strict=True) if row.advantage > 0) > 0
    assert sum(g for g, row in zip(gain, rows, strict=True) if row.advantage < 0) < 0
    report, _ = gradients(backend, rows)
    assert report.kl > 0
    assert report.drift > 0


def test_an_adapter_that_has_learned_is_the_reference_from_then_on():
    backend = policy(LORA)
    rows = sampled(backend)
    moved(backend, rows)
    backend.freeze_reference()
    report, _ = gradients(backend, rows)
    assert report.kl == 0
    trained = set(backend.weights.trained())
    assert all("reference" not in name for name in trained)
    moved(backend, rows)
    assert gradients(backend, rows)[0].kl > 0
    assert set(backend.weights.trained()) == trained


def test_an_adapter_trains_few_weights_and_leaves_the_base_alone():
    backend = policy(LORA)
    base = {n: p.clone() for n, p in backend.weights.model.named_parameters() if "lora" not in n}
    moved(backend, sampled(backend))
    now = dict(backend.weights.model.named_parameters())
    assert all(torch.equal(one, now[name]) for name, one in base.items())
    assert all("lora" in name for name in backend.weights.trained())


FLOAT32 = with_fields(EXACT, precision="float32")
LEAN = {"optimizer": "adamw8bit"}


@pytest.mark.parametrize(
    "settings",
    [
        *(EXACT, LORA, FLOAT32, with_fields(FLOAT32, **LEAN)),
        *(
            with_fields(EXACT, precision="bfloat16"),
            with_fields(EXACT, precision="bfloat16", **LEAN),
        ),
        with_fields(LORA, precision="bfloat16", **LEAN),
    ],
)
@pytest.mark.parametrize("learned_before", [False, True])
def test_the_step_after_a_snapshot_is_bit_equal(settings, learned_before):
    backend = policy(settings)
    rows = sampled(backend)
    if learned_before:
        moved(backend, rows)
    backend.freeze_reference()
    moved(backend, rows)
    state = held(backend)
    other = policy(settings)
    load(other, state)
    assert other.identity == backend.identity
    assert other.reference == backend.reference
    for one in (backend, other):
        assert one.forward_backward(rows, GrpoLoss.over(rows, OBJECTIVE)).kl > 0
        one.optim_step(1e-3)
    assert other.identity == backend.identity
    assert held(other) == held(backend)
    asked = [context(seed=n) for n in range(4)]
    answers = [one.sample(asked, temperature=1.0) for one in (backend, other)]
    assert answers[0] == answers[1]


def test_a_snapshot_goes_back_to_no_reference():
    backend = policy()
    state = backend.state()
    backend.freeze_reference()
    backend.load(state)
    assert backend.reference == ""
    with pytest.raises(ReferenceMissing):
        gradients(backend, sampled(backend))


@pytest.mark.parametrize(
    ("state", "other"),
    [
        (b"nothing", policy),
        (None, lambda: policy(LORA)),
        (None, lambda: policy(template=TRIMMING)),
        (None, lambda: HfPolicy(tiny_model(hidden_size=16), tiny_tokenizer(), EXACT)),
        ([1, 2], policy),
        ({"encoding": policy().encoding}, policy),
    ],
)
def test_a_snapshot_of_something_else_is_refused(state, other):
    with pytest.raises(CheckpointDamaged, match="no snapshot of this policy"):
        other().load(policy().state() if state is None else state)


def test_an_adapter_belongs_to_its_base_model():
    with pytest.raises(CheckpointDamaged, match="another base model"):
        policy(LORA, seed=1).load(policy(LORA).state())


def test_an_adapter_is_scaled_as_it_was_trained_or_refused():
    learned, rows = policy(LORA), sampled(policy(LORA))
    moved(learned, rows)
    state = learned.state()
    for take in ("load", "begin_from"):
        other = policy(with_fields(EXACT, lora=Lora(rank=4, alpha=64)))
        with pytest.raises(CheckpointDamaged, match=r"alpha 8, and .* has 64"):
            getattr(other, take)(state)


def test_another_architecture_of_equal_names_and_shapes_is_refused():
    kept = HfPolicy(tiny_model("llama"), tiny_tokenizer(), EXACT).state()
    other = {**kept, "architecture": "MistralForCausalLM"}
    with pytest.raises(CheckpointDamaged, match="MistralForCausalLM"):
        HfPolicy(tiny_model("llama"), tiny_tokenizer(), EXACT).load(other)


@pytest.mark.parametrize(
    "part", [{"optimizer": {"state": {}, "param_groups": []}}, {"random": torch.zeros(3)}]
)
def test_a_damaged_snapshot_leaves_the_policy_as_it_was(part):
    other = policy(seed=1)
    other.freeze_reference()
    backend = policy()
    backend.freeze_reference()
    before = held(backend)
    with pytest.raises(CheckpointDamaged):
        backend.load({**other.state(), **part})
    assert held(backend) == before


def test_weights_change_what_is_sampled_and_nothing_old_is_reused():
    backend = policy()
    asked = [context(seed=n) for n in range(3)]
    backend.sample(asked, temperature=1.0)
    moved(backend, sampled(backend), rate=0.1)
    other = policy()
    load(other, held(backend))
    now = backend.sample(asked, temperature=1.0)
    assert now == other.sample(asked, temperature=1.0)


def test_loaded_weights_do_not_continue_from_what_the_others_had_read():
    other = policy(seed=1)
    backend = policy()
    asked = [context("heat the mug", n) for n in range(3)]
    backend.sample(asked, temperature=1.0)
    load(backend, held(other))
    assert backend.sample(asked, temperature=1.0) == other.sample(asked, temperature=1.0)


def test_a_long_gradient_is_cut_and_a_wild_one_skipped():
    backend = policy(with_fields(EXACT, max_grad_norm=1e-6))
    rows = sampled(backend)
    backend.forward_backward(rows, SftLoss.over(rows))
    step = backend.optim_step(1e-3)
    assert step.clipped
    assert step.grad_norm > 1e-6
    before = backend.identity
    backend.forward_backward(rows, SftLoss.over(rows))
    next(iter(backend.weights.trained().values())).grad[0] = float("inf")
    step = backend.optim_step(1e-3)
    assert step.skipped
    assert backend.identity == before
    assert all(one.grad is None for one in backend.weights.trained().values())


def test_a_loss_that_is_no_number_stops_names_its_rows_and_leaves_weights_and_gradient_alone():
    backend = policy()
    rows = [
        replace(row, group=f"shop_{n % 2}", episode=f"shop_{n % 2}#9", turn=n)
        for n, row in enumerate(sampled(backend))
    ]
    before = held(backend)
    wild = [replace(row, advantage=float("inf")) for row in rows]
    named = r"a batch of 6 rows \(task shop_\d, episode shop_\d#9, turn \d; "
    with pytest.raises(NotFinite, match=named) as found:
        backend.forward_backward(wild, GrpoLoss.over(wild, replace(OBJECTIVE, kl_weight=0)))
    assert "; and 3 more)" in str(found.value)
    assert "lower learning_rate" in str(found.value)
    assert held(backend) == before
    assert backend.optim_step(1e-3).grad_norm == 0.0


def test_weights_are_read_once_however_many_steps_are_taken(monkeypatch):
    backend = policy()
    rows = sampled(backend)
    read = []
    digest = backend.weights.digest
    monkeypatch.setattr(backend.weights, "digest", lambda: read.append(1) or digest())
    backend._lineage._begin = backend.weights.digest
    known = {backend.identity}
    for number in range(5):
        moved(backend, rows, steps=1)
        backend.freeze_reference()
        known.add(backend.identity)
        other = policy()
        load(other, held(backend))
        other.weights.digest = lambda: pytest.fail("all weights were read")
        assert (other.identity, len(known)) == (backend.identity, number + 2)
    assert len(read) == 1


def test_the_identity_hangs_on_rows_rate_and_settings_and_on_nothing_else():
    def learned(settings=EXACT, rate=1e-2, other=False, seed=0):
        backend = policy(settings, seed=seed)
        rows = sampled(policy(EXACT))
        if other:
            rows[0] = replace(rows[0], advantage=0.5)
        moved(backend, rows, rate=rate)
        return backend.identity

    assert learned() == learned()
    assert learned(with_fields(EXACT, sample_rows=2)) == learned()
    different = [
        *(learned(), learned(rate=2e-2), learned(other=True), learned(seed=1)),
        *(learned(with_fields(EXACT, weight_decay=0.5)), learned(with_fields(EXACT, **LEAN))),
        policy().identity,
    ]
    assert len(set(different)) == len(different)


def test_a_checkpoint_with_float32_weights_opens_in_bfloat16():
    low = with_fields(EXACT, precision="bfloat16")
    before = policy(FLOAT32)
    rows = sampled(before)
    moved(before, rows)
    before.freeze_reference()
    backend = policy(low)
    backend.load(before.state())
    moved(backend, rows, steps=1)
    assert gradients(backend, rows)[0].kl > 0


def test_a_row_of_another_tokenizer_is_never_read():
    backend = policy()
    foreign = sampled(policy(template=TRIMMING))
    with pytest.raises(ForeignRow, match="never made from text"):
        gradients(backend, foreign)


def test_a_target_is_what_sampling_would_have_written():
    backend = policy()
    commands = ["go to shelf", "look"]
    for n in range(6):
        asked = context(seed=n, commands=commands)
        (one,) = backend.sample([asked], temperature=1.0)
        target = backend.target(asked, one.act.text)
        assert (target.context, target.token_ids, target.loss_mask) == (
            one.row.context,
            one.row.token_ids,
            one.row.loss_mask,
        )


def test_a_target_that_is_not_admissible_is_refused():
    with pytest.raises(TargetRefused, match="'dance' is not among"):
        policy().target(context(commands=["look", "go to mug"]), "dance")


def test_spent_memory_drops_the_gradient():
    backend = policy(with_fields(EXACT, micro_tokens=1))
    rows = sampled(backend)
    calls = []

    def spent(module, inputs):
        calls.append(1)
        if len(calls) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore.")

    backend.weights.model.model.norm.register_forward_pre_hook(spent)
    with pytest.raises(
        OutOfMemory, match=r"while training: CUDA out of memory.*policy\.micro_tokens,"
    ):
        backend.forward_backward(rows, SftLoss.over(rows))
    assert all(one.grad is None for one in backend.weights.trained().values())


def test_low_precision_samples_and_trains_alike_within_its_bits():
    for lora in (None, Lora(rank=4)):
        settings = with_fields(EXACT, precision="bfloat16", lora=lora)
        backend = policy(settings)
        rows = sampled(backend)
        backend.freeze_reference()
        report, _ = gradients(backend, rows)
        assert report.drift < 0.1
        # An adapter is small enough to stay whole; of other weights the optimizer has the rest.
        kept = torch.float32 if lora else torch.bfloat16
        assert all(one.dtype == kept for one in backend.weights.trained().values())
        turned = [one for name, one in backend.weights.model.named_buffers() if "inv_freq" in name]
        assert {one.dtype for one in turned} == {torch.float32}
        moved(backend, rows, steps=1)
        backend.freeze_reference()
        assert gradients(backend, rows)[0].kl == 0


@pytest.mark.parametrize(
    "wrong", [{"max_new_tokens": 0}, {"micro_tokens": 0}, {"max_grad_norm": 0}]
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        HfSettings(**wrong)
