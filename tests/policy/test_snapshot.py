"""A snapshot is taken over whole, or refused with one error that leaves the policy as it was."""

import hashlib
import random

import pytest
import torch

from policy.kept import facts_of, held, load
from policy.test_scorer_policy import CONTEXTS, lessons, policy, taught
from policy.tiny_models import tiny_model, tiny_tokenizer, with_fields
from skillwright.core import ContractError, TurnContext
from skillwright.policy import CheckpointDamaged, SftLoss
from skillwright.policy.checkpoint import fitting, unpack
from skillwright.policy.hf import HfPolicy, HfSettings, Lora
from skillwright.policy.scorer import Architecture

WHOLE = HfSettings(device="cpu", precision="float32")
KINDS = ("scorer", "whole model", "adapter")


def trained(kind):
    """A policy that has learned before its reference was frozen, and again since."""
    if kind == "scorer":
        backend = taught(policy())
        rows = lessons(backend)
    else:
        lora = Lora(rank=2, alpha=4) if kind == "adapter" else None
        backend = HfPolicy(tiny_model(), tiny_tokenizer(), with_fields(WHOLE, lora=lora))
        asked = TurnContext([{"role": "user", "content": "heat the mug"}], seed=1)
        rows = [backend.target(asked, "take the mug")]
    for _ in range(2):
        backend.forward_backward(rows, SftLoss.over(rows))
        backend.optim_step(1e-2)
        backend.freeze_reference()
    backend.forward_backward(rows, SftLoss.over(rows))
    backend.optim_step(1e-2)
    return backend


@pytest.fixture(scope="module", params=KINDS)
def backend(request):
    torch.set_num_threads(1)
    return trained(request.param)


@pytest.fixture(scope="module")
def kept(backend):
    return held(backend)


def refused(backend, state, match):
    before = (backend.identity, backend.reference, held(backend))
    with pytest.raises(CheckpointDamaged, match=match) as found:
        backend.load(state)
    assert (backend.identity, backend.reference, held(backend)) == before
    assert "start again from the checkpoint before it" in str(found.value)
    assert "\n" not in str(found.value)


def changed(kept, change):
    """Return a state that is whole as a file, and has another content."""
    facts = facts_of(kept)
    change(facts)
    return facts


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.9999])
def test_a_snapshot_that_is_cut_is_refused(kept, share):
    with pytest.raises(CheckpointDamaged, match=r"this checkpoint is .* the one before it"):
        unpack(kept[: int(share * len(kept))])


def test_changed_bytes_lead_to_the_one_error_or_are_read(backend, kept):
    rng = random.Random(0)
    first, tree = kept.index(b"\n") + 1, kept.index(b'{"tree"')
    typed = 0
    for _ in range(60):
        state = bytearray(kept)
        # The tree holds the parts' names and places; what follows is numbers, all of them possible.
        for place in [rng.randrange(tree - 5, tree + 4000) for _ in range(4)]:
            state[place] ^= rng.randrange(1, 256)
        # As somebody would have written it who knows how: the digest is right.
        state[first - 65 : first - 1] = hashlib.sha256(state[first:]).hexdigest().encode()
        try:
            backend.load(unpack(bytes(state)).policy)
        except CheckpointDamaged:
            typed += 1
    load(backend, kept)
    assert typed > 20


def test_a_snapshot_without_one_of_its_parts_is_refused_and_the_part_named(backend, kept):
    for name in facts_of(kept):
        if name != "digest":  # older ones do not have it
            without = changed(kept, lambda facts, name=name: facts.pop(name))
            refused(backend, without, f"no '{name}'")


def test_a_part_of_another_kind_is_refused(backend, kept):
    for name in facts_of(kept):
        for value in (5, [1.0], {"a": torch.zeros(2)}):
            other = changed(kept, lambda facts, name=name, value=value: facts.update({name: value}))
            refused(backend, other, "no snapshot of this policy")


def test_weights_of_another_shape_and_missing_ones_are_refused(backend, kept):
    for find in (_weights, _reference):
        for spoil in (_drop_one, _cut_one, _make_one_text):
            state = changed(kept, lambda facts, find=find, spoil=spoil: spoil(find(facts)))
            refused(backend, state, "no snapshot of this policy")


def _weights(facts):
    return facts["network"] if "network" in facts else facts["weights"]["trained"]


def _reference(facts):
    return facts["reference"] if "network" in facts else facts["weights"]["reference"]


def _drop_one(weights):
    weights.pop(next(iter(weights)))


def _cut_one(weights):
    name = next(iter(weights))
    weights[name] = weights[name][..., :1].clone()


def _make_one_text(weights):
    weights[next(iter(weights))] = "0.5"


def test_an_optimizer_that_would_fail_at_the_next_step_is_refused_now(backend, kept):
    def moment(facts, value):
        facts["optimizer"]["state"][0]["exp_avg"] = value

    spoiled = {
        "another shape, or in part": lambda facts: moment(facts, torch.zeros(2)),
        "in part": lambda facts: facts["optimizer"]["state"][0].pop("exp_avg_sq"),
        "does not say lr": lambda facts: facts["optimizer"]["param_groups"][0].pop("lr"),
        "parameter group": lambda facts: facts["optimizer"]["param_groups"].pop(),
        "no 'state'": lambda facts: facts["optimizer"].pop("state"),
    }
    for match, change in spoiled.items():
        refused(backend, changed(kept, change), match)


def test_an_optimizer_of_other_weights_is_refused(backend, kept):
    def renumbered(facts, change):
        facts["optimizer"]["state"] = {
            change(number): moments for number, moments in facts["optimizer"]["state"].items()
        }

    def groups(facts, change):
        for group in facts["optimizer"]["param_groups"]:
            group["params"] = change(group["params"])

    for change in (
        lambda facts: renumbered(facts, lambda number: number + 1000),
        lambda facts: renumbered(facts, str),
        lambda facts: groups(facts, lambda numbers: [number + 1000 for number in numbers]),
        lambda facts: groups(facts, lambda numbers: numbers[:1] * len(numbers)),
    ):
        refused(backend, changed(kept, change), "its optimizer is of other weights")


def test_of_another_architecture_only_what_differs_is_named():
    backend = policy()
    smaller = policy(architecture=Architecture(width=32))
    with pytest.raises(CheckpointDamaged) as found:
        backend.load(smaller.state())
    assert "policy: its width is 32, and the policy's 64. Load it" in str(found.value)
    assert "layers" not in str(found.value)


def test_a_reason_that_is_cut_ends_in_three_dots():
    for end in ("", " ", ".", ", ", ". "):
        long = f"{'x' * (200 - len(end))}{end}{'y' * 9}"
        with pytest.raises(CheckpointDamaged, match=r"xx\.\.\. Load it"), fitting("kind"):
            raise ValueError(long)


def test_a_gradient_that_waits_is_dropped_with_the_weights_that_it_is_of(backend, kept):
    if isinstance(backend, HfPolicy):
        asked = TurnContext([{"role": "user", "content": "heat the mug"}], seed=1)
        rows = [backend.target(asked, "put it down")]
    else:
        rows = lessons(backend)
    backend.forward_backward(rows, SftLoss.over(rows))
    load(backend, kept)
    assert backend.optim_step(1e-2).grad_norm == 0.0
    load(backend, kept)


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_scorer_whose_weights_are_no_numbers_is_named(broken, temperature):
    backend = policy()
    with torch.no_grad():
        backend._network.head[-1].bias.fill_(broken)
    with pytest.raises(ContractError, match="is not a number, so its weights are broken"):
        backend.sample(CONTEXTS[:3], temperature=temperature)
