"""Skills of any form come into a bank through one door, and into pending."""

import json

import pytest
from canaries import CANARIES, skill_saying
from test_skillrl_json import ALFWORLD

from skillwright.bank import (
    Approve,
    Bank,
    Retire,
    apply,
    import_skills,
    save_bank,
    seed_bank,
    to_agent_skills,
    to_markdown,
    to_skillrl,
    write_agent_skills,
)
from skillwright.bank.formats.imports import load_any_bank
from skillwright.bank.formats.markdown import from_markdown, section
from skillwright.bank.render import skill_line
from skillwright.core import DataError, SkillKind, SkillOrigin, SkillStatus

SEEDS = seed_bank("alfworld")


def saved(form, folder):
    """The seed bank, as a path of a form."""
    if form == "folders":
        write_agent_skills(to_agent_skills(SEEDS, "alfworld"), folder / "skills")
        return folder / "skills"
    path = folder / {"ours": "bank.json", "markdown": "bank.md"}[form]
    if form == "ours":
        save_bank(apply(SEEDS, [Retire("t001", "old")])[0], path)
    else:
        path.write_text(to_markdown(SEEDS), encoding="utf-8")
    return path


@pytest.mark.parametrize(("form", "count"), [("folders", 55), ("ours", 54), ("markdown", 55)])
def test_every_form_comes_in_quarantined_and_can_be_admitted(form, count, tmp_path):
    path = saved(form, tmp_path)
    bank, report = import_skills(Bank(), path)
    assert len(report.added) == len(bank.skills) == count
    assert {skill.status for skill in bank.skills} == {SkillStatus.PENDING}
    assert {skill.provenance.origin for skill in bank.skills} == {SkillOrigin.IMPORTED}
    approved, _ = apply(bank, [Approve(skill.id, "passed") for skill in bank.skills])
    said = {skill.content_digest for skill in SEEDS.skills}
    assert {skill.content_digest for skill in approved.active} <= said
    assert len(approved.active) == count


@pytest.mark.parametrize("form", ["folders", "ours", "markdown"])
def test_what_a_bank_has_already_is_merged(form, tmp_path):
    bank, report = import_skills(SEEDS, saved(form, tmp_path))
    assert bank is SEEDS
    assert len(report.merged) in (54, 55)


def test_skillrls_layout_is_recognized_and_stays_exportable(tmp_path):
    (tmp_path / "bank.json").write_text(json.dumps(ALFWORLD))
    bank, _ = import_skills(SEEDS, tmp_path / "bank.json")
    assert len(bank.skills) == 55 + 10
    assert len(bank.active) == 55
    exported = json.loads(to_skillrl(bank))
    assert exported["metadata"] == ALFWORLD["metadata"]
    heat = exported["task_specific_skills"]["heat"]
    assert heat[:1] == ALFWORLD["task_specific_skills"]["heat"]


def test_a_skill_file_is_read_like_its_folder(tmp_path):
    path = saved("folders", tmp_path) / "alfworld"
    assert import_skills(Bank(), path)[0] == import_skills(Bank(), path / "SKILL.md")[0]


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.name)
def test_no_canary_leaves_quarantine(canary, tmp_path):
    lesson = skill_saying(canary.text)
    document = {
        "general_skills": [
            {"skill_id": "gen_001", "title": "Look", "principle": canary.text, "when_to_apply": ""}
        ],
        "common_mistakes": [
            {
                "mistake_id": "err_001",
                "title": "Look",
                "description": lesson.counterfactual.failure_point,
                "why_it_happens": lesson.counterfactual.flawed_reasoning,
                "how_to_avoid": canary.text,
            }
        ],
    }
    (tmp_path / "bank.json").write_text(json.dumps(document))
    bank, _ = import_skills(Bank(), tmp_path / "bank.json")
    after, _ = apply(bank, [Approve(skill.id, "try") for skill in bank.skills])
    # A line break is taken out on the way in; what is left of that one must not pass either.
    assert [skill for skill in after.active if skill.kind == SkillKind.GENERAL] == []
    assert after.active == ()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("bank.yaml", "a: 1", "none of the forms"),
        ("bank.json", "{", "is no JSON"),
        ("bank.json", '{"x": 1}', "unknown key 'x'"),
        ("bank.md", "Nothing.", "has no skills"),
    ],
)
def test_another_form_is_refused(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        import_skills(Bank(), tmp_path / name)
    with pytest.raises(DataError):
        import_skills(Bank(), tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("ours.json", {"schema_version": 1, "general": [], "by_category": {}, "lessons": []}),
        ("theirs.json", {"general_skills": [], "task_specific_skills": {}, "common_mistakes": []}),
    ],
)
def test_a_bank_without_skills_is_said(tmp_path, caplog, name, body):
    path = tmp_path / name
    path.write_text(json.dumps(body), encoding="utf-8")
    import_skills(Bank(), path)
    load_any_bank(path)
    assert caplog.text.count(f"{name} holds no skills; nothing of it is added or injected") == 2


def test_the_remedy_of_an_imported_lesson_is_printed_once(tmp_path):
    lesson = {
        "mistake_id": "m1",
        "description": "Heating what you do not hold",
        "why_it_happens": "the object seems near",
        "how_to_avoid": "Take the object first",
    }
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps({"general_skills": [], "common_mistakes": [lesson]}), "utf-8")
    (skill,) = load_any_bank(path).skills
    assert skill_line(skill).count("Take the object first") == 1
    assert "Avoid: Heating what you do not hold. Instead: Take the object first." in skill_line(
        skill
    )
    text = "\n".join(section(skill))
    assert text.count("Take the object first") == 1
    (again,) = from_markdown(text, "x")
    assert again.counterfactual == skill.counterfactual
    assert again.principle == skill.principle
