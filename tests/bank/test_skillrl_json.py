"""Banks in SkillRL's three published layouts come in quarantined and go out without loss."""

import json
from dataclasses import replace

import pytest

from skillwright.bank import (
    Approve,
    Bank,
    BankStore,
    Refine,
    Retire,
    apply,
    import_skillrl,
    is_skillrl,
    read_memories,
    read_skillrl,
    seed_bank,
    to_skillrl,
)
from skillwright.core import DataError, SkillKind, SkillOrigin, SkillStatus


def skill(skill_id, title, **more):
    return {
        "skill_id": skill_id,
        "title": title,
        "principle": f"{title} before anything else is tried.",
        "when_to_apply": f"Whenever {title.lower()} could help.",
        **more,
    }


def mistake(mistake_id, subject, **more):
    return {
        "mistake_id": mistake_id,
        "description": f"The agent gave up on {subject} after one attempt.",
        "why_it_happens": f"It believed that {subject} cannot be mended.",
        "how_to_avoid": f"Try {subject} once more in another way.",
        **more,
    }


ALFWORLD = {
    "general_skills": [skill("gen_001", "Sweep the room"), skill("dyn_001", "Note the places")],
    "task_specific_skills": {
        "pick_and_place": [skill("pic_001", "Carry it straight")],
        "look_at_obj_in_light": [skill("loo_001", "Find the lamp")],
        "clean": [skill("cle_001", "Find the sink")],
        "heat": [skill("hea_001", "Find the microwave", confidence=0.75)],
        "cool": [skill("coo_001", "Find the fridge")],
        "examine": [skill("exa_001", "Find the lamp"), skill("exa_002", "Hold the object up")],
    },
    "common_mistakes": [mistake("err_001", "the search"), mistake("err_002", "the drawer")],
    "metadata": {
        "source": "episodes",
        "total_memories_analyzed": 223,
        "task_distribution": {"heat": {"success": 20, "failure": 17}},
    },
}
WEBSHOP = {
    "metadata": {"source": "episodes", "notes": ["ü", None, 1.5, True]},
    "general_skills": [skill("gen_001", "Read the wish")],
    "task_specific_skills": {
        key: [skill(f"{key[:3]}_001", f"Look at {key}"), skill(f"{key[:3]}_002", f"Size of {key}")]
        for key in (
            *("apparel", "footwear", "home_decor", "electronics", "accessories"),
            *("beauty_health", "other"),
        )
    },
    "common_mistakes": [mistake("err_001", "the price")],
    "format": "v2",
}
SEARCH = {
    "general_skills": [skill("gen_001", "Ask one thing", examples=[{"q": "who?"}])],
    "query_type_skills": {
        "direct_retrieval": [skill("dir_001", "Search the name")],
        "multi_hop_reasoning": [skill("mul_001", "Find the bridge")],
        "entity_attribute_lookup": [skill("ent_001", "Name the attribute")],
        "comparison": [skill("com_001", "Look both up")],
    },
    "common_mistakes": [mistake("err_001", "the second search")],
    "metadata": {"source": "questions"},
}
LAYOUTS = {"alfworld": ALFWORLD, "webshop": WEBSHOP, "search": SEARCH}
COUNTS = {"alfworld": (2, 7, 2), "webshop": (1, 14, 1), "search": (1, 4, 1)}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_published_layout_goes_in_and_out_without_loss(name, tmp_path):
    text = json.dumps(LAYOUTS[name], ensure_ascii=False)
    bank, _ = import_skillrl(Bank(), text)
    assert json.loads(to_skillrl(bank)) == LAYOUTS[name]
    with BankStore.open(tmp_path / "bank.db") as store:
        store.adopt(bank, reason="an import")
    with BankStore.open(tmp_path / "bank.db") as store:
        exported = to_skillrl(store.load())
    assert json.loads(exported) == LAYOUTS[name]
    # Order counts for readers, so keys stay in place too.
    assert json.dumps(json.loads(exported), ensure_ascii=False) == text


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_item_comes_in_quarantined(name):
    drafts = read_skillrl(json.dumps(LAYOUTS[name]))
    kinds = [one.kind for one in drafts]
    assert tuple(kinds.count(kind) for kind in SkillKind) == COUNTS[name]
    bank, _ = import_skillrl(Bank(), json.dumps(LAYOUTS[name]))
    assert bank.active == ()
    assert bank.version == 1
    assert {one.status for one in bank.skills} == {SkillStatus.PENDING}
    assert {one.provenance.origin for one in bank.skills} == {SkillOrigin.IMPORTED}
    approved, _ = apply(bank, [Approve(one.id, "passed") for one in bank.skills])
    assert len(approved.active) == len(bank.skills)
    assert json.loads(to_skillrl(approved)) == LAYOUTS[name]


def test_examine_is_another_name_of_look_at_and_equal_items_are_one_skill():
    bank, report = import_skillrl(Bank(), json.dumps(ALFWORLD))
    looks = [one for one in bank.skills if one.category == "look_at_obj_in_light"]
    assert [one.name for one in looks] == ["Find the lamp", "Hold the object up"]
    assert len(report.merged) == 1
    assert all(one.category != "examine" for one in bank.skills)


def test_query_type_skills_are_task_specific():
    bank, _ = import_skillrl(Bank(), json.dumps(SEARCH))
    specific = [one.category for one in bank.skills if one.kind == SkillKind.TASK_SPECIFIC]
    assert specific == list(SEARCH["query_type_skills"])


def test_a_mistake_is_a_lesson():
    lesson = read_skillrl(json.dumps(ALFWORLD))[-1]
    assert lesson.kind == SkillKind.LESSON
    assert lesson.name == "The agent gave up on"
    assert lesson.counterfactual.failure_point.startswith("The agent gave up on the drawer")
    assert lesson.counterfactual.flawed_reasoning.startswith("It believed")
    assert lesson.principle == lesson.counterfactual.corrective_action
    assert lesson.principle == "Try the drawer once more in another way."


def test_what_changed_since_the_import_is_exported_as_it_is_now():
    bank, _ = import_skillrl(Bank(), json.dumps(ALFWORLD))
    heat = next(one for one in bank.skills if one.category == "heat")
    cool = next(one for one in bank.skills if one.category == "cool")
    bank, _ = apply(bank, [Refine(heat.id, name="Go to the microwave"), Retire(cool.id, "old")])
    document = json.loads(to_skillrl(bank))
    (item,) = document["task_specific_skills"]["heat"]
    assert (item["skill_id"], item["title"]) == (heat.id, "Go to the microwave")
    assert document["task_specific_skills"]["cool"] == []
    assert document["general_skills"] == ALFWORLD["general_skills"]
    assert document["metadata"] == ALFWORLD["metadata"]


def test_a_bank_of_ours_is_exported_in_the_layout_and_reads_back():
    seeds = seed_bank("alfworld")
    document = json.loads(to_skillrl(seeds))
    assert len(document["general_skills"]) == 12
    assert sum(map(len, document["task_specific_skills"].values())) == 32
    assert len(document["common_mistakes"]) == 11
    drafts = read_skillrl(to_skillrl(seeds))
    skills = [one for one in seeds.skills if one.kind != SkillKind.LESSON]
    assert {one.content_digest for one in drafts} >= {one.content_digest for one in skills}
    assert is_skillrl(document)


def test_an_import_into_a_bank_merges_what_it_has():
    seeds = seed_bank("alfworld")
    bank, report = import_skillrl(seeds, to_skillrl(seeds))
    assert len(report.merged) == 44  # lessons come back in other words
    assert len(bank.active) == 55
    assert bank.meta["source"] == seeds.meta["source"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"general_skills": {}}, "general_skills is no list"),
        ({"general_skills": ["x"]}, r"general_skills\[0\]: it is a str"),
        ({"general_skills": [{"title": "A"}]}, r"general_skills\[0\]: principle is None"),
        ({"task_specific_skills": []}, "task_specific_skills is no object"),
        ({"task_specific_skills": {"heat": 3}}, r"task_specific_skills\['heat'\] is no list"),
        ({"common_mistakes": [{"description": 3}]}, r"common_mistakes\[0\]: description is 3"),
    ],
)
def test_a_wrong_item_is_named(change, message):
    with pytest.raises(DataError, match=f"my file: {message}"):
        read_skillrl(json.dumps(ALFWORLD | change), "my file")


@pytest.mark.parametrize("text", ["{", "[]", '{"skills": []}', '{"general_skills": NaN}'])
def test_another_document_is_refused(text):
    with pytest.raises(DataError, match="my file is no"):
        read_skillrl(text, "my file")


def memory(**guidelines):
    return {
        "memory_id": "m1",
        "contextual_description": "A search for an apple that ended well.",
        "tags": {"environment": "alfworld", "outcome": "Success"},
        "content": {
            "task_meta": {"original_goal": "heat some {object}"},
            "refined_trajectory": [
                {
                    "step_index": 3,
                    "action": "take {object}",
                    "critical_observation": "It lies there.",
                    "reasoning": "It is wanted.",
                }
            ],
            "strategic_guidelines": {
                "planning_pattern": "find, take, heat",
                "mistakes_to_avoid": [
                    {"trigger_condition": "a closed door", "bad_action": "giving up"}
                ],
                **guidelines,
            },
        },
        "origin_env_id": "env-7",
    }


def test_a_refined_memory_is_read():
    (read,) = read_memories(json.dumps([memory()]))
    assert (read.id, read.succeeded, read.goal, read.episode) == (
        "m1",
        True,
        "heat some {object}",
        "env-7",
    )
    assert read.plan == "find, take, heat"
    assert read.mistakes == (("a closed door", "giving up"),)
    (step,) = read.steps
    assert (step.index, step.action, step.reasoning) == (3, "take {object}", "It is wanted.")


def test_a_doubly_wrapped_memory_is_read_as_the_plain_one():
    wrapped = memory()
    content = wrapped["content"]
    for key in ("refined_trajectory", "strategic_guidelines"):
        content[key] = {key: content[key]}
    assert read_memories(json.dumps(wrapped)) == read_memories(json.dumps(memory()))


@pytest.mark.parametrize(
    "text", ["{", "[3]", '[{"content": 3}]', '{"content": {"refined_trajectory": 3}}']
)
def test_what_is_no_memory_is_refused(text):
    with pytest.raises(DataError, match="my file"):
        read_memories(text, "my file")


def test_nulls_are_what_is_not_there_and_stay_nulls_in_an_export():
    document = {
        "general_skills": [skill("gen_001", "Look", when_to_apply=None)],
        "task_specific_skills": {"heat": None},
        "common_mistakes": None,
    }
    bank, _ = import_skillrl(Bank(), json.dumps(document))
    assert json.loads(to_skillrl(bank)) == document
    lessons = seed_bank("alfworld").skills[-1:]
    grown = replace(bank, skills=(*bank.skills, *lessons))
    assert len(json.loads(to_skillrl(grown))["common_mistakes"]) == 1


def test_half_a_surrogate_pair_is_refused_where_it_is_read():
    with pytest.raises(DataError, match=r"my file holds .*ud800.* half a surrogate pair"):
        import_skillrl(Bank(), json.dumps({"general_skills": [skill("g", "\ud800")]}), "my file")
