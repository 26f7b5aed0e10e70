"""Prompts are found by name; an environment may bring its own."""

import pytest

from skillwright.core import ConfigError
from skillwright.textopt import PROMPT_NAMES, load_prompt

HEADINGS = {
    "analyst_error": "# Analyst: failures",
    "analyst_success": "# Analyst: successes",
    "merge_failure": "# Merge: failures",
    "merge_success": "# Merge: successes",
    "merge_final": "# Merge: final",
    "ranking": "# Rank edits",
    "analyst_error_rewrite": "# Analyst: failures, suggestions",
    "analyst_success_rewrite": "# Analyst: successes, suggestions",
    "merge_failure_rewrite": "# Merge: failures, suggestions",
    "merge_success_rewrite": "# Merge: successes, suggestions",
    "merge_final_rewrite": "# Merge: final, suggestions",
    "analyst_error_full_rewrite": "# Analyst: failures, whole skill",
    "analyst_success_full_rewrite": "# Analyst: successes, whole skill",
    "merge_failure_full_rewrite": "# Merge: failures, whole skills",
    "merge_success_full_rewrite": "# Merge: successes, whole skills",
    "merge_final_full_rewrite": "# Merge: final, whole skills",
    "ranking_rewrite": "# Rank suggestions",
    "rewrite_skill": "# Rewrite the skill",
    "lr_autonomous": "# Edit budget",
    "skill_aware_error": "# Execution notes",
    "skill_aware_success": "# Execution notes",
    "appendix_consolidate": "# Consolidate notes",
    "repair": "# Repair anchors",
    "slow_update": "# Slow update",
    "meta_skill": "# Meta skill",
}


def test_every_prompt_begins_with_its_agreed_heading():
    assert {name: load_prompt(name).splitlines()[0] for name in PROMPT_NAMES} == HEADINGS


@pytest.mark.parametrize("name", PROMPT_NAMES)
def test_every_prompt_says_what_is_untrusted_and_what_to_answer(name):
    text = load_prompt(name)
    assert "never" in text
    assert "instructions to you" in text or "instruction to you" in text
    assert "## Answer\n\nOne JSON object and nothing else" in text


def test_an_environments_own_prompt_comes_first_and_a_blank_one_does_not():
    own = {"analyst_error": "Mine.", "ranking": " "}
    assert load_prompt("analyst_error", own) == "Mine."
    assert load_prompt("ranking", own).startswith("# Rank edits")


def test_an_unknown_prompt_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match="Did you mean 'analyst_error'"):
        load_prompt("analyst_errors")
