"""Folders of the Agent Skills standard: within its limits, harmless to clients, read back."""

import re
from dataclasses import replace

import pytest
import yaml
from canaries import CANARIES, skill_saying
from hypothesis import given
from hypothesis import strategies as st
from test_changes import adds, draft

from skillwright.bank import (
    SEED_BANKS,
    Add,
    Bank,
    Retire,
    apply,
    read_agent_skills,
    seed_bank,
    to_agent_skills,
    write_agent_skills,
)
from skillwright.core import DataError, SkillKind, SkillOrigin, SkillStatus

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
KEYS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
# What the clients that we know of expand, execute or fetch.
EXPANDED = re.compile(
    r"!`|\$ARGUMENTS|\$\d|\$\{|\{\{|(^|\s)@\S|\]\(|<[a-z!/]|://|```|^/\w", re.MULTILINE
)


def check_standard(files):
    """The public rules of agentskills.io and its validators, for a folder of folders."""
    folders = {path.split("/")[0] for path in files}
    for folder in folders:
        text = files[f"{folder}/SKILL.md"]
        assert text.startswith("---\n")
        assert "\r" not in text
        _, head, body = text.split("---\n", 2)
        fields = yaml.safe_load(head)
        assert set(fields) <= KEYS
        assert fields["name"] == folder
        assert NAME.fullmatch(fields["name"])
        assert 1 <= len(fields["name"]) <= 64
        assert isinstance(fields["description"], str)
        assert 1 <= len(fields["description"].strip()) <= 1024
        assert not set("<>") & set(fields["description"])
        assert "allowed-tools" not in fields  # nobody is given tools by what was learned
        assert all(
            isinstance(key, str) and isinstance(value, str)
            for key, value in fields["metadata"].items()
        )
        assert len(body.splitlines()) < 500
        assert len(body) / 4 < 5_000
        for named in re.findall(r"\S*references/\S+", body):
            assert f"{folder}/{named}" in files
            assert named.count("/") == 1  # one level deep
    for path, text in files.items():
        assert path.endswith(".md")
        assert not EXPANDED.search(text)


def key(skill):
    return (skill.kind, skill.category, skill.content_digest)


@pytest.mark.parametrize("name", SEED_BANKS)
def test_a_seed_bank_becomes_valid_folders_and_reads_back(name, tmp_path):
    bank = seed_bank(name)
    made = write_agent_skills(bank, tmp_path, name)
    assert made.left_out == {}
    check_standard(made.files)
    slug = name.replace("_", "-")
    assert f"{slug}-general/SKILL.md" in made.files
    drafts = read_agent_skills(tmp_path)
    assert sorted(map(key, drafts)) == sorted(map(key, bank.active))
    assert {one.status for one in drafts} == {SkillStatus.PENDING}
    assert {one.provenance.origin for one in drafts} == {SkillOrigin.IMPORTED}


def test_a_description_begins_with_what_it_is_for():
    made = to_agent_skills(seed_bank("alfworld"), "alfworld")
    head = yaml.safe_load(made.files["alfworld-look-at-obj-in-light/SKILL.md"].split("---\n")[1])
    assert head["description"] == (
        "Use for look at obj in light tasks of alfworld. Principles: 5. Lessons from practice: 1."
    )
    assert head["metadata"]["bank-version"] == "1"


def test_what_does_not_fit_goes_to_references_and_reads_back(tmp_path):
    bank, _ = apply(Bank(), adds(range(150)))
    made = write_agent_skills(bank, tmp_path, "shop")
    check_standard(made.files)
    assert set(made.files) == {
        "shop-heat/SKILL.md",
        *(f"shop-heat/references/more-{n}.md" for n in (1, 2)),
    }
    assert "See references/more-2.md" in made.files["shop-heat/SKILL.md"]
    names = [one.name for one in read_agent_skills(tmp_path / "shop-heat")]
    assert names == [f"Rule {n}" for n in range(150)]


def test_a_second_export_takes_away_references_that_are_no_longer_needed(tmp_path):
    bank, _ = apply(Bank(), adds(range(150)))
    write_agent_skills(bank, tmp_path, "shop")
    (tmp_path / "shop-heat" / "references" / "mine.md").write_text("kept")
    smaller, _ = apply(bank, [Retire(one.id, "old") for one in bank.skills[3:]])
    write_agent_skills(smaller, tmp_path, "shop")
    left = sorted(path.name for path in (tmp_path / "shop-heat" / "references").iterdir())
    assert left == ["mine.md"]
    assert len(read_agent_skills(tmp_path)) == 3


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.name)
def test_no_canary_is_written_even_if_a_bank_has_it(canary):
    poisoned = replace(skill_saying(canary.text), id="l001")
    clean = draft(1, "", id="g001")
    made = to_agent_skills(Bank(1, (poisoned, clean)), "shop")
    assert list(made.left_out) == ["l001"]
    check_standard(made.files)
    assert "Rule 1" in made.files["shop-general/SKILL.md"]


def test_what_is_not_active_is_not_written():
    hidden = replace(draft(1, id="t001"), status=SkillStatus.PENDING)
    assert to_agent_skills(Bank(1, (hidden,)), "shop").files == {}


labels = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


@given(labels, st.lists(st.tuples(labels, labels), min_size=1, max_size=4, unique=True))
def test_any_labels_make_valid_folders_that_no_two_groups_share(name, groups):
    skills = [
        replace(draft(n, category or "x"), id=f"t{n:03d}", scope=scope)
        for n, (category, scope) in enumerate(groups)
    ]
    made = to_agent_skills(Bank(1, tuple(skills)), name)
    check_standard(made.files)
    written = [path for path in made.files if path.endswith("SKILL.md")]
    lawful = [one for one in skills if one.id not in made.left_out]
    assert len(written) == len({(one.category, one.scope) for one in lawful})


FOREIGN = """---
name: pdf-tools
description: Work with PDFs: merge, split and fill forms
---

# PDF tools

Some words first.

- **Merge last:** Merge the pages after every form is filled.
- Check the page count
1. Keep the original file.
"""


def test_other_peoples_folders_are_read_leniently(tmp_path):
    folder = tmp_path / "skills" / "pdf-tools"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("\ufeff" + FOREIGN.replace("\n", "\r\n"), encoding="utf-8")
    (folder / "scripts" / "run.sh").write_text("rm -rf /")
    skipped = tmp_path / "skills" / "node_modules" / "x"
    skipped.mkdir(parents=True)
    (skipped / "SKILL.md").write_text("no frontmatter")
    drafts = read_agent_skills(tmp_path)
    assert [(one.name, one.principle) for one in drafts] == [
        ("Merge last", "Merge the pages after every form is filled."),
        ("Check the page count", "Check the page count"),
        ("Keep the original file", "Keep the original file."),
    ]
    assert {one.applicability for one in drafts} == {"Work with PDFs: merge, split and fill forms"}
    assert {(one.kind, one.status) for one in drafts} == {(SkillKind.GENERAL, SkillStatus.PENDING)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# No frontmatter\n- a b", "does not begin with frontmatter"),
        ("---\nname: x\n", "does not begin with frontmatter"),
        ("---\n- a\n---\n- b", "is no map"),
        ("---\nname: x\n---\n- b", "has no description"),
        ("---\nname: x\ndescription: ''\n---\n- b", "has no description"),
        ("---\nname: x\ndescription: y\n---\nWords only.", "has no skills"),
    ],
)
def test_a_wrong_file_is_named(text, message, tmp_path):
    (tmp_path / "SKILL.md").write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_agent_skills(tmp_path)
    assert "SKILL.md" in str(caught.value)


def test_a_folder_without_skills_is_named(tmp_path):
    with pytest.raises(DataError, match=r"holds no SKILL\.md"):
        read_agent_skills(tmp_path)


def test_a_price_is_no_argument_of_a_client_and_reads_back(tmp_path):
    priced = replace(draft(0), principle="Drop what costs over $15.99, or $5 each.")
    bank, _ = apply(Bank(), [Add(priced)])
    made = write_agent_skills(bank, tmp_path, "webshop")
    check_standard(made.files)
    assert "over $ 15.99, or $ 5 each." in "".join(made.files.values())
    (back,) = read_agent_skills(tmp_path)
    assert back.principle == priced.principle
