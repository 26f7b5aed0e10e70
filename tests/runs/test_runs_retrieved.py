"""An episode keeps which skills its agent was told; a store from before opens with none."""

import sqlite3
from dataclasses import replace

from older_stores import make_older
from skillwright.core.sqlite_file import schema_version
from skillwright.runs import RunStore
from skillwright.runs.database import SCHEMA


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


def test_a_store_from_before_opens_with_all_its_episodes(tmp_path, make_episode):
    path, episode = tmp_path / "run.sqlite", make_episode()
    with RunStore.open(path) as store:
        store.record_episode(episode)
    before = next(
        n for n, m in enumerate(SCHEMA.migrations) if any("skill_ids" in line for line in m)
    )
    make_older(path, before)
    with RunStore.open(path, read_only=True) as store:
        assert store.find_episode(episode.key) == episode
    later = told(make_episode("t2"))
    with RunStore.open(path) as store:
        assert store.find_episode(episode.key) == episode
        store.record_episode(later)
        assert store.find_episode(later.key) == later
    connection = sqlite3.connect(path)
    assert schema_version(connection) == len(SCHEMA.migrations)
    connection.close()
