"""What an engine is given of episodes that a run holds: the same from memory as from the file."""

from dataclasses import replace

import pytest

from skillwright.core import Act, EpisodeResult, EpisodeSpec, Task, Trajectory, Turn, Usage
from skillwright.core.paths import AHEAD
from skillwright.jobs.run.memory import RECENT_TURNS, StoredEpisodes
from skillwright.runs import Redactor, RunStore


@pytest.fixture
def store(tmp_path):
    with RunStore.open(tmp_path / "run.sqlite", redactor=Redactor(["hunter2-key"])) as opened:
        yield opened


def an_episode(key, phase="train", turns=2, said="Look."):
    acts = [Act(said, Usage(1, 10, 5)) for _ in range(turns)]
    spec = EpisodeSpec(Task("t1", "guess", {"upper": 4}), seed=3, phase=phase, step=1)
    done = tuple(Turn(n, (), act, "You see a cup.", 0.0) for n, act in enumerate(acts))
    spent = {"side_usage": {"user": Usage(1, 7, 7)}, "lost_usage": Usage(1, 9, 9)}
    return EpisodeResult(spec, 1.0, trajectory=Trajectory("Find it.", done), key=key, **spent)


def everything(result):
    return result, result.lost_usage, result.side_usage


def test_what_was_asked_for_and_then_played_is_found_as_a_resumed_run_finds_it(store):
    episodes = StoredEpisodes(store, "me")
    assert episodes.find("a") is None
    played = an_episode("a", AHEAD)
    assert episodes.record(played) == played
    found = episodes.find("a")
    assert everything(found) == everything(StoredEpisodes(store, "me").find("a"))
    store.close()
    assert episodes.find("a") is found  # of the file nothing was read


def test_what_was_played_ahead_is_found_as_what_it_was_asked_for(store):
    episodes = StoredEpisodes(store, "me")
    episodes.find("a")
    played = episodes.record(an_episode("a", AHEAD))
    for phase, step in (("train", 4), ("gate", 5)):  # only the first ask says what it was for
        episodes.adopt(replace(played, spec=replace(played.spec, phase=phase, step=step)))
        found = episodes.find("a")
        assert (found.spec.phase, found.spec.step) == ("train", 4)
        assert everything(found) == everything(StoredEpisodes(store, "me").find("a"))


def test_what_holds_a_secret_is_found_without_it(store):
    episodes = StoredEpisodes(store, "me")
    episodes.find("a")
    episodes.record(an_episode("a", said="my key is hunter2-key"))
    assert "hunter2-key" not in episodes.find("a").trajectory.turns[0].act.text


def test_a_result_that_the_file_already_has_is_not_taken_for_it(store):
    first = an_episode("a")
    StoredEpisodes(store, "me").record(first)
    episodes = StoredEpisodes(store, "me")
    episodes.record(replace(first, reward=0.0))
    assert episodes.find("a") == first


def test_no_more_than_some_turns_are_kept(store):
    episodes = StoredEpisodes(store, "me")
    for number in range(RECENT_TURNS):
        episodes.find(f"k{number}")
        episodes.record(an_episode(f"k{number}"))
    kept = [one for one in episodes._recent.values() if one is not None]
    assert 0 < sum(len(one.trajectory.turns) for one in kept) <= RECENT_TURNS
    assert episodes.find("k0") == an_episode("k0")
