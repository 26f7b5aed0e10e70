"""A scripted optimiser for the retail agent: it reads failed calls and names what was missing."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from skillwright.core import Completion, Message, Purpose, Sampling
from skillwright.core.jsonio import digest, dumps
from skillwright.core.seeds import derive_seed
from skillwright.scripted.analyst.model import ScriptedAnalyst
from skillwright.scripted.analyst.prompt import Reading, read_reading
from skillwright.scripted.household.luck import Luck
from skillwright.scripted.retail.lessons import LESSONS, SUPERSTITION
from skillwright.scripted.retail.rules import RetailRule, read_rules

_BELIEVES: Final = 0.2
_MOST_TURNS_CITED: Final = 3
_TRAJECTORY: Final = re.compile(
    r'^<trajectory id="([^"\n]*)"([^>\n]*)>\n(.*?)^</trajectory>$', re.DOTALL | re.MULTILINE
)
_TURN: Final = re.compile(r"^\[(\d{1,6})\]", re.MULTILINE)

Evidence = dict[str, list[int]]


class ScriptedRetailAnalyst:
    """Reads calls of the built-in retail store and proposes edits of a skill.

    It merges, ranks and remembers as the `ScriptedAnalyst` does. Like that one it looks at the text
    of its messages and at ``sampling.seed`` alone, and now and then takes luck for a lesson.
    """

    identity = "scripted:retail_analyst"
    is_scripted = True

    def __init__(self) -> None:
        self._other = ScriptedAnalyst()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] = (),
        sampling: Sampling = Sampling(),
        purpose: Purpose,
    ) -> Completion:
        """Answer with the JSON that the prompt asks for, or with prose where it asks for none."""
        other = await self._other.complete(
            messages, tools=tools, sampling=sampling, purpose=purpose
        )
        said = {message["role"]: message["content"] for message in reversed(messages)}
        asked = said.get("system", "").strip().partition("\n")[0].strip()
        reading = read_reading(said.get("user", "").encode(errors="replace").decode())
        if reading is None or asked not in {"# Analyst: failures", "# Analyst: successes"}:
            return replace(other, model=self.identity)
        calls = _calls(said["user"], "failure" if asked.endswith("failures") else "")
        text = dumps(_analysis(reading, calls, sampling.seed or 0), indent=1)
        return replace(other, text=text, model=self.identity)


def _calls(user: str, outcome: str) -> dict[str, str]:
    """Return the calls with an outcome: id -> text."""
    found = _TRAJECTORY.findall(user)
    return {name: body for name, facts, body in found if outcome and f'="{outcome}"' in facts}


def _analysis(reading: Reading, calls: dict[str, str], seed: int) -> dict[str, Any]:
    known = read_rules(reading.skill)
    shown = {rule: _evidence(calls, rule) for rule in LESSONS if rule not in known}
    # The commonest mistake first; sorting keeps the order of equals.
    found = sorted(filter(shown.get, shown), key=lambda rule: -len(shown[rule]))
    edits = [_edit(_worded(rule, reading), shown[rule]) for rule in found]
    luck = Luck(derive_seed("retail analyst", seed, digest([reading.skill, list(calls)])))
    if RetailRule.TRANSFER_AT_ONCE in known:
        edits.insert(0, _edit("Do not transfer customers at once when something is refused.", {}))
    elif calls and luck.chance("believe") < _BELIEVES:
        # It stands before the last lesson, so that it is not what a budget always cuts off.
        edits.insert(max(len(edits) - 1, 0), _edit(luck.pick("belief", SUPERSTITION), {}))
    return {
        "reasoning": f"I read {len(calls)} calls; {len(found)} kinds of mistake show in them.",
        "failure_summary": [
            {
                "failure_type": LESSONS[rule].failure,
                "count": len(shown[rule]),
                "description": f"The agent {LESSONS[rule].failure}.",
                "ids": list(shown[rule]),
            }
            for rule in found
        ],
        "success_patterns": [],
        "patch": {"edits": edits[: reading.budget]},
    }


def _evidence(calls: dict[str, str], rule: RetailRule) -> Evidence:
    shows = LESSONS[rule].shows
    return {name: _last_turns(body) for name, body in calls.items() if shows(body)}


def _last_turns(body: str) -> list[int]:
    turns = sorted({int(turn) for turn in _TURN.findall(body)})
    return turns[-_MOST_TURNS_CITED:]


def _worded(rule: RetailRule, reading: Reading) -> str:
    """Return a sentence that was not tried yet; the first for all analysts of a step alike."""
    wordings = LESSONS[rule].wordings
    return next((text for text in wordings if text not in reading.earlier), wordings[0])


def _edit(sentence: str, evidence: Evidence) -> dict[str, Any]:
    return {
        "op": "append",
        "target": "",
        "content": f"- {sentence}",
        "evidence": [{"id": name, "turns": turns} for name, turns in evidence.items()],
    }
