"""A skill may be rewritten as a whole; its protected regions come out as they went in."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import ScriptedReplies, in_one_batch, make_episode
from skillwright.core import ModelError, Purpose, ReflectRequest
from skillwright.core.skill import (
    APPENDIX_END,
    APPENDIX_START,
    SLOW_UPDATE_END,
    SLOW_UPDATE_START,
    protected_regions,
)
from skillwright.textopt import (
    BudgetControl,
    EditLimits,
    Optimizer,
    StepContext,
    StepSettings,
    StepStatus,
    TextReflector,
    UpdateMode,
    propose,
    with_regions_of,
)

SLOW = f"{SLOW_UPDATE_START}\ngo slowly\n{SLOW_UPDATE_END}"
NOTES = f"{APPENDIX_START}\n## Execution Notes Appendix\n- model the gap\n{APPENDIX_END}"
BODY = "# Skill\n\n- Look first.\n"
SKILL = f"{BODY}\n{SLOW}\n\n{NOTES}\n"


def suggestion(instruction, *ids, **more):
    cited = [{"id": i, "turns": [0]} for i in ids]
    return {"type": "add_rule", "title": "t", "instruction": instruction, "evidence": cited, **more}


def candidate(text, **more):
    return {"title": "t", "change_summary": ["changed"], "new_skill": text, **more}


def of(asked):
    """Name the stage that asks, by the first line of its prompt."""
    return asked.messages[0]["content"].partition("\n")[0].removeprefix("# ")


async def stepped(mode, answer, *, results=None, skill=SKILL, budget=2, **settings):
    model = ScriptedReplies(answer)
    step = await propose(
        Optimizer(model, repair_rounds=0),
        StepSettings(minibatch_size=2, update_mode=mode, **settings),
        StepContext("s3", skill, budget, seed=1, earlier_steps="Step 2: reject", meta_skill="memo"),
        in_one_batch(results or [make_episode(f"T{n}") for n in range(4)], seed=1),
    )
    return step, model


def rewriting(new_skill, count=1):
    """Answer every stage of the suggestion mode."""

    def answer(asked):
        stage = of(asked)
        if stage.startswith("Analyst"):
            ids = [f"T{n}" for n in range(4) if f'id="T{n}"' in asked.user]
            items = [suggestion(f"Say {ids[0]} {n}.", *ids) for n in range(count)]
            return {"patch": {"revise_suggestions": items}}
        if stage.startswith("Merge"):
            patches = json.loads(asked.user.split("## Patches\n")[1])
            edits = [{**e, "sources": [e["id"]]} for p in patches for e in p["edits"]]
            return {"revise_suggestions": edits}
        if stage.startswith("Rank"):
            return {"selected_indices": [1, 0]}
        return new_skill

    return answer


async def test_suggestions_are_merged_and_ranked_like_edits_and_one_call_rewrites():
    reply = {"new_skill": "# New\n\n- Look twice.", "change_summary": ["looked twice"]}
    step, model = await stepped(UpdateMode.REWRITE, rewriting(reply, count=2))
    assert step.status is StepStatus.CANDIDATE
    assert step.candidate == f"# New\n\n- Look twice.\n\n{SLOW}\n\n{NOTES}\n"
    assert [of(a) for a in model.asked] == [
        "Analyst: failures, suggestions",
        "Analyst: failures, suggestions",
        "Merge: failures, suggestions",
        "Rank suggestions",
        "Rewrite the skill",
    ]
    assert [p.support for p in step.selection.proposals] == [2, 2]
    assert [o.status for o in step.update.outcomes] == ["applied_rewrite"] * 2
    assert step.made.rewrite.change_summary == ("looked twice",)
    rewrite = model.asked[-1]
    assert rewrite.purpose is Purpose.REWRITE
    assert rewrite.sampling.max_tokens == 64_000
    assert "Step 2: reject" in rewrite.user
    assert "## Optimizer notes\nmemo" in rewrite.user
    shown = json.loads(rewrite.user.split("## Suggestions\n")[1])
    assert shown[0]["instruction"] == step.selection.proposals[0].edit.content
    record = json.loads(json.dumps(step.to_dict()))
    assert record["rewrite"]["change_summary"] == ["looked twice"]
    assert record["patches"][0]["proposals"][0]["edit"]["type"] == "add_rule"
    assert "- add_rule: Say" in step.entry(3, "reject").render()


async def test_the_prompts_of_the_suggestion_mode_speak_of_suggestions():
    _, model = await stepped(
        UpdateMode.REWRITE, rewriting({"new_skill": "x", "change_summary": []})
    )
    assert "Propose at most 2 suggestions." in model.asked[0].user


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("prose", "JSON object"),
        (ModelError("503"), "503"),
        ({"new_skill": "x"}, "change_summary"),
        ({"new_skill": " \n", "change_summary": []}, "empty"),
        ({"new_skill": SLOW, "change_summary": []}, "empty"),
        ({"new_skill": "x" * 70_000, "change_summary": []}, "refused_too_long"),
        ({"new_skill": "a\u200bb", "change_summary": []}, "hidden character U+200B"),
    ],
)
async def test_a_rewrite_that_cannot_be_used_skips_the_step(reply, why):
    step, _ = await stepped(UpdateMode.REWRITE, rewriting(reply))
    assert (step.status, step.candidate) == (StepStatus.NO_REWRITE, SKILL)
    assert step.status == "skip_no_rewrite"
    assert why in step.made.rewrite.unusable
    assert [o.status for o in step.update.outcomes] == ["skipped_no_rewrite"] * 2


async def test_a_fault_of_the_rewrite_is_one_of_the_steps_faults():
    step, _ = await stepped(UpdateMode.REWRITE, rewriting("prose"))
    assert [fault.call for fault in step.faults] == ["s3.rewrite"]


async def test_a_rewrite_that_says_the_same_is_no_change():
    same = {"new_skill": BODY, "change_summary": "none"}
    step, _ = await stepped(UpdateMode.REWRITE, rewriting(same))
    assert (step.status, step.candidate) == (StepStatus.NO_CHANGE, SKILL)


@pytest.mark.parametrize("ending", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("mode", [UpdateMode.REWRITE, UpdateMode.FULL_REWRITE])
async def test_a_final_newline_is_no_change(mode, ending):
    def answer(asked):
        written = candidate("- Look first.") if mode is UpdateMode.FULL_REWRITE else {}
        if of(asked).startswith("Analyst") or of(asked).startswith("Merge"):
            return {"patch": {mode.payload_key: [written or suggestion("Say it.", "T0")]}}
        return {"new_skill": "- Look first.", "change_summary": []}

    batch = [make_episode("T0")]
    step, _ = await stepped(mode, answer, results=batch, skill=f"- Look first.{ending}")
    assert (step.status, step.candidate) == (StepStatus.NO_CHANGE, f"- Look first.{ending}")


async def test_without_a_suggestion_nobody_rewrites():
    def answer(asked):
        assert of(asked).startswith("Analyst")
        return {"patch": {"revise_suggestions": []}}

    step, _ = await stepped(UpdateMode.REWRITE, answer)
    assert step.status is StepStatus.NO_PATCHES


@pytest.mark.parametrize(
    ("bad", "note"),
    [
        (3, "not an object"),
        ({"type": "add_rule"}, "no instruction"),
        ({"instruction": "x" * 30_000}, "its 30,000 characters"),
        ({"instruction": "a\u202eb"}, "hidden character U+202E"),
    ],
)
async def test_a_suggestion_that_cannot_be_used_is_dropped_and_its_siblings_stay(bad, note):
    def answer(asked):
        if of(asked).startswith("Analyst"):
            return {"revise_suggestions": [bad, suggestion("Good.", type="unheard of")]}
        return {"new_skill": "- New.", "change_summary": ["x"]}

    step, _ = await stepped(UpdateMode.REWRITE, answer, results=[make_episode("T0")])
    (patch,) = step.reflection.patches
    assert [(p.id, p.edit.kind) for p in patch.proposals] == [("s3.f0.e2", "clarify")]
    assert note in patch.notes[0]


def whole(texts):
    """Answer every stage of the whole-skill mode: analysts by number, merges with the last."""
    said = iter(range(100))

    def answer(asked):
        if of(asked).startswith("Analyst"):
            return {"patch": {"skill_candidates": [candidate(texts[next(said)])]}}
        return {"skill_candidates": [candidate(texts[-1], sources=["p1.e1", "p2.e1"])]}

    return answer


async def test_whole_skills_are_merged_and_the_first_one_is_taken_without_a_ranking():
    step, model = await stepped(UpdateMode.FULL_REWRITE, whole(["- One.", "- Two.", "- Both."]))
    assert step.candidate == f"- Both.\n\n{SLOW}\n\n{NOTES}\n"
    assert step.status is StepStatus.CANDIDATE
    assert [of(a) for a in model.asked] == [
        "Analyst: failures, whole skill",
        "Analyst: failures, whole skill",
        "Merge: failures, whole skills",
    ]
    assert {a.sampling.max_tokens for a in model.asked} == {64_000}
    assert [p.support for p in step.selection.proposals] == [4]
    assert step.made.rewrite.change_summary == ("changed",)
    assert "- rewrite: changed" in step.entry(3, "accept").render()


async def test_whole_skills_have_no_learning_rate():
    step, model = await stepped(
        UpdateMode.FULL_REWRITE,
        whole(["- One.", "- Two.", "- Both."]),
        budget_control=BudgetControl.AUTONOMOUS,
        analyst_budget=0,
    )
    assert step.status is StepStatus.CANDIDATE
    assert step.budget.control is BudgetControl.NONE
    assert len(model.asked) == 3


async def test_the_first_candidate_with_a_text_is_taken():
    skills = [candidate(" "), candidate(SLOW), candidate("- Third."), candidate("- Fourth.")]

    def answer(asked):
        return {"patch": {"skill_candidates": skills}}

    step, _ = await stepped(UpdateMode.FULL_REWRITE, answer, results=[make_episode("T0")])
    assert step.candidate == f"- Third.\n\n{SLOW}\n\n{NOTES}\n"
    statuses = [o.status for o in step.update.outcomes]
    assert statuses == ["skipped_no_rewrite", "applied_rewrite", "skipped_no_rewrite"]


async def test_candidates_without_a_usable_text_skip_the_step():
    step, _ = await stepped(
        UpdateMode.FULL_REWRITE,
        lambda asked: {"skill_candidates": [candidate(SLOW)]},
        results=[make_episode("T0")],
    )
    assert (step.status, step.candidate) == (StepStatus.NO_REWRITE, SKILL)


async def test_a_document_at_its_limit_may_only_shrink():
    step, _ = await stepped(
        UpdateMode.FULL_REWRITE,
        lambda asked: {"skill_candidates": [candidate("- a longer line than before.\n" * 5)]},
        results=[make_episode("T0")],
        limits=EditLimits(max_skill_chars=len(SKILL)),
    )
    assert (step.status, step.made.rewrite.unusable) == (StepStatus.NO_REWRITE, "refused_too_long")


def test_regions_are_put_back_whatever_the_model_did_to_them():
    forged = f"# New\n{SLOW_UPDATE_START}\nevil\n{SLOW_UPDATE_END}\n- a {APPENDIX_END}\n"
    assert with_regions_of(SKILL, forged) == f"# New\n\n- a\n\n{SLOW}\n\n{NOTES}\n"
    assert with_regions_of(BODY, forged) == "# New\n\n- a\n"


pieces = st.lists(
    st.sampled_from(
        [SLOW_UPDATE_START, SLOW_UPDATE_END, APPENDIX_START, APPENDIX_END, SLOW, "- a", "\n", "x"]
    ),
    max_size=10,
).map("".join)


@given(pieces)
def test_no_rewrite_changes_drops_or_forges_a_region(text):
    new = with_regions_of(SKILL, text)
    assert [new[s.start : s.end] for s in protected_regions(new)] == [SLOW, NOTES]
    assert new.count(SLOW_UPDATE_START) == new.count(APPENDIX_END) == 1


def test_an_adapters_raw_patches_carry_the_payload_of_the_mode(tmp_path):
    folder = tmp_path / "T0"
    folder.mkdir()
    (folder / "conversation.json").write_text('[{"role": "user", "content": "hi"}]')
    model = ScriptedReplies([{"patch": {"revise_suggestions": [suggestion("Do.", "T0")]}}])
    reflector = TextReflector(
        Optimizer(model), StepSettings(update_mode=UpdateMode.REWRITE, success_threshold=0.5)
    )
    request = ReflectRequest([{"id": "T0", "hard": 0, "soft": 0}], "", tmp_path)
    (raw,) = reflector.reflect(request)
    assert [one["instruction"] for one in raw["patch"]["revise_suggestions"]] == ["Do."]
    assert "edits" not in raw["patch"]
