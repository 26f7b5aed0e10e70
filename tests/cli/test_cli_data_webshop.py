"""``skillwright data webshop`` makes a catalogue, and a configuration uses it."""

import json

import pytest

from skillwright.config import RunConfig
from skillwright.config.env import EnvSection, GeneratedData, WebShopData
from skillwright.jobs.run.tasks import make_splits
from skillwright.worlds.webshop import imported_path

ITEMS = [
    {"asin": f"B{number:09}", "name": "Ivia Lamp", "pricing": "$20", "query": "lamp"}
    for number in range(40)
]
HUMAN = {
    item["asin"]: [{"instruction": f"i need lamp {number}.", "instruction_attributes": ["ivia"]}]
    for number, item in enumerate(ITEMS)
}


@pytest.fixture
def official(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "official"
    folder.mkdir()
    (folder / "items_shuffle.json").write_text(json.dumps(ITEMS))
    (folder / "items_human_ins.json").write_text(json.dumps(HUMAN))
    return folder


def config(**env):
    optimizer = {"backend": "scripted", "model": "analyst"}
    models = {"target": {"backend": "scripted", "model": "household"}, "optimizer": optimizer}
    return RunConfig.model_validate({"env": {"name": "webshop", **env}, "models": models})


def test_a_catalogue_is_made_and_found_again(cli, official):
    told = cli("data", "webshop", "--from", official).stderr
    assert "40 products (0 skipped) with 40 human and 0 synthetic goals" in told
    assert "env.config.catalogue: imported" in told
    assert imported_path().is_file()
    splits = make_splits(config(config={"catalogue": "imported"}))
    assert len(splits.train.tasks) == 20


def test_it_goes_where_it_is_told(cli, official, tmp_path):
    to = tmp_path / "shop.sqlite"
    made = json.loads(cli("data", "webshop", "--from", official, "--to", to, "--json").stdout)
    assert made["path"] == str(to)
    assert made["products"] == 40
    assert not imported_path().exists()


def test_a_folder_without_the_files_is_refused(refused, tmp_path):
    assert "items_shuffle.json" in refused("data", "webshop", "--from", tmp_path)


def test_webshop_has_data_and_turns_of_its_own():
    env = EnvSection.model_validate({"name": "webshop"})
    assert env.data == WebShopData()
    assert env.max_turns == 15
    mine = EnvSection.model_validate({"name": "webshop", "data": {"seed": 3}, "max_turns": 50})
    assert mine.data == WebShopData(seed=3)
    assert mine.max_turns == 50
    with pytest.raises(ValueError, match="gives customers of 'webshop', and the environment is"):
        EnvSection(name="alfworld", data=WebShopData())
    with pytest.raises(ValueError, match="gives games of 'alfworld'"):
        EnvSection(name="webshop", data=GeneratedData())


def test_a_configuration_cuts_the_built_in_goals():
    data = {"train": 7, "val": 30, "test": 5, "goals": "synthetic", "seed": 1}
    splits = make_splits(config(data=data))
    assert len(splits.train.tasks) == 7
    assert {task.extras["world_seed"] for task in splits.train.tasks} == {1}
    assert all("/synthetic/" in task.extras["goal"] for task in splits.train.tasks)
