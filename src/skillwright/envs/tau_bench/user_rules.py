"""A customer played by rules, offline: the strategy ``rule_based``.

It says the sentences of its instruction when the agent asks for them. Those of the built-in
store can be told apart; those of tau-bench cannot, so that its numbers say nothing about tau-
bench.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from skillwright.envs.tau_bench.users import STOP, InstantUser, UserSetting

YES: Final = "Yes, please do."
NO_MORE: Final = "I cannot tell you more about that."

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[\"'(A-Z])")
_WISH: Final = re.compile(r"You (want|would like|wish|need)\b|In your order\b|You have received\b")
_IDENTITY: Final = re.compile(r"\b(email|zip code|you live in|your name is)\b", re.IGNORECASE)
_MANNER: Final = re.compile(r"(You are|You like to)\b")
_CASE: Final = re.compile(r"If [^,]*, ", re.IGNORECASE)
_REQUEST: Final = re.compile(r"\?|\b(please|provide|tell me|let me know|may i|give me)\b")

_REFUSES: Final = re.compile(
    r"\b(cannot|can't|not possible|impossible|unable|not available|unavailable|sorry|not allowed)\b"
)
_ABOUT: Final = {
    "identity": re.compile(r"\b(e-?mail|zip|who (are you|i am)|your name|identity)\b"),
    "reason": re.compile(r"\b(reason|why)\b"),
    "method": re.compile(r"\b(method|refund|pay|paid|card|paypal|difference)\b"),
}
_FACTS: Final = {
    "reason": re.compile(r"no longer need|by mistake|because"),
    "method": re.compile(r"gift card|paypal|card ending", re.IGNORECASE),
}
_CONFIRMS: Final = re.compile(
    r"\byes\b|\bconfirm\b|\bproceed\b|\bgo ahead\b|\bshall i\b|\bcorrect\?|\bis that right"
)
_NUMBER: Final = re.compile(r"\b(order (number|id)|which order)\b")
_ELSE: Final = re.compile(r"\belse\b|\bmore i can do\b|\banother\b")

# "You" is the object of these, so that it becomes "me"; everywhere else it is the one who wants.
_OBJECT: Final = re.compile(r"\b(to|for|with|tell|give|send|charge|refund) you\b", re.IGNORECASE)
_FIRST_PERSON: Final = (
    (re.compile(r"\b(Y|y)ou are\b"), "I am"),
    (re.compile(r"\b(Y|y)ourself\b"), "myself"),
    (re.compile(r"\bYour\b"), "My"),
    (re.compile(r"\byour\b"), "my"),
    (re.compile(r"\b(Y|y)ou\b"), "I"),
)


@dataclass(slots=True)
class _Wish:
    """Something that the customer wants."""

    said: str  # how it asks for it
    facts: list[str] = field(default_factory=list)  # what it knows about it, told when asked
    cases: list[str] = field(default_factory=list)  # what it wants if that cannot be had, in order


class RuleUser(InstantUser):
    """Answers from the sentences of its instruction; waits for nobody and costs nothing."""

    def __init__(self, setting: UserSetting | None = None) -> None:
        super().__init__()
        del setting
        self._identity = ""
        self._wishes: list[_Wish] = []
        self._wish = _Wish(NO_MORE)

    def reset(self, instruction: str) -> str:
        """Say the first thing that is wanted."""
        told = _SENTENCE.split(instruction.strip())
        self._identity = " ".join(first_person(one) for one in told if _is_identity(one))
        self._wishes = _wishes(one for one in told if not _is_identity(one))
        self._wish = self._wishes.pop(0) if self._wishes else _Wish(NO_MORE)
        return f"Hello. {self._wish.said}"

    def step(self, content: str) -> str:
        """Answer the agent: what it asks for, else what comes next, else `STOP`."""
        heard = content.lower()
        asked = [one for one in _SENTENCE.split(heard) if _REQUEST.search(one)]
        if _any(_CONFIRMS, asked):
            return YES
        if _any(_ABOUT["identity"], asked):
            return self._identity or NO_MORE
        for topic in ("reason", "method"):
            if _any(_ABOUT[topic], asked):
                return self._fact(topic)
        if _any(_NUMBER, asked):
            return "I do not remember the order number."
        if self._wish.cases and _REFUSES.search(heard):
            return f"In that case {self._wish.cases.pop(0)}"
        if asked and not _any(_ELSE, asked):
            return self._wish.said
        if not self._wishes or not (asked or _expects_more(heard)):
            return STOP
        self._wish = self._wishes.pop(0)
        return self._wish.said

    def _fact(self, topic: str) -> str:
        told = [one for one in self._wish.facts if _FACTS[topic].search(one)]
        return " ".join(told) or NO_MORE


def first_person(text: str) -> str:
    """Turn what a customer is told about itself into what it says."""
    text = _OBJECT.sub(lambda found: f"{found[1]} me", text)
    for pattern, word in _FIRST_PERSON:
        text = pattern.sub(word, text)
    return text


def _wishes(sentences: Iterable[str]) -> list[_Wish]:
    """Sort sentences: a wish opens a new one, unless it only says how the one before is settled."""
    wishes: list[_Wish] = []
    for sentence in sentences:
        case = _CASE.match(sentence)
        is_detail = bool(wishes) and bool(re.match(r"You want (the refund|to settle)", sentence))
        if case and wishes:
            wishes[-1].cases.append(first_person(sentence[case.end() :]))
        elif _WISH.match(sentence) and not is_detail:
            wishes.append(_Wish(first_person(sentence)))
        elif wishes and not _MANNER.match(sentence):
            wishes[-1].facts.append(first_person(sentence))
    return wishes


def _is_identity(sentence: str) -> bool:
    return bool(_IDENTITY.search(sentence)) and not _WISH.match(sentence)


def _any(pattern: re.Pattern[str], sentences: Iterable[str]) -> bool:
    return any(pattern.search(sentence) for sentence in sentences)


def _expects_more(heard: str) -> bool:
    """An agent that says goodbye is not held on the line."""
    return "goodbye" not in heard and "bye" not in heard.split()
