"""An episode keeps the skills that were injected."""

from dataclasses import replace

from skillwright.runs import RunStore


def told(episode):
    return replace(episode, skill_ids=("g001", "t002"), skill_scores=(0.25, 0.5))


def test_what_an_agent_was_told_is_read_back(tmp_path, make_episode):
    episode, plain = told(make_episode()), make_episode("t2")
    with RunStore.open(tmp_path / "run.sqlite") as store:
        store.record_episode(episode)
        store.record_episode(plain)
        assert store.find_episode(episode.key) == episode
        assert store.find_episode(plain.key) == plain
        assert [one.skill_ids for one in store.episodes()] == [("g001", "t002"), ()]
