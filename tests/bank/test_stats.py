"""What is in a bank, and how much shorter it is than what it came from."""

from dataclasses import replace

import pytest
from bank_worlds import skill

from skillwright.bank import Bank, compression, count_skills, seed_bank, skill_line
from skillwright.bank.measure import acts_of, raw_text
from skillwright.core import Act, Provenance, SkillKind, SkillStatus, Trajectory, Turn


def trajectory(turns=10):
    played = [Turn(n, (), Act(f"act {n}"), f"you see place {n}", 0.0) for n in range(turns)]
    return Trajectory("You are in a room.", tuple(played))


def learned(skill_id, *episodes):
    return skill(skill_id, provenance=Provenance(episodes=episodes))


def words(text):
    return len(text.split())


def test_the_seed_bank_of_alfworld_counts_12_and_43():
    found = count_skills(seed_bank("alfworld"))
    assert found.headline == "12 + 43 = 55 (12 general, 32 task-specific, 11 lessons)"
    assert found.total == 55
    assert sum(sum(pair) for pair in found.by_category.values()) == 43


def test_skills_are_counted_by_kind_and_category_and_only_active_ones_are():
    bank = Bank(
        1,
        (
            skill("g1", SkillKind.GENERAL),
            skill("t1"),
            skill("t2", category="cool"),
            skill("l1", SkillKind.LESSON),
            skill("t3", status=SkillStatus.RETIRED),
            skill("t4", status=SkillStatus.PENDING),
        ),
    )
    found = count_skills(bank)
    assert found.by_category == {"cool": (1, 0), "heat": (1, 1)}
    assert (found.total, found.retired, found.pending) == (4, 1, 1)


def test_ratios_are_those_of_the_counted_lengths():
    bank = Bank(1, (learned("t1", "a", "b"), learned("t2", "b", "gone"), skill("t3")))
    known = {"a": trajectory(), "b": trajectory(20), "unused": trajectory(90)}
    told = "three skill words"
    shown = ([{"role": "system", "content": f"four words before it {told}"}], told)
    found = compression(bank, known, [shown], count=words)
    assert (found.skills, found.episodes, found.missing) == (2, 2, 1)
    assert found.skill_tokens == sum(words(skill_line(one)) for one in bank.skills[:2])
    assert found.raw_tokens == words(raw_text(known["a"])) + words(raw_text(known["b"]))
    assert found.raw_ratio == found.raw_tokens / found.skill_tokens
    assert found.summary_ratio == (
        (words(acts_of(known["a"])) + words(acts_of(known["b"]))) / found.skill_tokens
    )
    assert found.prompt_ratio == pytest.approx(7 / 4)


def test_without_evidence_or_prompts_there_is_no_ratio_rather_than_a_zero():
    found = compression(Bank(1, (skill("t1"),)), {})
    assert found.raw_ratio is found.summary_ratio is found.prompt_ratio is None


def test_what_was_taken_out_is_not_what_is_told():
    gone = replace(learned("t1", "a"), status=SkillStatus.RETIRED)
    assert compression(Bank(1, (gone,)), {"a": trajectory()}).skills == 0


def test_a_raw_episode_is_all_that_was_said_and_seen():
    text = raw_text(trajectory(2))
    assert text == "You are in a room.\nact 0\nyou see place 0\nact 1\nyou see place 1"
