"""What a skill tells the shopper, in whatever words: read sentence by sentence."""

import re
from functools import lru_cache
from typing import Final

from skillwright.scripted.shopper.patterns import SAYINGS, Saying
from skillwright.scripted.shopper.rules import BAD_RULES, ShopRule
from skillwright.scripted.skilltext.sentences import blocks, sentences, spelled_out

# "Never buy before X", "do not buy without X": first X.
_FIRST: Final = re.compile(
    r"\b(?:never|do not|avoid|must not|should not|can not|may not)\b(?: [^\s;:,]+){1,8}? "
    r"(?:before|until|unless|without|till)\b"
)
# What does not hold for what follows it.
_FORBIDS: Final = re.compile(r"\W*(?:never|do not|avoid|no)\b")
_HASTE: Final = re.compile(
    r"\b(?:do not|never) (?:rush|hurry|guess|panic|be hasty|hesitate to|be afraid to)\b,?(?: and)?"
)
_BOUNDARY: Final = re.compile(r"[,;:()]| - | but | then | instead (?!of)|\bso that\b")
_NEGATION: Final = re.compile(
    r"\b(?:never|do not|avoid\w*|must not|should not|need not|may not|no need|refrain\w*|stop\w*"
    r"|without|instead of|rather than|ignor\w+|skip\w*|neglect\w*|omit\w*|forget\w*|useless"
    r"|pointless|a waste|waste)\b|(?:^|\band |\bor )not\b"
)
# "When titles do not tell it": no prohibition.
_CONDITION: Final = re.compile(
    r"\b(?:if|when|where|because|since|that|which|what|who|while|as)\b[^,;]*?\b(?:do not|without)\b"
)
# What leads to this is advised against.
_BAD_END: Final = re.compile(
    r"\b(?:fail\w*|los(?:e|es|ing|t)|mistakes?|worthless|penal\w+|wrong"
    r"|earns? (?:nothing|little|less)|(?:cost|waste)s?(?: you)? (?:points|reward|turns|half|the)"
    r"|worth nothing|poor|unrelated|errors?|empty|useless|rarely|not (?:always|necessarily)"
    r"|not the best|pointless|nothing to do)\b"
)
_PURPOSE: Final = re.compile(r"\b(?:so that|lest)\b[^;]*")
_BRACKETS: Final = re.compile(r"[\[\]<]+")


@lru_cache(maxsize=512)
def read_rules(text: str) -> frozenset[ShopRule]:
    """Return the rules that a text gives; of two sentences about one rule the later holds."""
    given: dict[ShopRule, bool] = {}
    for block in blocks(text):
        for sentence in sentences(block):
            if not sentence.source.lstrip().startswith("#"):
                # In "Never" lists bullets may say it once more, and go on with what to do instead.
                forbidden = sentence.discouraged and not _FORBIDS.match(
                    spelled_out(sentence.source)
                )
                told = f"do not {sentence.text}" if forbidden else sentence.text
                given |= _stances(_BRACKETS.sub(" ", told))
    return frozenset(rule for rule, wanted in given.items() if wanted)


def _stances(sentence: str) -> dict[ShopRule, bool]:
    """Return what a sentence says of each rule that it is about."""
    plain = _FIRST.sub("first", _HASTE.sub("", sentence))
    found: dict[ShopRule, bool] = {}
    for saying in SAYINGS:
        text = sentence if saying.outright else plain
        core = saying.core.search(text)
        if saying.rule in found or not core:
            continue
        if saying.about.search(text) and not saying.but.search(text):
            found[saying.rule] = _is_wanted(saying, text, core)
    return found


def _is_wanted(saying: Saying, sentence: str, core: re.Match[str]) -> bool:
    if saying.outright:
        return saying.asks
    before = sentence[: core.start()]
    ends = [one.end() for one in _BOUNDARY.finditer(before)]
    clause = _CONDITION.sub("", before[ends[-1] :] if ends else before).strip()
    wanted = saying.asks != bool(len(_NEGATION.findall(clause)) % 2)
    does_harm = wanted == (saying.rule in BAD_RULES)
    return not wanted if does_harm and _BAD_END.search(_PURPOSE.sub("", sentence)) else wanted
