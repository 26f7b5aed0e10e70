"""Check the assertions of a skill's evals on a reply: by rule where there is one, else by a judge.

Nothing that cannot be checked counts as wrong: it is left out, with the reason.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from skillwright.core import DataError
from skillwright.datasets.evals_files import ASSERTIONS
from skillwright.envs.table.functions import scored_apart
from skillwright.envs.table.scorers import Grade, Regex, read_verdict
from skillwright.envs.table.unicode_forms import alike

if TYPE_CHECKING:  # the judge's models load slowly
    from skillwright.envs.table.judge import TableCourt

NEEDS_JUDGE: Final = "for a judge, and env.config.scorer.model names none"
_MOST_NAMED: Final = 5
_FEW, _LEAST = 20, 5  # 2^-5 is the first power of 1/2 below 0.05


async def checked(court: "TableCourt", prompt: str, reply: str, right: Mapping[str, Any]) -> Grade:
    """Return the share of assertions that hold.

    Args:
        court: The judge; without a model, assertions without a rule are left out.
        prompt: The agent's prompt.
        reply: The agent's reply.
        right: The column of the assertions.

    Raises:
        EnvError: A regular expression took too long.
        ReplyInvalid: The judge gave no valid vote.
        ModelError: The judge cannot be reached.
    """
    checks = right["checks"]
    held: dict[int, tuple[bool, str]] = {}
    for at, one in enumerate(checks):
        if "rule" in one:
            held[at] = (await _follows(one["rule"], one["values"], reply), "")
    rest = [at for at in range(len(checks)) if at not in held]
    if rest and court.scorer.model is not None:
        texts = [checks[at]["text"] for at in rest]
        found = await court.findings(texts, prompt, reply, right["expected"])
        held |= {at: (one.met, one.reasoning) for at, one in zip(rest, found, strict=True)}
    failed = [
        checks[at]["text"] + (f" ({why.strip()})" if why.strip() else "")
        for at, (holds, why) in sorted(held.items())
        if not holds
    ]
    score = 1 - len(failed) / len(held)
    said = f"{len(held) - len(failed)} of {len(held)} assertions hold."
    feedback = f"{said} Not: {'; '.join(failed)}" if failed else said
    holds = [held[at][0] for at in sorted(held)]
    # The hint may reach the agent, which must not know the assertions.
    grade = read_verdict({"score": score, "feedback": feedback, "hint": said, "holds": holds})
    return replace(grade, reason=said.rstrip(".") if failed else "")


async def _follows(rule: str, values: Sequence[str], reply: str) -> bool:
    pairs = [alike(reply, one) for one in values]
    match rule:
        case "contains":
            return all(wanted in text for text, wanted in pairs)
        case "contains_any":
            return any(wanted in text for text, wanted in pairs)
        case "lacks":
            return not any(wanted in text for text, wanted in pairs)
        case "equals":
            return any(wanted == text for text, wanted in pairs)
        case "starts_with":
            return any(text.startswith(wanted) for text, wanted in pairs)
        case "ends_with":
            return any(text.endswith(wanted) for text, wanted in pairs)
        case "matches" | "matches_not":
            grades = [await scored_apart(Regex(), {}, reply, one) for one in values]
            found = [grade.score == 1 for grade in grades]
            return all(found) if rule == "matches" else not any(found)
    raise DataError(f"an assertion has the unknown rule {rule!r}")


def refuse_other_rows(right: Any) -> None:
    """Refuse a row that is no case of a skill's evals.

    Raises:
        DataError: Its column of assertions has another form.
    """
    if not (isinstance(right, Mapping) and isinstance(right.get("checks"), list)):
        raise DataError(
            "scorer 'assertions' reads the evals of a skill, such as evals/evals.json, and the row "
            "is no case of them"
        )


def why_left_out(right: Mapping[str, Any], *, has_judge: bool) -> str:
    """Return why a case is left out, or ""."""
    if right["problem"][0]:
        return str(right["problem"][0])
    if any(has_judge or "rule" in one for one in right["checks"]):
        return ""
    reasons = [*right["left_out"], *([NEEDS_JUDGE] if right["checks"] else [])]
    return f"all assertions are {'; '.join(dict.fromkeys(reasons))}"


def what_is_left_out(rows: Iterable[Mapping[str, Any]], *, has_judge: bool) -> list[str]:
    """Return lines on cases and assertions that are left out, by cause and count.

    Args:
        rows: The rows of a file of evals.
        has_judge: Whether a model judges assertions without a rule.
    """
    cases, parts = Counter[str](), Counter[str]()
    names: dict[str, list[str]] = {}
    for row in rows:
        right = row[ASSERTIONS]
        if why := why_left_out(right, has_judge=has_judge):
            cases[why] += 1
            name, what = str(row.get("id")), right["problem"][1]
            names.setdefault(why, []).append(f"{name}: {what}" if what else name)
            continue
        parts.update(right["left_out"])
        if not has_judge:
            parts[NEEDS_JUDGE] += sum("rule" not in one for one in right["checks"])
    lines = []
    for why, count in cases.most_common():
        shown = ", ".join(names[why][:_MOST_NAMED]) + ", ..." * (count > _MOST_NAMED)
        lines.append(f"{_counted(count, 'case')} left out ({shown}): {why}")
    return lines + [
        f"{_counted(count, 'assertion')} left out: {why}"
        for why, count in parts.most_common()
        if count
    ]


def what_few_prove(cases: int) -> str:
    """Return what few cases can prove of two skills, or "" for many.

    Of n cases that all get better, an exact paired test has the p-value 2^-n, however often each
    is played.
    """
    if cases >= _FEW:
        return ""
    if cases < _LEAST:
        return (
            f"{_counted(cases, 'case')} can prove no difference between two skills, however often "
            f"they are played: at least {_LEAST} cases can (p <= 0.05)"
        )
    return (
        f"{cases} cases prove that one skill is better than another only if at least {_LEAST} of "
        "them get better and none worse (p <= 0.05); more cases prove more than more attempts"
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"
