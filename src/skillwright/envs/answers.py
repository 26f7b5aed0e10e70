"""Find the answer in a reply and compare it with the right ones: exact match and token F1.

Source: the rules of SQuAD (Rajpurkar et al., arXiv:1606.05250), also SearchQA's: lower case, no
punctuation, no articles, single blanks, and the best of several right answers.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Final

_ARTICLE: Final = re.compile(r"\b(a|an|the)\b")
_TAGGED: Final = re.compile(r"<answer>((?:(?!</?answer>).)*)</answer>", re.DOTALL | re.IGNORECASE)
_OPEN_TAG: Final = re.compile(r"<answer>((?:(?!</?answer>).)*)\Z", re.DOTALL | re.IGNORECASE)
_THOUGHT: Final = re.compile(
    r"<(think(?:ing)?)>.*?(?:</\1>|\Z)|\A(?:(?!<think).)*</think(?:ing)?>",
    re.DOTALL | re.IGNORECASE,
)
_PUNCTUATION: Final = frozenset(string.punctuation)


def answer_in(reply: str) -> str:
    """Return the text in the last ``<answer>`` tag, or else the reply, both without thoughts.

    The last tag need not be closed. Of thoughts that are never closed, an answer at their very end
    counts.
    """
    said = without_thoughts(reply)
    if not said and reply.rstrip().lower().endswith("</answer>"):
        said = reply
    found = _OPEN_TAG.search(said)
    tagged = [found[1]] if found else _TAGGED.findall(said)
    return str(tagged[-1]).strip() if tagged else said


def without_thoughts(reply: str) -> str:
    """Return a reply without the text in ``<think>`` tags, also if one of the two is missing."""
    return _THOUGHT.sub("", reply).strip()


def normalized(text: str) -> str:
    """Return a text in lower case, without punctuation and articles, with single blanks."""
    plain = "".join(letter for letter in text.lower() if letter not in _PUNCTUATION)
    return " ".join(_ARTICLE.sub(" ", plain).split())


def exact_match(answer: str, right: Sequence[str]) -> float:
    """Return 1.0 where an answer is, normalized, one of the right ones, else 0.0."""
    given = normalized(answer)
    return float(any(given == normalized(one) for one in right))


def token_f1(answer: str, right: Sequence[str]) -> float:
    """Return the harmonic mean of precision and recall of words, best over the right answers.

    Returns:
        A number in [0, 1]; where nothing is left of one of the two, 1 if both are empty, else 0.
    """
    return max(
        (_f1(normalized(answer).split(), normalized(one).split()) for one in right), default=0.0
    )


def _f1(given: list[str], wanted: list[str]) -> float:
    if not given or not wanted:
        return float(given == wanted)
    shared = (Counter(given) & Counter(wanted)).total()
    # In one fraction, so that an answer in the very words has exactly 1.
    return 2 * shared / (len(given) + len(wanted))
