"""The rules of the scripted shopper, and their recognition in a skill's text."""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from skillwright.worlds.scripted.skilltext.sentences import blocks, sentences, spelled_out

# The rules that a skill can teach.


class ShopRule(StrEnum):
    """A rule that the shopper recognizes in a skill."""

    KEY_WORDS = "key_words"
    """Search in a few key words instead of the customer's whole sentence."""
    PRICE = "price"
    """Skip products above the price limit."""
    OPTIONS = "options"
    """Choose every option that the instruction names before the purchase."""
    FEATURES = "features"
    """Look up attributes that a product's title does not mention on its inner pages."""
    NEXT_HIT = "next_hit"
    """Go back and try another hit, or the next page, if a requirement is not met."""
    NEW_WORDS = "new_words"
    """Search again with other words if nothing fits."""
    BUY_IN_TIME = "buy_in_time"
    """Buy the best product found before the turns run out."""
    BUY_AT_ONCE = "buy_at_once"
    """Harmful: buy the first hit without checking it."""
    CHEAPEST = "cheapest"
    """Harmful: take the cheapest hit."""
    READ_ALL = "read_all"
    """Harmful: open every inner page of every product."""


BAD_RULES: Final = frozenset({ShopRule.BUY_AT_ONCE, ShopRule.CHEAPEST, ShopRule.READ_ALL})
GOOD_RULES: Final = frozenset(ShopRule) - BAD_RULES


@dataclass(frozen=True, slots=True)
class Saying:
    """A pattern for sentences about a rule."""

    rule: ShopRule
    core: re.Pattern[str]  # words for the action; a negation before them reverses the meaning
    about: re.Pattern[str]  # words that the sentence must contain, too
    but: re.Pattern[str]  # words that it must not contain
    asks: bool = True  # whether the sentence asks for the rule or for its opposite
    outright: bool = False  # ignore negations before the core, as in "leave what costs too much"


def _saying(
    rule: ShopRule,
    core: str,
    about: str = "",
    but: str = "",
    *,
    asks: bool = True,
    outright: bool = False,
) -> Saying:
    return Saying(
        rule, _words(core), _words(about), _words(but or _NEVER), asks=asks, outright=outright
    )


def _words(alternatives: str) -> re.Pattern[str]:
    """Compile alternatives of whole words; an empty text matches every text."""
    return re.compile(rf"\b(?:{alternatives})(?!\w)" if alternatives else "")


_NEVER: Final = "(?!)"
_SEARCH: Final = r"search\w*|quer(?:y|ies)|look(?:ing)? for|type|typing|enter|paste|pasting"
_CHOOSE: Final = (
    r"choose|choosing|select|selecting|click|clicking|pick|picking|set|setting|tick|ticking|mark"
)
_OPTION: Final = (
    r"options?|sizes?|colou?rs?|variants?|variations?|flavou?rs?|scents?|values?|shades?"
    r"|customi[sz]ations?|configurations?"
)
_DONE: Final = r"chosen|selected|clicked|set|picked|ticked|marked"
_PRICE: Final = r"prices?|priced|costs?|budget|dollars?|spend\w*"
_MEASURE: Final = (
    r"limits?|exceed\w*|above|over|below|under|within|lower|less|higher|more|beyond|compare|check"
    r"|mind|watch|look|respect|at most|afford\w*|allow\w*|caps?|maximum|ceiling|keep"
)
_READ: Final = (
    r"open\w*|read\w*|check\w*|look\w*|click\w*|visit\w*|see|consult\w*|verif\w+|confirm\w*|tells?"
    r"|inspect\w*|study\w*|view\w*|find\w*|skip\w*|ignor\w*|stands?|bother\w*|go(?:ing)? through"
    r"|tab|page"
)
_INNER: Final = (
    r"features?|descriptions?|bullet points?|bullets|product details|details? (?:page|tab|section)"
    r"|details|specifications?|specs|inner pages?|sub-?pages?"
)
_THINGS: Final = (
    r"hits?|products?|results?|items?|candidates?|listings?|ones?|pages?|articles?|goods|matches"
)
_MOVE: Final = (
    r"go|going|try|trying|look\w*|open\w*|move|moving|turn\w*|return\w*|take|see|check\w*|click\w*"
    r"|consider\w*|inspect\w*|leave|back|give|hit|compare|comparing|continue|continuing|proceed|switch\w*"
)
_BUY: Final = r"buy\w*|purchas\w*|order\w*|take|taking|grab\w*"
_REVIEWS: Final = r"reviews?|(?:every|all|each)(?: of)?(?: the)?(?: inner| sub-?)? ?pages?"
_WHOLE: Final = r"whole|entire|full|complete|raw|verbatim|word for word|every word|all the words"

SAYINGS: Final = (
    _saying(
        ShopRule.KEY_WORDS,
        rf"(?:{_WHOLE})(?: \w+){{0,3}} (?:instructions?|sentences?|requests?|wish|text|message"
        r"|order)|word for word|verbatim|(?:long|wordy) (?:search\w*|quer(?:y|ies)|sentences?)"
        r"|(?:paste|pasting|copy|copying)(?: \w+){0,3} (?:instructions?|sentences?|requests?)",
        rf"{_SEARCH}|copy\w*",
        asks=False,
    ),
    _saying(ShopRule.KEY_WORDS, r"key ?words|key ?terms", but=r"other|different|new|again|change"),
    _saying(
        ShopRule.KEY_WORDS,
        r"reduc\w+(?: \w+){0,3} (?:query|search)|few(?:er)? words|handful of words|short(?:er|est)?"
        r"|brief\w*|concise\w*|compact"
        r"|(?:main|content|core|essential|important|telling) (?:words|terms)|essentials"
        r"|(?:only|just|simply)(?: for| with| by)? (?:the |what )?(?:product|noun|thing|kind)\w*"
        r"|(?:kind|type|name|sort)s? of (?:the )?(?:product|thing|item)s?"
        r"|product (?:type|name|kind)|nouns?"
        r"|(?:product|thing|item|name)s?,?(?: \S+){0,5} attributes?"
        r"|(?:two|three|four|five|six)(?: or \w+)? words",
        _SEARCH,
        r"other words|different words|again|anew|drop\w* the rarest",
    ),
    _saying(
        ShopRule.KEY_WORDS,
        r"(?:drop|strip|remove|cut|leave out|leaving out|omit|without)(?: \w+){0,3} (?:talk|chatter"
        r"|polite \w+|filler|small talk|courtes\w+|stop ?words|empty words|story)",
        outright=True,
    ),
    _saying(
        ShopRule.PRICE,
        rf"(?:ignor\w+|forget\w*|disregard\w*|regardless of|no matter|never mind|overlook\w*"
        r"|do not (?:mind|care|worry|bother|check|compare|look at|watch|let)(?: \w+){0,2})"
        rf"(?: \w+){{0,4}} (?:{_PRICE}|limits?)"
        rf"|(?:{_PRICE}) (?:do(?:es)? not|hardly|rarely) matter\w*"
        rf"|(?:{_PRICE}) (?:is|are) irrelevant",
        asks=False,
    ),
    _saying(
        ShopRule.PRICE,
        rf"(?:{_PRICE})(?: \S+){{0,8}} (?:{_MEASURE})|(?:{_MEASURE})(?: \S+){{0,8}} (?:{_PRICE})"
        r"|filter\w*(?: \w+){0,3} price|(?:more expensive|dearer|pricier|costlier) than"
        r"|too (?:expensive|dear|costly|pricey|much money)"
        r"|over-?priced|unaffordable|affordable"
        r"|(?:price|spending) limits?",
        but=r"cheapest|lowest|least expensive|quer(?:y|ies)|search\w* (?:for|with|in)",
        outright=True,
    ),
    _saying(
        ShopRule.OPTIONS,
        rf"(?:ignor\w+|skip\w*|forget\w*|leav\w+|omit\w*|neglect\w*|overlook\w*)(?: \w+){{0,4}} "
        rf"(?:{_OPTION})|(?:{_OPTION})(?: \w+){{0,2}} (?:unchosen|unselected|unset|unclicked)"
        rf"|(?:unchosen|unselected|forgotten)(?: \w+){{0,2}} (?:{_OPTION})"
        r"|options? (?:do(?:es)? not matter|(?:is|are) (?:a waste|irrelevant))",
        but=r"leav\w+(?: \w+){0,3} out|search\w*|quer(?:y|ies)",
        asks=False,
    ),
    _saying(
        ShopRule.OPTIONS,
        rf"(?:{_CHOOSE})(?: \S+){{0,14}} (?:{_OPTION})"
        rf"|(?:{_OPTION})(?: \S+){{0,12}} (?:{_DONE})|(?:{_DONE})(?: \S+){{0,6}} (?:{_OPTION})",
        but=r"search (?:with|by)",
    ),
    _saying(ShopRule.FEATURES, _INNER, _READ, r"return\w* from"),
    _saying(
        ShopRule.FEATURES,
        r"(?:verify|verifying|check|checking|confirm|confirming|make sure|making sure|ensure"
        r"|ensuring|tick off)(?: \S+){0,10} (?:attributes?|requirements?|qualit(?:y|ies)"
        r"|propert(?:y|ies)|materials?|demands?)",
    ),
    _saying(
        ShopRule.NEXT_HIT,
        r"(?:next|following|another|other|different|second|further|more|several|better)"
        rf"(?: \w+){{0,2}} (?:{_THINGS})|go(?:ing)? back|back out"
        rf"|back to the (?:results|list|hits)|move on|next >|keep (?:looking|searching)"
        rf"|page (?:2|two)|compare (?:hits|{_THINGS})",
        _MOVE,
        r"search again|costs? more",
    ),
    _saying(
        ShopRule.NEW_WORDS,
        r"other words|(?:different|alternative) (?:words|terms|quer(?:y|ies)|key ?words?|search\w*)"
        r"|another (?:query|search)|(?:new|fresh) (?:query|search|words|key ?words?)|synonyms?"
        r"|(?:search\w*|try\w*)(?: \w+){0,2} (?:again|anew|once more)"
        r"|(?:rephras|reword|rewrit|reformulat|chang|vary|simplif|broaden|widen|shorten|refin)\w*"
        r"(?: \w+){0,3} (?:query|queries|search\w*|words|terms|key ?words?)",
        rf"{_SEARCH}|try\w*|words|back",
    ),
    _saying(
        ShopRule.BUY_IN_TIME,
        r"never settle(?! for the first)|do not settle(?! for the first)|no compromises?"
        r"|keep (?:looking|searching)(?: \w+){0,3} (?:until|till|unless)(?: \w+){0,6} "
        r"(?:perfect\w*|exact\w*|everything|flawless)|(?:only|nothing but)(?: \w+){0,3} perfect",
        asks=False,
    ),
    _saying(
        ShopRule.BUY_IN_TIME,
        r"(?:turns?|steps?|moves|time|actions)(?: \w+){0,4} "
        r"(?:run out|runs out|running out|are left|is left|left|remain\w*|end|ends|are over)"
        r"|in time|too late|out of (?:turns|steps|moves|time)|empty-handed"
        r"|without (?:a purchase|buying|purchasing|having bought|an order)"
        r"|best(?: \w+){0,3} (?:so far|seen|found)|settle for|(?:closest|nearest) (?:match|fit|one)"
        r"|(?:always|in the end)(?: \w+){0,2} (?:buy|purchase)"
        r"|(?:end|finish|close)\w* with a purchase"
        r"|(?:turn|step) limit|last (?:turns?|steps?|moves)|for ever|forever",
        r"buy\w*|bought|purchas\w*|settle|order|take",
        outright=True,
    ),
    _saying(
        ShopRule.BUY_AT_ONCE,
        rf"first(?: \w+)? (?:{_THINGS})|at once|immediately|right away|straight away|instantly"
        r"|quickly|on sight|unseen|without (?:a look|looking|reading|checking|comparing)",
        _BUY,
        r"when|once (?!more)\w+|if|as soon as|after|where|until|search\w*",
    ),
    _saying(
        ShopRule.CHEAPEST,
        r"cheapest|lowest(?:-| )pric\w+|least expensive|lowest cost",
        rf"{_BUY}|{_CHOOSE}|open|prefer|go for|sort|best|always|start",
    ),
    _saying(ShopRule.READ_ALL, _REVIEWS, r"every|each|all|always|any"),
)
"""The patterns; the first match for a rule counts."""


# "Never buy before X", "do not buy without X": first X.
_FIRST: Final = re.compile(
    r"\b(?:never|do not|avoid|must not|should not|can not|may not)\b(?: [^\s;:,]+){1,8}? "
    r"(?:before|until|unless|without|till)\b"
)
# Words after which a negation no longer applies.
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
# Bad results; a sentence with one of these advises against its action.
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
    """Return the rules in a text; the later of two sentences about a rule wins."""
    given: dict[ShopRule, bool] = {}
    for block in blocks(text):
        for sentence in sentences(block):
            if not sentence.source.lstrip().startswith("#"):
                # Bullets of a "Never" list may repeat the word, and then say what to do instead.
                forbidden = sentence.discouraged and not _FORBIDS.match(
                    spelled_out(sentence.source)
                )
                said = f"do not {sentence.text}" if forbidden else sentence.text
                given |= _stances(_BRACKETS.sub(" ", said))
    return frozenset(rule for rule, wanted in given.items() if wanted)


def _stances(sentence: str) -> dict[ShopRule, bool]:
    """Return for each rule in a sentence whether the sentence asks for it."""
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
