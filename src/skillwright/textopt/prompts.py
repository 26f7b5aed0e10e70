"""The optimizer's prompts: system messages from `prompts/*.md`, and the parts of a user message."""

from collections.abc import Mapping
from importlib import resources

from skillwright.core import ConfigError, did_you_mean
from skillwright.core.fence import defuse, fenced

PROMPT_NAMES = (
    "analyst_error",
    "analyst_success",
    "merge_failure",
    "merge_success",
    "merge_final",
    "ranking",
    *(
        f"{name}{mode}"
        for mode in ("_rewrite", "_full_rewrite")
        for name in (
            "analyst_error",
            "analyst_success",
            "merge_failure",
            "merge_success",
            "merge_final",
        )
    ),
    "ranking_rewrite",
    "rewrite_skill",
    "lr_autonomous",
    "skill_aware_error",
    "skill_aware_success",
    "appendix_consolidate",
    "repair",
    "slow_update",
    "meta_skill",
)


def load_prompt(name: str, env_prompts: Mapping[str, str] | None = None) -> str:
    """Return a prompt by name: the environment's own where it has one, else the generic one.

    Args:
        name: One of `PROMPT_NAMES`, or a name in ``env_prompts``.
        env_prompts: An environment's prompts by name; a blank one counts as absent.

    Raises:
        ConfigError: There is no such prompt; the message names the nearest.
    """
    own = (env_prompts or {}).get(name, "")
    if own.strip():
        return own
    if name not in PROMPT_NAMES:
        raise ConfigError(f"there is no prompt {name!r}. {did_you_mean(name, PROMPT_NAMES)}")
    file = resources.files("skillwright.textopt") / "prompts" / f"{name}.md"
    return file.read_text(encoding="utf-8").strip()


def user_message(*sections: tuple[str, str]) -> str:
    """Put headed sections below each other; an empty one says ``(none)``."""
    return "\n\n".join(f"## {heading}\n{body or '(none)'}" for heading, body in sections)


def skill_section(skill: str) -> tuple[str, str]:
    """Show the skill between its tags."""
    return "Current skill", fenced("skill", skill.rstrip("\n") if skill.strip() else "(empty)")


def notes_section(meta_skill: str) -> tuple[str, str]:
    """Show what the optimizer has learned about optimizing."""
    return "Optimizer notes", defuse(meta_skill).strip()


def budget_section(verb: str, budget: int | None, noun: str = "edits") -> tuple[str, str]:
    """Say how many edits may be made; ``None`` sets no limit."""
    if budget is None:
        return "Edit budget", f"{verb} as many {noun} as the evidence supports."
    return "Edit budget", f"{verb} at most {budget} {noun}."
