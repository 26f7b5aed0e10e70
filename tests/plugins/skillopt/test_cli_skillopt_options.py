"""Options as SkillOpt's scripts take them."""

import json

import pytest
import yaml


@pytest.fixture
def houses(tmp_path):
    llm = {"backend": "scripted", "model": "household"}
    data = {"kind": "generated", "train": 2, "val": 3, "test": 4}
    settings = {
        "models": {"target": llm, "optimizer": {**llm, "model": "analyst"}},
        "env": {"data": data},
        "evaluation": {"gate": {"kind": "strict"}},
    }
    path = tmp_path / "houses.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("split", "tasks"), [("valid_seen", 3), ("valid_unseen", 4), ("train", 2), ("val", 3)]
)
def test_a_split_may_be_called_by_their_name(cli, houses, split, tasks):
    report = json.loads(cli("eval", houses, "--split", split, "--json").stdout)
    assert report["table"]["overall"]["episodes"] == tasks


def test_options_of_theirs_follow_one_flag(cli, houses):
    words = ("--cfg-options", "train.seed=7", "batch_size=2", "--json", "--split", "train")
    report = json.loads(cli("eval", houses, *words).stdout)
    kept = yaml.safe_load((houses.parent / report["run"] / "config.yaml").read_text())
    assert (kept["run"]["seed"], kept["train"]["batch_size"]) == (7, 2)
    assert report["table"]["overall"]["episodes"] == 2


def test_the_flag_takes_nothing_that_is_no_setting(cli, houses):
    said = cli("eval", "--cfg-options", "train.seed=7", houses, "--json").stdout
    assert json.loads(said)["table"]["overall"]["episodes"] == 4
    said = cli("train", houses, "--cfg-options", "train.num_epoch=1", code=2).stderr
    assert "no key 'train.num_epoch'" in " ".join(said.split())
