"""The scoring policy: one choice whoever is in the batch, exact resumes, and typed refusals."""

import random
from dataclasses import replace

import pytest
import torch

from policy.kept import held, load
from skillwright.core import ConfigError, TurnContext
from skillwright.policy import (
    CheckpointDamaged,
    ForeignRow,
    GrpoLoss,
    GrpoObjective,
    NotFinite,
    ReferenceMissing,
    Row,
    SftLoss,
    TargetRefused,
)
from skillwright.policy.scorer import Architecture, ScorerPolicy, ScorerSettings

THINGS = ("mug", "pan", "cup", "plate", "fork", "knife")


def turn(number):
    """A drawer for every thing; the skill says which is whose."""
    rng = random.Random(number)
    drawers = rng.sample(range(1, 7), len(THINGS))
    skill = "\n".join(
        f"- [t{k:03}] Home: Every {thing} is kept in drawer {place}."
        for k, (thing, place) in enumerate(zip(THINGS, drawers, strict=True))
    )
    wanted = rng.randrange(len(THINGS))
    commands = [f"go to drawer {place}" for place in range(1, rng.randint(7, 9))]
    opening = f"You see drawers.\n\nYour task is to: put a {THINGS[wanted]} in fridge."
    context = TurnContext(
        [{"role": "user", "content": opening}],
        seed=number,
        metadata={"admissible_commands": commands},
        skill=skill,
    )
    return context, f"go to drawer {drawers[wanted]}"


TURNS = [turn(number) for number in range(48)]
CONTEXTS = [context for context, _ in TURNS]


def policy(**settings):
    torch.set_num_threads(1)
    return ScorerPolicy.for_turns(CONTEXTS, ScorerSettings(**settings))


def lessons(backend):
    return [backend.target(context, text) for context, text in TURNS]


def taught(backend, steps=3):
    rows = lessons(backend)
    for _ in range(steps):
        backend.forward_backward(rows, SftLoss.over(rows))
        backend.optim_step(2e-3)
    return backend


def experience(backend):
    sampled = backend.sample(CONTEXTS, temperature=1.0)
    return [replace(one.row, advantage=(-1.0) ** k) for k, one in enumerate(sampled)]


def gradients(backend):
    return {n: p.grad.clone() for n, p in backend._network.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("size", [1, 2, 31])
def test_a_choice_does_not_depend_on_who_else_is_in_the_batch(size, temperature):
    backend = taught(policy(most_rows=16))
    whole = backend.sample(CONTEXTS, temperature=temperature)
    order = list(range(len(CONTEXTS)))
    random.Random(size).shuffle(order)
    for first in range(0, len(order), size):
        part = order[first : first + size]
        for index, one in zip(
            part, backend.sample([CONTEXTS[k] for k in part], temperature=temperature), strict=True
        ):
            assert one.act.text == whole[index].act.text
            assert one.row.old_logprobs == pytest.approx(whole[index].row.old_logprobs, abs=1e-5)


def test_a_narrow_choice_is_made_by_the_turn_alone(monkeypatch):
    backend = policy()
    alone = [backend.sample([context], temperature=1.0)[0].row for context in CONTEXTS]
    # With all choices in doubt, the numbers of a batch are those of its turns by themselves.
    monkeypatch.setattr("skillwright.policy.scorer.backend.DOUBT", 2.0)
    together = backend.sample(CONTEXTS, temperature=1.0)
    assert [one.row.old_logprobs for one in together] == [row.old_logprobs for row in alone]


def test_the_row_of_a_choice_holds_what_was_chosen_and_how_likely_it_was():
    backend = policy()
    for context, one in zip(CONTEXTS, backend.sample(CONTEXTS, temperature=0.5), strict=True):
        (chosen,) = one.row.token_ids
        assert context.metadata["admissible_commands"][chosen] == one.act.text
        assert one.row.temperature == 0.5
        assert one.act.logprobs == one.row.old_logprobs
    report = backend.forward_backward(
        [one.row for one in backend.sample(CONTEXTS, temperature=0.5)], GrpoLoss(NO_KL, 1.0)
    )
    assert report.drift_max < 1e-5


NO_KL = GrpoObjective(kl_weight=0.0)


def test_seeds_decide_and_a_fresh_seed_decides_anew():
    backend = policy()
    again = [replace(context, seed=context.seed + 1000) for context in CONTEXTS]
    one = [each.act.text for each in backend.sample(CONTEXTS, temperature=1.0)]
    assert one == [each.act.text for each in backend.sample(CONTEXTS, temperature=1.0)]
    assert one != [each.act.text for each in backend.sample(again, temperature=1.0)]


def test_equal_seeds_build_equal_policies():
    assert policy().identity == policy().identity
    assert policy().identity != policy(seed=1).identity
    assert taught(policy()).identity == taught(policy()).identity


def test_a_snapshot_restores_the_next_step_bit_by_bit():
    backend = taught(policy())
    backend.freeze_reference()
    kept = held(backend)
    after = taught(backend).identity
    other = policy(seed=5)
    load(other, kept)
    assert other.reference == backend.reference
    assert taught(other).identity == after


def test_the_gradient_does_not_depend_on_how_rows_are_cut():
    grads = []
    for most_rows in (48, 5):
        backend = taught(policy(most_rows=most_rows))
        backend.freeze_reference()
        rows = experience(backend)
        report = backend.forward_backward(rows, GrpoLoss.over(rows, GrpoObjective(kl_weight=0.1)))
        grads.append(gradients(backend))
        assert report.rows == len(rows)
    for name, grad in grads[0].items():
        torch.testing.assert_close(grad, grads[1][name], rtol=1e-3, atol=1e-6)


def test_the_divergence_is_zero_at_the_reference_and_not_beyond():
    backend = taught(policy())
    backend.freeze_reference()
    rows = experience(backend)
    loss = GrpoLoss.over(rows, GrpoObjective(kl_weight=0.1))
    assert backend.forward_backward(rows, loss).kl == pytest.approx(0.0, abs=1e-6)
    backend.optim_step(1e-2)
    assert backend.forward_backward(rows, loss).kl > 1e-4


def overflowing(backend, rows):
    """Let a gradient overflow behind a loss that is finite."""
    backend.forward_backward(rows, SftLoss.over(rows))
    next(backend._network.parameters()).grad[0] = float("inf")


def test_a_gradient_that_is_no_number_skips_the_step_and_a_third_in_a_row_stops():
    backend = policy()
    rows = lessons(backend)
    before = backend.identity
    for again in (2, 3):
        for _ in range(2):
            overflowing(backend, rows)
            assert backend.optim_step(1e-3).skipped
            assert backend.identity == before
        if again == 2:  # a step between begins the count anew
            backend.forward_backward(rows, SftLoss.over(rows))
            assert not backend.optim_step(1e-3).skipped
            before = backend.identity
    overflowing(backend, rows)
    with pytest.raises(NotFinite, match=r"3 steps in a row, last over a batch of \d+ rows \(task "):
        backend.optim_step(1e-3)


def test_a_loss_that_is_no_number_stops_and_leaves_no_gradient():
    backend = policy()
    rows = lessons(backend)
    with pytest.raises(NotFinite, match="the loss is nan over a batch of"):
        backend.forward_backward(rows, SftLoss(float("nan")))
    assert backend.optim_step(1e-3).grad_norm == 0.0


def test_what_it_cannot_say_there_is_refused():
    with pytest.raises(TargetRefused, match="not on offer"):
        policy().target(CONTEXTS[0], "sing")


def test_rows_of_another_vocabulary_are_refused():
    backend = policy()
    row = lessons(backend)[0]
    foreign = Row(row.context, (0,), (0.0,), (True,), encoding="another")
    with pytest.raises(ForeignRow):
        backend.forward_backward([foreign], SftLoss.over([foreign]))


def test_a_divergence_needs_a_reference():
    backend = policy()
    rows = experience(backend)
    with pytest.raises(ReferenceMissing, match="freeze_reference"):
        backend.forward_backward(rows, GrpoLoss.over(rows, GrpoObjective(kl_weight=0.1)))


def test_damaged_and_foreign_snapshots_are_refused():
    backend = policy()
    kept = backend.state()
    for damaged in ({}, {"network": kept["network"]}, b"no snapshot at all"):
        with pytest.raises(CheckpointDamaged):
            backend.load(damaged)
    other = ScorerPolicy.for_turns(CONTEXTS, ScorerSettings(Architecture(width=32)))
    with pytest.raises(CheckpointDamaged, match="architecture"):
        other.load(kept)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"width": 15}, "make width a multiple of heads"),
        ({"heads": 1}, "heads even"),
        ({"width": 63, "heads": 3}, "heads even"),
        ({"reach": 4}, "make it odd"),
        ({"reach": 19}, "at most 17"),
    ],
)
def test_a_network_that_cannot_be_built_or_sees_beyond_its_turn_is_refused(wrong, message):
    with pytest.raises(ConfigError, match=message):
        Architecture(**wrong)


def test_the_widest_reach_still_sees_its_own_turn_alone():
    backend = policy(architecture=Architecture(reach=17))
    together = [one.row.old_logprobs for one in backend.sample(CONTEXTS, temperature=1.0)]
    alone = [backend.sample([one], temperature=1.0)[0].row.old_logprobs for one in CONTEXTS]
    for mine, theirs in zip(together, alone, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5)


@pytest.mark.heavy
def test_it_learns_to_look_up_in_the_skill_what_the_task_names():
    backend = policy()
    more = [turn(number) for number in range(1000, 1600)]
    rows = [backend.target(context, text) for context, text in more]
    for step in range(90):
        part = rows[step * 64 % 600 :][:64]
        backend.forward_backward(part, SftLoss.over(part))
        backend.optim_step(2e-3)
    right = [
        one.act.text == text
        for (_, text), one in zip(TURNS, backend.sample(CONTEXTS, temperature=0.0), strict=True)
    ]
    assert sum(right) > 0.8 * len(right)
    untold = [replace(context, skill="") for context in CONTEXTS]
    blind = [
        one.act.text == text
        for (_, text), one in zip(TURNS, backend.sample(untold, temperature=0.0), strict=True)
    ]
    assert sum(blind) < 0.5 * len(blind)


def crowded_turn(number):
    """Return a turn whose skill keeps many things in each place, and where the wanted one is."""
    rng = random.Random(number)
    things = rng.sample([f"{kind}{of}" for kind in ("red", "old", "tin") for of in THINGS], 15)
    drawers = rng.sample(range(1, 7), 2)
    rows = {drawers[0]: things[:8], drawers[1]: things[8:]}
    skill = "\n".join(
        f"- [t{k:03}] Every {', '.join(kept[:-1])} and {kept[-1]} is kept in drawer {place}."
        for k, (place, kept) in enumerate(rows.items())
    )
    place = rng.choice(drawers)
    wanted = rows[place][rng.choice([2, 3])]  # far from its own place, and from the one before
    opening = f"You see drawers.\n\nYour task is to: put a {wanted} in fridge."
    messages = [{"role": "user", "content": opening}]
    commands = [f"go to drawer {each}" for each in range(1, 7)]
    metadata = {"admissible_commands": commands}
    context = TurnContext(messages, seed=number, metadata=metadata, skill=skill)
    return context, f"go to drawer {place}"


@pytest.mark.heavy
def test_it_learns_to_look_up_a_thing_amid_a_long_list():
    lessons = [crowded_turn(number) for number in range(1000, 2200)]
    torch.set_num_threads(1)
    backend = ScorerPolicy.for_turns([context for context, _ in lessons], ScorerSettings())
    rows = [backend.target(context, text) for context, text in lessons]
    for step in range(120):
        part = rows[step * 64 % 1152 :][:64]
        backend.forward_backward(part, SftLoss.over(part))
        backend.optim_step(2e-3)
    exam = [crowded_turn(number) for number in range(100)]
    sampled = backend.sample([context for context, _ in exam], temperature=0.0)
    right = sum(one.act.text == text for (_, text), one in zip(exam, sampled, strict=True))
    assert right > 80  # one of two lists is right in half of the cases


def turn_of_roles(number):
    """Return a turn in which a command is right for what it takes, whatever else it names."""
    rng = random.Random(number)
    thing, goal, here, there = rng.sample(THINGS, 4)
    wrong = [(there, goal), (there, here), (goal, thing), (goal, there), (here, thing)]
    commands = [f"take {what} 1 from {where} 1" for what, where in [(thing, here), *wrong]]
    opening = f"You see things.\n\nYour task is to: put the {thing} in the {goal}."
    messages = [{"role": "user", "content": opening}]
    metadata = {"admissible_commands": rng.sample(commands, len(commands))}
    return TurnContext(messages, seed=number, metadata=metadata), commands[0]


def test_it_tells_what_is_taken_from_where():
    lessons = [turn_of_roles(number) for number in range(1000, 2280)]
    exam = [turn_of_roles(number) for number in range(100)]
    torch.set_num_threads(1)
    right = 0
    for seed in range(3):
        contexts = [context for context, _ in lessons]
        backend = ScorerPolicy.for_turns(contexts, ScorerSettings(seed=seed))
        rows = [backend.target(context, text) for context, text in lessons]
        for step in range(20):
            part = rows[step * 64 :][:64]
            backend.forward_backward(part, SftLoss.over(part))
            backend.optim_step(1e-3)
        sampled = backend.sample([context for context, _ in exam], temperature=0.0)
        right += sum(one.act.text == text for (_, text), one in zip(exam, sampled, strict=True))
    assert right > 180  # summed with a weight per place, words get 110 of 300 right
