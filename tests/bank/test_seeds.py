"""The seed banks: how many of what, in which form, and that they ship."""

import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from skillwright.bank import SEED_BANKS, near_in_text, seed_bank
from skillwright.core import SkillKind, SkillOrigin, SkillStatus, UsageError
from skillwright.worlds.alfworld.env import CATEGORIES as ALFWORLD_CATEGORIES
from skillwright.worlds.tau_bench import DOMAINS
from skillwright.worlds.webshop import CATEGORIES as WEBSHOP_CATEGORIES

CATEGORIES = {
    "alfworld": set(ALFWORLD_CATEGORIES.values()),
    "tau_bench": set(DOMAINS["retail"].all_task_types),
    "webshop": set(WEBSHOP_CATEGORIES),
}


def kinds(name):
    counted = Counter(skill.kind for skill in seed_bank(name).active)
    return [counted[kind] for kind in SkillKind]


def test_alfworld_has_twelve_general_skills_and_43_others():
    assert kinds("alfworld") == [12, 32, 11]


def test_the_other_banks_have_what_their_rules_need():
    assert kinds("webshop") == [12, 22, 7]
    assert kinds("tau_bench") == [12, 17, 7]


@pytest.mark.parametrize("name", SEED_BANKS)
def test_every_category_of_the_environment_has_skills_and_no_other_has(name):
    skills = seed_bank(name).skills
    specific = {skill.category for skill in skills if skill.kind == SkillKind.TASK_SPECIFIC}
    assert specific == CATEGORIES[name]
    assert {skill.category for skill in skills} <= CATEGORIES[name] | {""}


@pytest.mark.parametrize("name", SEED_BANKS)
def test_every_item_is_short_and_whole_and_says_something_of_its_own(name):
    bank = seed_bank(name)
    assert bank.version == 1
    for skill in bank.skills:
        assert skill.status == SkillStatus.ACTIVE
        assert skill.provenance.origin == SkillOrigin.SEED
        assert 1 <= len(skill.name.split()) <= 5
        assert len(skill.text) <= 343  # the longest of a published bank
        assert skill.principle.count(". ") <= 1
        assert skill.applicability
    assert len(set(bank.content_digests.values())) == len(bank.skills)
    pairs = [
        (one.id, two.id)
        for one in bank.skills
        for two in bank.skills
        if one.id < two.id
        and (one.kind, one.category) == (two.kind, two.category)
        and near_in_text(one, two)
    ]
    assert pairs == []


@pytest.mark.parametrize("name", SEED_BANKS)
def test_a_failure_point_reads_well_after_avoid(name):
    for skill in seed_bank(name).active:
        if skill.counterfactual is not None:
            assert skill.counterfactual.failure_point.split()[0].endswith("ing")


def test_an_unknown_seed_bank_names_the_nearest():
    with pytest.raises(UsageError, match=r"no seed bank 'alfword'\. Did you mean 'alfworld'"):
        seed_bank("alfword")


def test_the_seed_banks_ship_in_the_wheel(tmp_path):
    project = Path(__file__).resolve().parents[2]
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(words, cwd=project, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    assert shipped >= {f"skillwright/bank/seeds/{name}.json" for name in SEED_BANKS}
