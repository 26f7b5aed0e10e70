"""Distillation: what a teacher is shown, and what its replies become."""

import asyncio

import pytest

from bank_houses import Replies, by_title, categorize, lesson, play, principle, scope, tasks_of
from skillwright.bank import Bank, DistillSettings, Teacher, TeacherDown, apply, distill
from skillwright.core import (
    EpisodeResult,
    Failure,
    FailureCause,
    ModelError,
    SkillKind,
    SkillOrigin,
)

CATEGORIES = ("pick_and_place", "look_at_obj_in_light", "clean", "heat", "cool", "pick_two")


async def episodes(count=2, household=None):
    tasks = [t for name in CATEGORIES for t in tasks_of(name, count, household=household)]
    return await play(tasks)


async def distilled(results, model, **settings):
    teacher = Teacher(model)
    return await distill(results, teacher, DistillSettings(step=5, **settings), categorize, scope)


def user(messages):
    return messages[1]["content"]


def evidence_of(result):
    return {"evidence": principle(ids=[result.task_id])["evidence"]}


async def test_a_teacher_reads_the_task_every_action_and_the_true_category():
    results = await episodes()
    model = Replies(by_title())
    found = await distilled(results, model)
    asked = {
        call.name: user(messages) for call, messages in zip(found.calls, model.asked, strict=True)
    }
    for result in results:
        category = categorize(result.spec.task)
        own = [text for name, text in asked.items() if f".{category}." in name]
        (text,) = [t for t in own if f'id="{result.task_id}"' in t]
        assert f'family="{category}"' in text
        shown = text.partition(f'id="{result.task_id}"')[2].partition("</trajectory>")[0]
        assert f"Your task is to: {result.spec.task.description}." in shown
        for turn in result.trajectory.turns:
            assert f"[{turn.index}] action: {turn.act.text[8:-9]}\n" in shown


async def test_general_skills_see_evidence_of_every_category():
    model = Replies(by_title())
    found = await distilled(await episodes(3), model, general_episodes=7)
    (general,) = [user(m) for m in model.asked if m[0]["content"].startswith("# Distill: general")]
    assert {name for name in CATEGORIES if f'family="{name}"' in general} == set(CATEGORIES)
    assert len(found.calls[0].episodes) == 7
    fewer = await distilled(await episodes(1), Replies(by_title()), general_episodes=2)
    assert len(fewer.calls[0].episodes) == len(CATEGORIES)


async def test_successes_become_principles_failures_lessons_and_each_says_where_it_is_from():
    results = await episodes()
    lost = next(r for r in results if not r.is_success() and categorize(r.spec.task) == "heat")
    plain, own = by_title(), {"lessons": [lesson("Hot", **evidence_of(lost))]}
    model = Replies(
        lambda m: (
            own if lost.task_id in user(m) and "failures" in m[0]["content"][:20] else plain(m)
        )
    )
    found = await distilled(results, model)
    drafts = {call.name: [] for call in found.calls}
    for change in found.changes:
        origin = change.draft.provenance
        call = next(c for c in found.calls if c.prompt_digest == origin.prompt_digest)
        drafts[call.name].append(change.draft)
        assert (origin.origin, origin.model, origin.step) == (
            SkillOrigin.DISTILLED,
            "test:replies",
            5,
        )
        assert origin.episodes
        assert set(origin.episodes) <= set(call.episodes)
    (taught,) = drafts["failures.heat.0"]
    assert taught.kind is SkillKind.LESSON
    assert taught.category == "heat"
    # Turn 999 was never played.
    assert taught.provenance.episodes == (lost.key,)
    assert taught.provenance.turns == ((lost.key, 0),)
    assert taught.counterfactual.corrective_action == "take it first, then heat it."
    (general,) = drafts["general.0"]
    assert (general.kind, general.category) == (SkillKind.GENERAL, "")
    assert any("cites trajectories that were not shown: '?'" in note for note in found.report.notes)


async def test_what_several_requests_teach_is_one_skill_with_all_their_evidence():
    results = await play(tasks_of("heat", 6))
    found = await distilled(results, Replies(by_title()), batch_size=2)
    bank, report = apply(Bank(), found.changes, None)
    heat = [s for s in bank.active if s.kind is SkillKind.LESSON and s.category == "heat"]
    assert len(heat) == 1
    assert len(heat[0].provenance.episodes) == 6
    assert report.merged


async def test_what_is_said_alike_of_several_categories_is_no_categorys_own():
    results = await episodes(2)
    found = await distilled(results, Replies(by_title()))
    bank, _ = apply(Bank(), found.changes, None)
    (common,) = [s for s in bank.active if s.kind is SkillKind.LESSON]
    lost = {one.key for one in results if not one.is_success()}
    assert common.category == ""
    assert set(common.provenance.episodes) == lost
    two = [r for r in results if categorize(r.spec.task) in {"heat", "cool"}]
    found = await distilled(two, Replies(by_title()))
    lessons = [c.draft for c in found.changes if c.draft.kind is SkillKind.LESSON]
    assert [one.category for one in lessons] == ["cool", "heat"]


async def test_place_knowledge_is_asked_for_where_tasks_have_a_scope_and_holds_only_there():
    kept = principle("Kitchen cabinet 3", "Every mug is kept in cabinet 3.")
    found = await distilled(await episodes(1, household=3), Replies(by_title(place=[kept])))
    (draft,) = [change.draft for change in found.changes if change.draft.scope]
    assert (draft.scope, draft.category) == ("household 3", "")
    assert draft.kind is SkillKind.TASK_SPECIFIC
    nowhere = await distilled(await episodes(1), Replies(by_title()))
    assert "place" not in nowhere.report.drafts


async def test_the_same_drafts_come_back_whoever_answers_first():
    results = await episodes()

    class Uneven(Replies):
        async def complete(self, messages, **others):
            for _ in range(len(user(messages)) % 7):
                await asyncio.sleep(0)
            return await super().complete(messages, **others)

    plain, uneven = [await distilled(results, kind(by_title())) for kind in (Replies, Uneven)]
    assert plain.changes == uneven.changes
    assert plain.calls == uneven.calls


async def test_faults_are_left_out_and_reported():
    results = await episodes(1)
    spec = results[0].spec
    fault = EpisodeResult(spec, failure=Failure(FailureCause.MODEL, "down"))
    found = await distilled([fault, *results[1:]], Replies(by_title()))
    assert (found.report.episodes, found.report.read) == (6, 5)
    assert found.report.skipped[0].id == spec.task.id


async def test_a_dead_teacher_is_no_empty_bank():
    found = await distilled(await episodes(1), Replies([ModelError("nobody is there")]))
    assert not found.changes
    assert len(found.failures) == len(found.calls) > 6
    with pytest.raises(TeacherDown, match="nobody is there"):
        found.refuse_gaps()


async def test_a_section_that_nobody_could_write_is_an_error_even_if_others_are_there():
    answer = by_title(failures=[])
    found = await distilled(
        await episodes(1),
        Replies(lambda m: {"lessons": []} if "failures" in m[0]["content"][:20] else answer(m)),
    )
    assert found.changes
    assert found.report.drafts["failures"] == 0
    with pytest.raises(TeacherDown, match=r"section 'failures'.*requests failed"):
        found.refuse_gaps()


async def test_a_section_of_which_lint_leaves_nothing_is_an_error():
    link = principle("Look it up", "Look it up at https://help.example before you act.")
    found = await distilled(await episodes(1), Replies(by_title(general=[link])))
    assert found.report.drafts["general"] == 0
    with pytest.raises(TeacherDown, match=r"lint blocked 1 drafts.*link"):
        found.refuse_gaps()


async def test_a_place_of_which_nothing_is_known_yet_is_no_error():
    found = await distilled(await episodes(1, household=3), Replies(by_title()))
    assert found.report.drafts["place"] == 0
    found.refuse_gaps()


async def test_one_lost_request_of_several_is_recorded_and_the_others_count():
    answer = by_title()
    found = await distilled(
        await episodes(1),
        Replies(lambda m: ModelError("lost") if "## Category\nheat" in user(m) else answer(m)),
    )
    assert [fault.call for fault in found.failures] == ["failures.heat.0"]
    found.refuse_gaps()


async def test_no_more_is_kept_than_was_asked_for():
    many = [principle(f"Number {n}", f"Do {n} of them.") for n in range(20)]
    found = await distilled(await episodes(1), Replies(by_title(general=many)), general=3)
    assert found.report.drafts["general"] == 3
    assert any("20 skills were written; the first 3 are kept" in n for n in found.report.notes)


async def test_no_episode_is_no_request():
    found = await distilled([], Replies(by_title()))
    assert not found.calls
    found.refuse_gaps()


@pytest.mark.parametrize("name", ["batch_size", "general", "place_episodes"])
def test_settings_below_one_are_refused(name):
    with pytest.raises(ValueError, match=name):
        DistillSettings(**{name: 0})


async def test_tasks_that_nobody_sorted_teach_principles_and_lessons_too():
    results = await play(tasks_of("heat", 6))
    model = Replies(by_title())
    teacher = Teacher(model)
    found = await distill(results, teacher, DistillSettings(), lambda _: "", lambda _: "")
    asked = {call.name.partition(".")[0] for call in found.calls}
    won = any(one.reward for one in results)
    assert asked == {"general", "failures"} | ({"successes"} if won else set())
    shown = {
        key for call in found.calls if call.name.startswith("failures.") for key in call.episodes
    }
    assert shown == {one.key or one.task_id for one in results if not one.reward}
    lessons = [one.draft for one in found.changes if one.draft.kind == SkillKind.LESSON]
    assert {one.category for one in lessons} == {""}
    assert all("## Category\n(none)" in user(m) for m in model.asked[1:])


async def test_of_what_many_requests_wrote_the_commonest_is_kept_and_the_rest_is_noted():
    results = await play(tasks_of("heat", 9))

    def answer(messages):
        name = f"Only {len(model.asked)}" if len(model.asked) < 4 else "Common"
        return by_title(failures=[lesson(name)])(messages)

    model = Replies(answer)
    found = await distilled(results, model, batch_size=1, lessons=1)
    lessons = {one.draft.name for one in found.changes if one.draft.counterfactual}
    assert lessons == {"Common"}
    (note,) = [one for one in found.report.notes if one.startswith("failures of heat")]
    assert "the 1 that most requests wrote are kept" in note
