"""The strict gate of the SkillOpt API reference: any measured gain counts."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from skillwright.core.skill import body

GateAction = Literal["accept_new_best", "accept", "reject"]
GateMetric = Literal["hard", "soft", "mixed"]

LEADING_WORDS = (
    "must",
    "always",
    "never",
    "only",
    "critical",
    "important",
    "resolve",
    "prefer",
    "ensure",
    "strict",
    "verify",
)

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class GateResult:
    """Both incumbents after a decision.

    Attributes:
        action: The decision.
        current_skill: The skill that training continues from.
        current_score: Its gate score.
        best_skill: The best skill so far.
        best_score: Its gate score.
        best_step: The step that produced it.
    """

    action: GateAction
    current_skill: str
    current_score: float
    best_skill: str
    best_score: float
    best_step: int


def compute_semantic_density(text: str, leading_words: Sequence[str] | None = None) -> float:
    """Return the share of a skill's words that are leading words such as "must".

    Args:
        text: A skill document; its protected regions are not counted.
        leading_words: Words, or one comma-separated string; ``None`` means `LEADING_WORDS`.

    Returns:
        A share in [0, 1]; 0 for a text without words.
    """
    words = _WORD.findall(body(text).lower())
    if not words:
        return 0.0
    if isinstance(leading_words, str):
        leading_words = leading_words.split(",")
    chosen = LEADING_WORDS if leading_words is None else leading_words
    leading = {word.strip().lower() for word in chosen}
    return sum(word in leading for word in words) / len(words)


def select_gate_score(  # noqa: PLR0913 -- the documented signature
    hard: float,
    soft: float,
    metric: str = "hard",
    mixed_weight: float = 0.5,
    *,
    skill_content: str = "",
    use_semantic_density: bool = False,
    semantic_density_weight: float = 0.05,
    leading_words: Sequence[str] | None = None,
) -> float:
    """Reduce a hard and a soft score to the one number that the strict gate compares.

    Args:
        hard: Mean pass rate in [0, 1].
        soft: Mean partial credit in [0, 1].
        metric: ``hard``, ``soft``, or ``mixed`` = (1 - w) * hard + w * soft.
        mixed_weight: The w of ``mixed``, clamped to [0, 1].
        skill_content: The skill, for its density.
        use_semantic_density: Add ``semantic_density_weight`` times the skill's density. Off by
            default, because it rewards words like MUST instead of results.
        semantic_density_weight: Score that a density of 1 adds.
        leading_words: See `compute_semantic_density`.

    Raises:
        ValueError: The metric is unknown, or a score is a text that is not a number.
        TypeError: A score is not a number, such as ``None``.
    """
    match metric:
        case "hard":
            score = _number(hard, "the hard score")
        case "soft":
            score = _number(soft, "the soft score")
        case "mixed":
            weight = max(0.0, min(1.0, _number(mixed_weight, "mixed_weight")))
            passes, credit = _number(hard, "the hard score"), _number(soft, "the soft score")
            score = (1 - weight) * passes + weight * credit
        case _:
            raise ValueError(f"unknown gate metric {metric!r}; use 'hard', 'soft' or 'mixed'")
    if not use_semantic_density:
        return score
    return score + semantic_density_weight * compute_semantic_density(skill_content, leading_words)


def evaluate_gate(  # noqa: PLR0913 -- the documented signature; adapters call it by these names
    candidate_skill: str,
    cand_hard: float,
    current_skill: str,
    current_score: float,
    best_skill: str,
    best_score: float,
    best_step: int,
    global_step: int,
    *,
    cand_soft: float = 0.0,
    metric: str = "hard",
    mixed_weight: float = 0.5,
    use_semantic_density: bool = False,
    semantic_density_weight: float = 0.05,
    leading_words: Sequence[str] | None = None,
) -> GateResult:
    """Compare a candidate with the current and the best skill, which are independent incumbents.

    A candidate above both becomes current and best; above the current one only, it becomes
    current; otherwise, ties included, nothing changes. Nothing changes either where one of the
    three scores is NaN or infinite: it is no measurement.

    Scores are gate scores; the keyword arguments are those of `select_gate_score`.

    Raises:
        ValueError: The metric is unknown, or a score is a text that is not a number.
        TypeError: A score is not a number, such as ``None``.
    """
    score = select_gate_score(
        cand_hard,
        cand_soft,
        metric,
        mixed_weight,
        skill_content=candidate_skill,
        use_semantic_density=use_semantic_density,
        semantic_density_weight=semantic_density_weight,
        leading_words=leading_words,
    )
    unchanged = GateResult(
        "reject", current_skill, current_score, best_skill, best_score, best_step
    )
    held = _incumbent(current_score, "current_score")
    if not (math.isfinite(score) and math.isfinite(held) and score > held):
        return unchanged
    if not math.isfinite(_incumbent(best_score, "best_score")):
        return unchanged
    if score <= best_score:
        return GateResult("accept", candidate_skill, score, best_skill, best_score, best_step)
    return GateResult(
        "accept_new_best", candidate_skill, score, candidate_skill, score, global_step
    )


def _incumbent(value: object, name: str) -> float:
    """Return a score that was measured before; SkillOpt compares no text with a number."""
    if isinstance(value, str | bytes):
        raise TypeError(f"{name} is the text {value!r}, not a number")
    try:
        return _number(value, name)
    except OverflowError:
        return math.inf


def _number(value: object, name: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"{name} is {value!r}, not a finite number") from None
