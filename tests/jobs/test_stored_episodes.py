"""What an engine is given of episodes that a run holds."""

from dataclasses import replace

import pytest

from skillwright.core import Act, EpisodeResult, EpisodeSpec, Task, Trajectory, Turn, Usage
from skillwright.jobs.run import StoredEpisodes
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
