"""Skills that change nothing are rarely released, whatever the endpoint and the tasks are like."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def simulated(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("false_releases")


@pytest.mark.parametrize("level", ["rising", "falling", "switching"])
def test_an_endpoint_whose_level_moves_releases_nothing_by_that(simulated, level):
    assert simulated.drift(level, 30) <= 4  # at 5%, more are seen in 1 of 50 cases


def test_without_pairs_a_rising_level_would_release(simulated):
    assert simulated.drift("rising", 30, simulated.OneAfterTheOther) >= 8


@pytest.mark.parametrize("noise", [0, 1])
def test_rows_with_shuffled_labels_train_nothing(simulated, noise):
    assert not simulated.trains_nothing(list(simulated.DESIGNS)[noise], 1)
