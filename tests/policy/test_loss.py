"""The losses, on tensors: the listed terms, masks, denominators."""

import json
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import ConfigError
from skillwright.policy import GrpoLoss, GrpoObjective, LossReport, Row, SftLoss, TokenBatch
from skillwright.policy.update import k3, policy_terms

PLAIN = GrpoObjective(kl_weight=0.0)


@pytest.fixture
def vectors(reference_data):
    return json.loads((reference_data / "skillrl_vectors.json").read_text(encoding="utf-8"))


def row(size, *, advantage=1.0, mask=None, old=-1.0, weight=1.0):
    return Row(
        context=None,
        token_ids=tuple(range(size)),
        old_logprobs=(old,) * size,
        loss_mask=mask or (True,) * size,
        encoding="e",
        advantage=advantage,
        weight=weight,
    )


def some_rows():
    return [
        row(3, advantage=1.5),
        row(5, advantage=-0.5, mask=(True, False, True, True, False)),
        row(1, advantage=-2.0),
        row(4, advantage=(0.1, 0.2, -0.3, 0.4), weight=2.0),
    ]


def tensors(rows, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (len(rows), max(len(one.token_ids) for one in rows))
    logprobs = -torch.rand(shape, generator=generator, dtype=torch.float64) * 2
    reference = -torch.rand(shape, generator=generator, dtype=torch.float64) * 2
    entropy = torch.rand(shape, generator=generator, dtype=torch.float64)
    return logprobs.requires_grad_(), reference, entropy.requires_grad_()


def test_the_listed_ratios_have_the_listed_losses_and_gradients(vectors):
    for case in vectors["ppo_terms"]["cases"]:
        change = torch.tensor(math.log(case["rho"]), dtype=torch.float64, requires_grad=True)
        term = policy_terms(change, torch.tensor(float(case["A"])), GrpoObjective())
        term.backward()
        assert term.item() == pytest.approx(case["loss"])
        assert (change.grad == 0) == case["zero_gradient"], case


def test_k3_has_the_listed_values_and_its_bound_where_listed(vectors):
    listed = vectors["kl_k3"]
    for case in listed["cases"]:
        assert k3(torch.tensor(case["d"], dtype=torch.float64)).item() == pytest.approx(
            case["k3"], rel=1e-5
        )
    at = torch.tensor([listed["clamp_reached_at_d"] - 1e-4, listed["clamp_reached_at_d"] + 1e-4])
    assert k3(at)[0] < 10
    assert k3(at)[1] == 10


@given(st.floats(-30, 5000))
def test_k3_is_never_negative_and_its_gradient_always_finite(d):
    difference = torch.tensor(d, dtype=torch.float64, requires_grad=True)
    value = k3(difference)
    value.backward()
    assert 0 <= value.item() <= 10
    assert math.isfinite(difference.grad.item())


def test_the_gradient_of_k3_is_its_finite_difference():
    difference = torch.tensor([-1.3, 0.0, 0.4, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(k3, difference)


@pytest.mark.parametrize(
    ("average", "ratio"),
    [("tokens", "tokens"), ("sequences", "tokens"), ("constant", "tokens"), ("sequences",) * 2],
)
def test_loss_and_gradient_do_not_depend_on_how_a_batch_is_cut(average, ratio):
    rows = some_rows()
    objective = GrpoObjective(
        kl_weight=0.05, entropy_weight=0.01, average=average, ratio=ratio, most_tokens=9, tis_cap=2
    )
    loss = GrpoLoss.over(rows, objective)
    found = []
    for cuts in ([4], [1, 3], [2, 2], [1, 1, 1, 1]):
        logprobs, reference, entropy = tensors(rows)
        report, first = LossReport(), 0
        for size in cuts:
            part = slice(first, first + size)
            batch = TokenBatch.of(rows[part], logprobs[part], reference[part], entropy[part])
            share, one = loss(batch)
            share.backward()
            report, first = report + one, first + size
        found.append((report, logprobs.grad, entropy.grad))
    for report, gradient, spread in found[1:]:
        assert report.loss == pytest.approx(found[0][0].loss, rel=1e-9)
        assert report.kl == pytest.approx(found[0][0].kl, rel=1e-9)
        torch.testing.assert_close(gradient, found[0][1], rtol=1e-9, atol=0)
        torch.testing.assert_close(spread, found[0][2], rtol=1e-9, atol=0)


def test_a_constant_mean_divides_by_the_longest_answer():
    rows = [row(1, advantage=-1.0, old=0.0), row(3, advantage=-4.0, old=0.0)]
    objective = replace(PLAIN, average="constant", most_tokens=10)
    loss, _ = GrpoLoss.over(rows, objective)(
        TokenBatch.of(rows, torch.zeros(2, 3, dtype=torch.float64))
    )
    assert loss.item() == pytest.approx((1 + 3 * 4) / (2 * 10))


def test_a_ratio_per_sequence_is_the_geometric_mean_of_its_chosen_tokens():
    rows = [row(3, advantage=1.0, mask=(True, False, True), old=0.0)]
    logprobs = torch.tensor([[math.log(4.0), 7.0, 0.0]], dtype=torch.float64, requires_grad=True)
    objective = replace(
        PLAIN, average="sequences", ratio="sequences", clip_high=2.0, dual_clip=None
    )
    loss, report = GrpoLoss.over(rows, objective)(TokenBatch.of(rows, logprobs))
    loss.backward()
    assert loss.item() == pytest.approx(-2.0)  # the root of 4 times 1
    assert logprobs.grad[0] == pytest.approx([-1.0, 0.0, -1.0])
    clipped = replace(objective, clip_high=0.5)
    loss, report = GrpoLoss.over(rows, clipped)(TokenBatch.of(rows, logprobs))
    assert (loss.item(), report.high) == (pytest.approx(-1.5), 2)


def test_importance_weights_are_truncated_and_leave_the_divergence_alone():
    rows = [row(3, advantage=-1.0, old=0.0)]
    theirs = (math.log(0.8), math.log(0.1), math.nan)
    rows = [replace(rows[0], sampler_logprobs=theirs)]
    logprobs = torch.zeros(1, 3, dtype=torch.float64)
    reference = torch.full((1, 3), -1.0, dtype=torch.float64)
    objective = GrpoObjective(kl_weight=1.0, tis_cap=2.0)
    batch = TokenBatch.of(rows, logprobs, reference)
    loss, report = GrpoLoss.over(rows, objective)(batch)
    kl = k3(torch.tensor(-1.0)).item()
    assert loss.item() == pytest.approx((1.25 + 2.0 + 1.0) / 3 + kl)
    assert (report.capped, report.capped_share) == (1, pytest.approx(1 / 3))
    assert report.sampler_gap == pytest.approx((-math.log(0.8) - math.log(0.1)) / 3)
    loss, report = GrpoLoss.over(rows, replace(objective, tis_cap=None))(batch)
    assert (loss.item(), report.capped) == (pytest.approx(1.0 + kl), 0)


def test_a_token_mean_counts_tokens_and_a_sequence_mean_rows():
    rows = [row(1, advantage=-1.0, old=0.0), row(3, advantage=-4.0, old=0.0)]
    logprobs = torch.zeros(2, 3, dtype=torch.float64)
    by_token, _ = GrpoLoss.over(rows, PLAIN)(TokenBatch.of(rows, logprobs))
    sequences = replace(PLAIN, average="sequences")
    by_row, _ = GrpoLoss.over(rows, sequences)(TokenBatch.of(rows, logprobs))
    assert by_token.item() == pytest.approx((1 + 3 * 4) / 4)
    assert by_row.item() == pytest.approx((1 + 4) / 2)


@pytest.mark.parametrize("junk", [1e30, -1e30])
def test_what_stands_under_the_mask_changes_nothing(junk):
    rows = some_rows()
    objective = GrpoObjective(kl_weight=0.05, entropy_weight=0.01)
    results = []
    for fill in (0.0, junk):
        logprobs, reference, entropy = tensors(rows)
        mask = TokenBatch.of(rows, logprobs).mask
        changed = torch.where(mask, logprobs.detach(), fill).requires_grad_()
        reference = torch.where(mask, reference, -fill)
        batch = TokenBatch.of(rows, changed, reference, entropy)
        loss, report = GrpoLoss.over(rows, objective)(batch)
        loss.backward()
        assert (changed.grad[~mask] == 0).all()
        results.append((loss.item(), report, changed.grad))
    assert results[0][0] == results[1][0]
    assert results[0][1] == results[1][1]
    assert torch.equal(results[0][2], results[1][2])


def test_a_row_of_no_weight_is_padding():
    rows = some_rows()
    with_padding = [*rows, row(5, advantage=9.0, weight=0.0)]
    logprobs, reference, _ = tensors(rows)
    more = torch.cat([logprobs, torch.zeros(1, 5, dtype=torch.float64)])
    more_reference = torch.cat([reference, torch.ones(1, 5, dtype=torch.float64)])
    objective = GrpoObjective()
    loss, report = GrpoLoss.over(rows, objective)(TokenBatch.of(rows, logprobs, reference))
    same, other = GrpoLoss.over(with_padding, objective)(
        TokenBatch.of(with_padding, more, more_reference)
    )
    assert same.item() == pytest.approx(loss.item(), rel=1e-12)
    assert other.rows == report.rows == 4


def test_at_the_reference_the_divergence_costs_nothing_and_pulls_nowhere():
    rows = [row(3, advantage=0.0)]
    logprobs = torch.full((1, 3), -1.0, dtype=torch.float64, requires_grad=True)
    loss, report = GrpoLoss.over(rows, GrpoObjective(kl_weight=1.0))(
        TokenBatch.of(rows, logprobs, logprobs.detach())
    )
    loss.backward()
    assert loss.item() == 0
    assert report.kl == 0
    assert (logprobs.grad == 0).all()


def test_the_report_counts_what_each_bound_holds_back():
    rows = [row(3, advantage=1.0, old=0.0), row(3, advantage=-1.0, old=0.0)]
    ratios = torch.tensor([[0.5, 1.0, 1.5], [0.5, 1.5, 5.0]], dtype=torch.float64)
    _, report = GrpoLoss.over(rows, PLAIN)(TokenBatch.of(rows, ratios.log()))
    assert (report.low, report.high, report.dual) == (1, 1, 1)
    assert report.clip_fraction == pytest.approx(0.5)
    assert report.drift_max == pytest.approx(math.log(5))


def test_an_enormous_ratio_gives_a_finite_gradient():
    rows = [row(2, advantage=(1.0, -1.0), old=-500.0)]
    logprobs = torch.full((1, 2), -0.1, dtype=torch.float64, requires_grad=True)
    loss, _ = GrpoLoss.over(rows, PLAIN)(TokenBatch.of(rows, logprobs))
    loss.backward()
    assert torch.isfinite(logprobs.grad).all()


def test_entropy_is_a_bonus():
    rows = [row(2, advantage=0.0)]
    entropy = torch.tensor([[0.5, 1.5]], dtype=torch.float64, requires_grad=True)
    logprobs = torch.full((1, 2), -1.0, dtype=torch.float64)
    objective = GrpoObjective(kl_weight=0.0, entropy_weight=0.1)
    loss, report = GrpoLoss.over(rows, objective)(TokenBatch.of(rows, logprobs, None, entropy))
    loss.backward()
    assert loss.item() == pytest.approx(-0.1)
    assert report.entropy == pytest.approx(1.0)
    assert (entropy.grad < 0).all()


def test_the_cold_start_minimizes_the_mean_surprise_of_target_tokens():
    rows = [row(2), row(3, mask=(True, False, False))]
    logprobs = torch.tensor([[-1.0, -2.0, 9.0], [-3.0, 9.0, 9.0]], dtype=torch.float64)
    loss, report = SftLoss.over(rows)(TokenBatch.of(rows, logprobs))
    assert loss.item() == pytest.approx(2.0)
    assert report.tokens == 3


def test_a_divergence_without_a_reference_is_a_bug():
    rows = [row(1)]
    with pytest.raises(ValueError, match="no reference"):
        GrpoLoss.over(rows, GrpoObjective())(TokenBatch.of(rows, torch.zeros(1, 1)))


def test_a_mini_batch_without_chosen_tokens_has_no_loss():
    with pytest.raises(ValueError, match="without a token"):
        GrpoLoss.over([row(2, mask=(False, False))], PLAIN)


@pytest.mark.parametrize(
    "wrong",
    [{"clip_low": 1.0}, {"clip_high": -0.1}, {"dual_clip": 1.2}, {"kl_weight": -1.0}],
)
def test_bounds_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError):
        GrpoObjective(**wrong)


def test_a_row_whose_lists_differ_in_length_is_refused():
    with pytest.raises(ValueError, match="as many tokens"):
        Row(None, (1, 2), (0.0,), (True, True), "e")
