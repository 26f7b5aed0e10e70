"""The forward pass of training: parts of the last layer, rows packed into one sequence."""

import warnings
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    PhiConfig,
    PhiForCausalLM,
)

from policy.tiny_models import tiny_model, tiny_tokenizer
from skillwright.core import TurnContext
from skillwright.policy import GrpoLoss, GrpoObjective, Row, TokenContext
from skillwright.policy.hf import HfPolicy, HfSettings, Lora, head
from skillwright.policy.hf.forward import Batch, ForwardMode, forward_mode, micro_batches
from skillwright.policy.hf.head import Head, chosen_logprobs, logprobs_of

CPU = torch.device("cpu")
PACKED, PADDED, PLAIN = ForwardMode(True, True), ForwardMode(False, True), ForwardMode(False, False)
SIZES = {
    "vocab_size": 120,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}


def row(prompt, answer, allowed=None, temperature=1.0, mask=None):
    size = len(answer)
    return Row(
        TokenContext(tuple(prompt), tuple(allowed or (None,) * size)),
        tuple(answer),
        (0.0,) * size,
        tuple(mask or (True,) * size),
        "",
        temperature,
    )


def exact_model(**changes):
    """A model that computes in double precision all the way: its norms are single otherwise."""
    model = tiny_model(vocab_size=120, **changes)
    for module in list(model.modules()):
        for name, one in list(module.named_children()):
            if type(one).__name__ == "Qwen2RMSNorm":
                setattr(module, name, nn.RMSNorm(one.weight.shape[0], eps=one.variance_epsilon))
    return model.double()


def read(model, rows, mode, *, entropy="none", most=10**6):
    """Return values and gradients of a sum that treats every token otherwise."""
    model.zero_grad()
    values = {}
    with mode.attention(model):
        for part in micro_batches(rows, most, mode):
            found = Batch(part, CPU, mode).logprobs(model, entropy=entropy)
            total = torch.zeros((), dtype=found[0].dtype)
            for line, one in enumerate(part):
                number = next(n for n, wanted in enumerate(rows) if wanted is one)
                both = [
                    tensor[line, : len(one.token_ids)] for tensor in found if tensor is not None
                ]
                values[number] = torch.stack(both).detach()
                weights = (
                    torch.arange(1.0, 1 + len(one.token_ids), dtype=total.dtype) * (-1) ** number
                )
                total = total + sum((tensor * weights).sum() for tensor in both)
            total.backward()
    gradients = {name: one.grad.clone() for name, one in model.named_parameters()}
    return torch.cat([values[n] for n in range(len(rows))], dim=1), gradients


def assert_alike(one, other, atol):
    assert torch.allclose(one[0], other[0], rtol=0, atol=atol)
    assert one[1].keys() == other[1].keys()
    for name in one[1]:
        scale = max(1.0, float(other[1][name].abs().max()))
        assert torch.allclose(one[1][name], other[1][name], rtol=0, atol=atol * scale), name


def mixture():
    """Groups of a prompt, turns of episodes that continue, answers that repeat, choices, masks."""
    skills = list(range(1, 41))
    few = ((3, 5, 9), (5, 7), None, (2, 5))
    rows = [row([*skills, 50, 51], answer) for answer in ([5, 6, 7], [5, 6, 8, 9], [5, 6, 7], [1])]
    rows += [row([*skills, 60, 61, 62], [5, 7, 5, 5], few, 0.7) for _ in range(2)]
    episode = [*skills, 70]
    for turn in range(4):
        said = [80 + turn, 81, 82 + turn]
        rows.append(row(episode, said, temperature=1.3))
        episode = [*episode, *said, 100 + turn, 101]
    rows += [row([9, 8], [7, 6, 5, 4], mask=(True, False, True, False)), row([4], [2])]
    return rows


@pytest.mark.parametrize("entropy", ["none", "watched", "trained"])
@pytest.mark.parametrize("tied", [False, True])
def test_packed_rows_have_the_values_and_gradients_of_padded_ones_read_with_all_logits(
    entropy, tied, monkeypatch
):
    monkeypatch.setattr(head, "MOST_LOGITS", 700)  # a few tokens at a time
    model = exact_model(tie_word_embeddings=tied)
    rows = mixture()
    plain = read(model, rows, PLAIN, entropy=entropy)
    assert_alike(read(model, rows, PADDED, entropy=entropy), plain, 1e-10)
    assert_alike(read(model, rows, PACKED, entropy=entropy), plain, 1e-10)
    single = model.float()
    assert_alike(
        read(single, rows, PACKED, entropy=entropy),
        read(single, rows, PLAIN, entropy=entropy),
        1e-5,
    )


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 1), min_size=1, max_size=60),
            st.lists(st.integers(0, 1), min_size=1, max_size=20),
        ),
        min_size=1,
        max_size=9,
    ),
    st.integers(1, 200),
)
def test_any_rows_are_read_alike_packed_and_padded(given_rows, most):
    model = exact_model()
    rows = [row(prompt, answer) for prompt, answer in given_rows]
    with torch.no_grad():
        wanted = Batch(rows, CPU, PLAIN).logprobs(model)[0]
        for part in micro_batches(rows, most, PACKED):
            found = Batch(part, CPU, PACKED).logprobs(model)[0]
            for line, one in zip(found, part, strict=True):
                number = next(n for n, given_row in enumerate(rows) if given_row is one)
                size = len(one.token_ids)
                assert torch.allclose(line[:size], wanted[number, :size], atol=1e-10)


def test_micro_batches_do_not_change_the_gradient_of_packed_rows():
    model = exact_model()
    whole = read(model, mixture(), PACKED)
    for most in (1, 60, 100):
        assert_alike(read(model, mixture(), PACKED, most=most), whole, 1e-10)


@pytest.mark.parametrize("entropy", ["none", "watched", "trained"])
@pytest.mark.parametrize(("scale", "cap"), [(1.0, 0.0), (0.3, 0.0), (2.0, 5.0)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_head_in_parts_is_the_head_at_once(entropy, scale, cap, dtype, monkeypatch):
    generator = torch.Generator().manual_seed(1)

    def drawn(*shape):
        made = torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)
        return made.requires_grad_()

    hidden, weight, bias = drawn(23, 8), drawn(50, 8), drawn(50)
    chosen = [n * 7 % 50 for n in range(23)]
    choices = [(chosen[n], 49, 48) if n % 4 == 1 else None for n in range(23)]
    temperatures = torch.linspace(0.5, 1.5, 23, dtype=torch.float64)
    results = []
    for parts in (True, False):
        asked = (chosen, choices, temperatures)
        one = Head(weight, bias, scale, cap)
        if parts:
            monkeypatch.setattr(head, "MOST_LOGITS", 200)
            values, spread = chosen_logprobs(one, hidden, *asked, entropy=entropy)
        else:
            values, spread = logprobs_of(one.logits(hidden), *asked, entropy=entropy)
        total = (values * torch.linspace(-1, 2, 23, dtype=dtype)).sum()
        if entropy == "trained":
            total = total + (spread * torch.linspace(1, -3, 23, dtype=dtype)).sum()
        assert (spread is None) == (entropy == "none")
        assert spread is None or spread.requires_grad == (entropy == "trained")
        found = torch.autograd.grad(total, (hidden, weight, bias))
        results.append([values, *([] if spread is None else [spread]), *found])
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-10 if dtype == torch.float64 else 1e-5)


def test_a_logit_of_minus_infinity_is_a_token_that_never_comes():
    bias = torch.tensor([0.0, float("-inf"), 1.0])
    one = Head(torch.zeros(3, 2, requires_grad=True), bias)
    asked = ([0, 2], [None, None], None)
    values, spread = chosen_logprobs(one, torch.ones(2, 2), *asked, entropy="trained")
    (gradient,) = torch.autograd.grad(values.sum() + spread.sum(), one.weight)
    assert spread.isfinite().all()
    assert gradient.isfinite().all()
    assert gradient[1].abs().max() == 0


@pytest.mark.parametrize("checkpointing", [False, True])
def test_logits_of_all_tokens_are_never_kept(checkpointing, monkeypatch):
    monkeypatch.setattr(head, "MOST_LOGITS", 3 * 900)
    changes = {"gradient_checkpointing": checkpointing, "precision": "float32", "device": "cpu"}
    backend = HfPolicy(
        tiny_model(vocab_size=900, hidden_size=16), tiny_tokenizer(), HfSettings(**changes)
    )
    rows = [row(range(40), range(n, n + 30)) for n in range(8)]
    rows = [replace(one, encoding=backend.encoding, advantage=1.0) for one in rows]
    largest = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            made = function(*arguments, **(keywords or {}))
            for one in made if isinstance(made, tuple | list) else [made]:
                if isinstance(one, torch.Tensor) and one.shape[-1:] == (900,):
                    largest.append(one.numel())
            return made

    backend.freeze_reference()
    objective = GrpoObjective(kl_weight=0.1, entropy_weight=0.1)
    with Watch():
        backend.forward_backward(rows, GrpoLoss.over(rows, objective))
    # Three tokens' logits, or what is of the size of the layer itself.
    assert 0 < max(largest) <= 16 * 900 < 8 * 30 * 900


def kept_bytes(backend, rows):
    """Return how much of a forward pass waits for the backward pass, in bytes."""
    seen = {}

    def keep(tensor):
        if not isinstance(tensor, nn.Parameter):
            seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    model = backend.weights.model
    with backend.weights.training(), backend._mode.attention(model):
        batch = Batch(rows, CPU, backend._mode)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            batch.logprobs(model)
    return sum(seen.values())


@pytest.mark.parametrize("lora", [None, Lora(rank=4, alpha=8)])
def test_computing_activations_twice_keeps_shared_prompts_and_saves_memory(lora):
    found, kept = [], []
    for on in (False, True):
        asked = HfSettings(lora=lora, precision="float64", device="cpu", gradient_checkpointing=on)
        backend = HfPolicy(tiny_model(num_hidden_layers=4), tiny_tokenizer(), asked)
        rows = [row(range(100), range(n, n + 12)) for n in range(8)]
        rows = [
            replace(one, encoding=backend.encoding, advantage=1.0 - n / 3)
            for n, one in enumerate(rows)
        ]
        backend.freeze_reference()
        kept.append(kept_bytes(backend, rows))
        tokens = []
        decoder = backend.weights.model
        decoder = decoder.get_base_model() if lora else decoder
        decoder.model.layers[0].mlp.register_forward_pre_hook(
            lambda module, inputs, tokens=tokens: tokens.append(inputs[0].shape[:2])
        )
        backend.forward_backward(rows, GrpoLoss.over(rows, GrpoObjective(kl_weight=0.0)))
        found.append({name: one.grad for name, one in backend.weights.trained().items()})
        # The prompt once, and all but the last token of each answer.
        assert set(tokens) == {(1, 100 + 8 * 11)}
    for name, gradient in found[0].items():
        assert torch.allclose(gradient, found[1][name], rtol=1e-6, atol=1e-9), name
    assert kept[1] < 0.5 * kept[0]


def family(kind):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        match kind:
            case "granite":
                changes = {"logits_scaling": 3.0, "embedding_multiplier": 2.0}
                return GraniteForCausalLM(GraniteConfig(**SIZES, **changes))
            case "cohere":
                return CohereForCausalLM(CohereConfig(**SIZES, logit_scale=0.3))
            case "gemma2":
                changes = {"head_dim": 8, "final_logit_softcapping": 2.0, "sliding_window": 8}
                return Gemma2ForCausalLM(Gemma2Config(**SIZES, **changes))
            case "neox":
                sizes = {name: one for name, one in SIZES.items() if "key_value" not in name}
                return GPTNeoXForCausalLM(GPTNeoXConfig(**sizes))
            case "phi":
                return PhiForCausalLM(PhiConfig(**SIZES))
            case _:
                return tiny_model(kind, vocab_size=120)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("qwen", PACKED),
        ("llama", PACKED),
        ("neox", PACKED),
        ("phi", PACKED),  # its last layer has a bias
        ("granite", PACKED),
        ("cohere", PACKED),
        ("gemma2", PADDED),  # a sliding window, and a bound on its logits
    ],
)
def test_models_are_read_on_the_best_road_that_gives_what_they_say_themselves(kind, mode):
    model = family(kind).eval()
    if kind not in ("qwen", "llama"):
        with torch.no_grad():
            for one in model.parameters():
                one.mul_(4)  # so that a wrong order of tokens is seen
    inner = HfPolicy(model, tiny_tokenizer(), HfSettings(device="cpu", precision="float32"))
    assert inner._mode == mode
    rows = mixture()
    plain, found = read(model, rows, PLAIN), read(model, rows, mode)
    scale = float(plain[0].abs().max())
    assert torch.allclose(plain[0], found[0], rtol=0, atol=2e-5 * scale)
    for name, gradient in plain[1].items():
        assert (found[1][name] - gradient).norm() <= 1e-3 * gradient.norm() + 1e-6, name


def test_a_model_that_does_more_than_is_known_is_read_as_it_reads_itself():
    class Loud(type(tiny_model())):
        def forward(self, *arguments, **keywords):
            seen = super().forward(*arguments, **keywords)
            seen.logits = seen.logits * 1.5
            return seen

    model = Loud(tiny_model().config).eval()
    assert forward_mode(model, CPU, attends_to_all=True) == PLAIN
    adapted = HfPolicy(
        tiny_model(),
        tiny_tokenizer(),
        HfSettings(lora=Lora(rank=2, targets=["q_proj", "lm_head"]), device="cpu"),
    )
    assert adapted._mode == PLAIN


def test_reading_packed_rows_leaves_the_model_to_sampling_as_it_was():
    backend = HfPolicy(tiny_model(), tiny_tokenizer(), HfSettings(device="cpu", max_new_tokens=4))
    before = backend.weights.config._attn_implementation
    (sampled,) = backend.sample(
        [TurnContext(({"role": "user", "content": "go"},), 0, {})], temperature=1.0
    )
    backend.logprobs([sampled.row])
    assert backend.weights.config._attn_implementation == before


def test_rows_that_nobody_chose_anything_of_have_logprobs_of_zero():
    model = exact_model()
    nothing = row([1, 2], [3, 4], mask=(False, False))
    for mode in (PACKED, PADDED, PLAIN):
        assert Batch([nothing], CPU, mode).logprobs(model)[0].tolist() == [[0.0, 0.0]]
        both, _ = Batch([nothing, row([1, 2], [3])], CPU, mode).logprobs(model)
        assert both[0].tolist() == [0.0, 0.0]
        assert both[1, 0] < 0


def test_a_part_holds_as_many_tokens_as_are_read_and_no_row_twice():
    rows = mixture()
    counts = []
    for mode in (PACKED, PADDED):
        parts = list(micro_batches(rows, 60, mode))
        assert sorted(map(id, rows)) == sorted(id(one) for part in parts for one in part)
        for part in parts:
            batch = Batch(part, CPU, mode)
            assert (batch._layout.ids if mode.packed else batch._ids).numel() <= 60
        counts.append(len(parts))
    assert 1 < counts[0] < counts[1]
