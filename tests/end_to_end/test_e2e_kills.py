"""A run that is killed at twenty random moments ends as one that nobody disturbed."""

import random
import sys

import pytest

from doors import ALL_RULES, ALL_WRONG, story
from killing import KilledRun, die_often, executioner

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")

PLAN = [[ALL_WRONG], [ALL_RULES], ["Be quick."], [ALL_WRONG]]
LONG = {"train": {"epochs": 2, "batch_size": 6}, "rollout": {"max_concurrent": 4}}


@pytest.fixture(scope="module")
def world():
    with executioner(PLAN) as (server, killer):
        yield server, killer


@pytest.fixture(scope="module")
def undisturbed(world, tmp_path_factory):
    """The run that nobody kills, and how many requests it took."""
    server, killer = world
    run = KilledRun(tmp_path_factory.mktemp("whole"), server, killer, **LONG)
    assert run.live()
    return run, list(killer.asked)


def test_an_undisturbed_run_asks_nothing_twice(undisturbed):
    run, asked = undisturbed
    answered = run.answered()
    questions = [question for question in asked if question in answered]
    assert len(questions) > 100
    assert len(set(questions)) == len(questions)


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.heavy)])
def test_kills_change_nothing_and_lose_nothing(world, undisturbed, tmp_path, kills):
    server, killer = world
    whole, asked = undisturbed
    run = KilledRun(tmp_path, server, killer, **LONG)
    die_often(run, kills, random.Random(7), longest=2 * len(asked) // kills)
    assert run.kills == kills
    assert story(run.path) == story(whole.path)
    assert not run.lost
    assert not run.repeated
