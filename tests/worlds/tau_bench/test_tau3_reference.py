"""tau3's published tasks at a2c0247: how many load, and that their gold actions earn the reward."""

import json
import shutil

import pytest

from skillwright.worlds.tau_bench import DOMAINS, TauEnv, open_store, tau_tasks
from skillwright.worlds.tau_bench.upstream import fetch_tau_bench
from tau_store import write_sums

SPLIT = {"retail": "base", "airline": "base", "telecom": "small"}


@pytest.fixture
def made(reference_data, tmp_path, monkeypatch):
    """Convert a domain; the databases of retail and airline are those of tau-bench."""
    source = reference_data / "tau3"
    if not source.is_dir():
        pytest.skip(f"no data of tau3 at {source}")
    for domain in ("retail", "airline"):
        folder = reference_data / f"tau_{domain}"
        monkeypatch.setenv(DOMAINS[domain].data_variable, str(folder))

    def make(domain):
        name = f"tau3_{domain}"
        fetched = fetch_tau_bench(tmp_path / name, str(source), domain=name)
        assert fetched.is_pinned
        return open_store(fetched.folder, name)

    return make


@pytest.mark.parametrize(
    ("domain", "every", "unjudged"), [("retail", 114, 74), ("airline", 50, 50), ("telecom", 20, 20)]
)
def test_all_tasks_load_with_a_judge_and_gold_earns_the_reward(made, domain, every, unjudged):
    store, split = made(domain), SPLIT[domain]
    config = {"domain": store.domain.name, "data_dir": str(store.folder)}
    assert len(tau_tasks(split, {**config, "judge_votes": 1})) == every
    assert len(tau_tasks(split, config)) == unjudged
    for index, task in enumerate(store.tasks(split)):
        env = TauEnv(store, split, index)
        env.restart()
        for one in task.actions:
            (env.call_by_user if one.by_user else env.call)(one.name, one.kwargs)
        for text in task.outputs:
            env.say(text)
        assert (index, env.grade().reward) == (index, 1.0)


def test_eighteen_gold_actions_of_fifteen_retail_tasks_are_refused_and_two_of_them_write(made):
    store = made("retail")
    refused = {at: store.gold("base", at).refused for at in range(114)}
    assert sum(map(len, refused.values())) == 18
    assert sum(map(bool, refused.values())) == 15
    assert [at for at, of in refused.items() if any(writes for writes, _ in of)] == [64, 105]


def test_the_published_retail_tasks_load_by_tau_benchs_own_tools_too(reference_data, tmp_path):
    if not (reference_data / "tau3").is_dir():
        pytest.skip("no data of tau3")
    folder = tmp_path / "retail"
    shutil.copytree(reference_data / "tau_retail", folder)
    listed = json.loads((reference_data / "tau3" / "retail" / "tasks.json").read_text())
    (folder / "tasks_tau3.json").write_text(json.dumps(listed), encoding="utf-8")
    write_sums(folder)
    config = {"data_dir": str(folder)}
    assert len(tau_tasks("tau3", {**config, "judge_votes": 1})) == 114
    assert len(tau_tasks("tau3", config)) == 74
