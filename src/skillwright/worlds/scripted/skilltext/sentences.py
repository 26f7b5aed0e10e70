"""Split skill text into sentences and clauses, and find what each asks for or forbids."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Final

from skillwright.worlds.scripted.skilltext.words import VISITED, concept

# Splitting text into lines, bullets, headings and sentences; contractions are spelled out.


_HEADING = re.compile(r"^\s*#{1,6}\s+")
_BULLET = re.compile("^\\s*(?:[-*+\u2022\u2013]|" r"\(?\d{1,2}[.)]|\[[ x]\])\s+")
# A line of a skill bank: "[l003] Name: Avoid: a doing. Instead: another. A rule. (Apply when ...)".
_BANK_LABEL = re.compile(r"^\[[A-Za-z]{1,8}[_-]?\d{1,6}\] [^:\n]{1,60}: ")
_BANK_AVOID = re.compile(r"^Avoid: ")
_BANK_INSTEAD = re.compile(r"(?<=[.!?] )Instead: ")
_BANK_CONDITION = re.compile(r"\s*\(Apply [^()\n]*\)\s*$")
_MARKUP = re.compile('[*_`"\u201c\u201d]+|<!--.*?-->')
_END = re.compile(r"(?<=[.!?;])\s+|;$")
_NAMES = (
    "(?:an? |the )?(?:clean|heat|hot|cool|cold|wash|warm|chill|rinse|cleaned|heated|cooled|warmed"
    "|washed|chilled|rinsed|shelves|box(?:es)?|(?:drawer|cabinet|fridge|safe|microwave|shelf"
    "|countertop|desk|dresser|sinkbasin|cupboard|container)s?)"
)
_DOINGS = "(?:clean|heat|cool|wash|warm|chill|rins)ing"
# "heat, clean or cool it" is one list, not three statements; "if it is to be hot, heat it" is two.
_LIST_COMMA = re.compile(
    rf"\b({_NAMES}),(?= (?:{_NAMES}, )*(?:{_NAMES},? )?(?:and|or|nor) {_NAMES}\b)"
    rf"|\b({_DOINGS}),(?= (?:(?:and|or|nor) )?{_DOINGS}\b)"
)

_SPELLED_OUT: Final = (
    (re.compile("[\u2018\u2019\u00b4]"), "'"),
    (re.compile("\\s*[\u2013\u2014\u2192]\\s*"), " - "),
    (re.compile(r"\bcan't\b|\bcannot\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bdont\b"), "do not"),
    (re.compile(r"\b(?:i\.e|e\.g)\.,?"), "such as"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"\b(it|that|what|there|here|where|everything|anything|something)'s\b"), r"\1 is"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"'d\b"), " would"),
    (re.compile(r",? (?:ever|under any circumstances?),"), ""),
    (re.compile(r"(?<=\w)/(?=\w)"), " or "),
    (re.compile(r"\s+"), " "),
)

_PROHIBITION = re.compile(
    r"^(?:never|avoid|do not|things? (?:to avoid|not to do)|what not to do|(?:common )?mistakes"
    r"|forbidden|bad habits|pitfalls|not allowed|wrong|do nots)(?: (?:do|these|this|mistakes|things"
    r"|the following|any of (?:these|this)|habits|to avoid))*:?$"
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One statement of a text."""

    text: str  # lower case, single spaces, contractions spelled out, mark-up removed
    # text of the preceding sentence in the same paragraph or bullet, to which "it" may refer, or ""
    before: str
    source: str  # its line or lines, verbatim
    discouraged: bool = False  # whether it is in a list under a heading such as "Avoid:"
    telegraphic: bool = False  # whether it is a whole bullet, which may lack a verb


def spelled_out(text: str) -> str:
    """Normalize text: lower case, single spaces, without mark-up and contractions."""
    text = _MARKUP.sub("", text).lower()
    for pattern, replacement in _SPELLED_OUT:
        text = pattern.sub(replacement, text)
    return _LIST_COMMA.sub(r"\1\2 or", text).replace(" or or ", " or ").strip()


def blocks(text: str) -> list[str]:
    """Split a text at blank lines, but keep a list together with its introduction."""
    found: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        last = found[-1].splitlines()[-1] if found else ""
        introduces = bool(_HEADING.match(last)) or last.rstrip().endswith(":")
        if found and (introduces or (_BULLET.match(last) and _BULLET.match(block))):
            found[-1] += f"\n\n{block}"
        else:
            found.append(block)
    return found


def sentences(text: str) -> list[Sentence]:
    """Split a block into sentences; headings and bullets are separate statements."""
    found: list[Sentence] = []
    discouraged = False
    for source, is_bullet in _statements(text):
        body = spelled_out(_without_label(_BULLET.sub("", _HEADING.sub("", source))))
        if not is_bullet:
            discouraged = bool(_PROHIBITION.match(body.rstrip(". ")))
        before = ""
        parts = [part.rstrip(" .;!") for part in _END.split(body)]
        for part in parts:
            if part:
                found.append(
                    Sentence(
                        text=part,
                        before=before,
                        source=source,
                        discouraged=discouraged and is_bullet,
                        telegraphic=is_bullet and len(parts) == 1,
                    )
                )
            before = part
    return found


def _without_label(line: str) -> str:
    """Reduce a line of a skill bank to its advice, without name and condition.

    "Avoid: ..." becomes a prohibition.
    """
    label = _BANK_LABEL.match(line)
    if label is None:
        return line
    said = _BANK_CONDITION.sub("", line[label.end() :])
    return _BANK_INSTEAD.sub("", _BANK_AVOID.sub("Avoid ", said))


def _statements(text: str) -> Iterator[tuple[str, bool]]:
    """Yield (lines that belong together, whether they are a bullet)."""
    gathered: list[str] = []
    for line in text.splitlines():
        starts_anew = bool(_HEADING.match(line) or _BULLET.match(line)) or not line.strip()
        continues = gathered and not starts_anew and _is_wrapped(gathered[-1], line)
        if not continues and gathered:
            yield "\n".join(gathered), bool(_BULLET.match(gathered[0]))
            gathered = []
        if line.strip():
            gathered.append(line)
    if gathered:
        yield "\n".join(gathered), bool(_BULLET.match(gathered[0]))


def _is_wrapped(line: str, following: str) -> bool:
    """Tell whether a line continues in the next one."""
    return not _HEADING.match(line) and following.lstrip()[:1].islower()


# The clauses of a sentence, and the polarity of an action in them: required, forbidden, or neither.
#
# "Never put it down before it is hot" requires heat; "put it down without heating it" forbids it;
# "if you heat it, ..." does neither. The rules:
#
# - A sentence is split into clauses at punctuation and at words like *before*, *if*, *without*.
# - In a main clause an action is required, unless words on its left or right negate it; two
#   negations cancel each other ("do not forget to").
# - In a condition (*if*, *when*, *once*, *after*, ...) nothing is required.
# - After *without*, *before*, *until* or *unless* an action is required if the main clause is
#   negated ("do not leave before ..."). After *without* it is forbidden otherwise.
# - After *only after* or *only once* an action is required.
# - After *rather than* or *instead of* an action is forbidden.


class Kind(StrEnum):
    """The role of a clause."""

    MAIN = "main"
    CONDITION = "condition"
    DEADLINE = "deadline"
    WITHOUT = "without"
    CONTRAST = "contrast"
    PROVISO = "proviso"


_CONNECTIVES: Final = (
    (Kind.CONTRAST, "rather than|instead of|as opposed to|and not"),
    (Kind.WITHOUT, "without"),
    (Kind.PROVISO, "only (?:after|once|when|if)"),
    (Kind.DEADLINE, "before|until|till|unless|prior to|ahead of|lest"),
    (
        Kind.CONDITION,
        "if|when|whenever|wherever|after|while|as soon as|because|since|as long as|in case"
        "|although|the (?:moment|instant|minute)|(?:every|each) time|given that|now that"
        "|once (?=you|it|the|they|that|this|found|held|heated|hot|cool|cold|clean|done|hold|in "
        "|an? |located|spotted|seen|something|your|warm|wash)",
    ),
    (Kind.MAIN, "but|then|so that|so|otherwise|or else|yet|afterwards"),
)
_VERBS_AFTER_AND = (
    "put|place|take|pick|go|open|look|search|check|use|switch|turn|bring|carry|heat|cool|clean|do"
    "|deliver|drop|set|move|return|repeat|continue|keep|leave|visit|try|head|walk|hold|find|fetch"
    "|wash|warm|chill|grab|examine|inspect|stop|skip|ignore|start|make|never|always|deposit|only"
)
_BORDER = re.compile(
    r"\s*(?P<stop>[,;:()\[\]/]|\s-+\s|->|\.\.\.|\?|!|\.\s)\s*"
    rf"|\b(?P<also>and )(?=(?:{_VERBS_AFTER_AND})\b)|"
    + "|".join(rf"\b(?P<{kind.value}>(?:{words}))\b" for kind, words in _CONNECTIVES)
)

_IMPERATIVE_INSIDE = re.compile(
    r"(?<!\byou )(?<!\bto )(?<!\bthey )(?<!\bnot )(?<!\band )(?<!\bor )(?<!\bcan )"
    r"(?<!\bmust )(?<=\w )(?:go|take|put|open|pick|bring|carry|grab|return|use|switch|turn|wash"
    r"|heat|skip|fetch|deliver|never|always|do not|move on|collect|leave|ignore|check|look inside"
    r"|there is no)\b"
)

# Words that negate the action on their right. A bare "not" counts only after do, should and the
# like, or at the start of a clause: "If it is not there, open ..." negates nothing.
_DENIAL = re.compile(
    r"\b(?:never|(?:do|should|must|may|can|need|ought|shall|will|to|better|please) not(?! only)"
    r"|do(?:es)? not (?:need|have)|(?:needs?|deserves?|gets?|requires?|takes?|there is) no"
    r"|no (?:need|point|use|reason|sense|value|benefit)|nothing|nobody"
    r"|avoid(?:s|ing)?|refrain(?:ing)?|skip(?:s|ping)?|stop (?=\w+ing)|cease|forgo|omit|resist|nor"
    r"|neither|forget (?:about )?(?=\w+ing|the|any|every)|forget(?:ting)?(?= (?:to|that))|ban"
    r"|forbidden to|prohibited|(?:point|use|need)less to|unnecessary to|bother(?:ing)?|fail to"
    r"|waste (?:no )?(?:any )?(?:time|steps|moves|turns|a step|a move)|(?:wasteful|wrong) to"
    r"|not (?:necessary|needed|required|worth|worthwhile) (?=to|\w+ing)|mistake to|hold off"
    r"|steer clear of|keep (?:away )?from|do without|dispense with|never mind|leave out|neglect to"
    r"|abstain from|hesitate|ignore|wastes? of (?:time|steps|moves|effort)|wasteful|does not count"
    r"|(?:are|is) not (?:yet )?(?:done|finished|complete|over|enough)"
    r"|(?:have|has|is|are) not (?:yet )?(?:been )?(?:searched|checked|seen|inspected))\b"
)
_OPENING_DENIAL = re.compile(
    r"^(?:(?:and|or|but|please|also) )*(?:not?|zero)\b"
    r"(?! (?:matter|later|need|point|use|reason|sense|value|benefit|necessary|needed|required"
    r"|worth))"
)
# Two words, one negation.
_PAIRED_DENIAL = re.compile(r"\b(?:(?:do|should|must|need) not|never) (?:bother|waste)\b")
_DENIED_AFTER = re.compile(
    r"^[^,;:]{0,80}?\b(?:(?:is|are|being) (?:[a-z]+ )?(?:not (?:needed|necessary|required|worth"
    r"|allowed|useful)|unnecessary|pointless|useless|a waste|wasted|forbidden|off-limits|banned"
    r"|prohibited|optional|superfluous|off limits|a mistake|(?:to be )?(?:skipped|avoided|omitted"
    r"|ignored))|(?:wastes?|costs?) (?:[a-z]+ )?(?:time|steps?|moves?|turns?|actions?)|serves? no"
    r"|(?:can|may|should|must) (?:not be|be (?:skipped|omitted|left|avoided|ignored|dropped))"
    r"|(?:does|do|will) not (?:help|matter|pay|count)|never (?:helps|pays))\b"
)
_DENIES_BASE_FORM = re.compile(r"\b(?:never|(?:do|should|must|may|can|need|will) not)\b")


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a sentence."""

    text: str  # its words, without its conjunction
    kind: Kind  # its role
    lead: str = ""  # its conjunction, or the mark before it, or ""
    denied: bool = False  # negated by an earlier clause ("never wander **or go back**")

    def denies(self, start: int, end: int) -> bool:
        """Tell whether an odd number of negations apply to the action at ``[start, end)``."""
        # The whole clause is searched, because some negations depend on the next word.
        count = sum(found.end() <= start for found in _DENIAL.finditer(self.text))
        count -= sum(found.end() <= start for found in _PAIRED_DENIAL.finditer(self.text))
        count += bool(_OPENING_DENIAL.match(self.text[:start])) + self.denied
        count += bool(_DENIED_AFTER.match(self.text[end:]))
        return count % 2 == 1

    @property
    def is_denied(self) -> bool:
        """Whether the clause is negated."""
        return self.denies(len(self.text), len(self.text))


def split(sentence: Sentence) -> tuple[Clause, ...]:
    """Split a sentence into clauses, each with its polarity."""
    clauses: list[Clause] = []
    kind, lead, at = Kind.MAIN, "", 0
    for border in _BORDER.finditer(sentence.text):
        words = sentence.text[at : border.start()].strip()
        if words:
            clauses.append(_joined(Clause(words, kind, lead), clauses))
        at = border.end()
        mark = border.lastgroup or ""
        if mark == "stop":
            kind, lead = Kind.MAIN, border["stop"].strip()
        elif mark == "also":
            lead = "and"  # the clause has the role of the one before it
        else:
            kind, lead = Kind(mark), border[mark].strip()
    words = sentence.text[at:].strip()
    if words:
        clauses.append(_joined(Clause(words, kind, lead), clauses))
    return _with_lists_denied(_with_fronted_clause_cut(clauses))


def _with_fronted_clause_cut(clauses: list[Clause]) -> list[Clause]:
    """Split off a main clause without a comma before it: "if it is shut | open it"."""
    if not clauses or any(clause.kind is Kind.MAIN for clause in clauses):
        return clauses
    verb = _IMPERATIVE_INSIDE.search(clauses[0].text)
    if not verb:
        return clauses
    text = clauses[0].text
    front = replace(clauses[0], text=text[: verb.start()].strip())
    return [front, Clause(text[verb.start() :].strip(), Kind.MAIN), *clauses[1:]]


def _joined(clause: Clause, before: list[Clause]) -> Clause:
    """Extend a negation over "and": in "never stop and look" both, in "avoid it and look" one."""
    if clause.lead != "and" or not before or not before[-1].is_denied:
        return clause
    reaches = before[-1].denied or bool(_DENIES_BASE_FORM.search(before[-1].text))
    return replace(clause, denied=reaches)


def _with_lists_denied(clauses: list[Clause]) -> tuple[Clause, ...]:
    """Extend a negation over a list with "or": "never wander, stop, or go back"."""
    for last, clause in enumerate(clauses):
        if not re.match(r"(?:or|nor)\b", clause.text):
            continue
        first = last
        while first > 0 and clauses[first].lead in {",", "and"} and not clauses[first].is_denied:
            first -= 1
        if clauses[first].is_denied and clauses[first].kind is Kind.MAIN:
            for index in range(first + 1, last + 1):
                clauses[index] = replace(clauses[index], denied=True)
    return tuple(clauses)


# A sentence as advice.


# Words of other domains, which also have closed tickets, hot pans and searches.
FOREIGN: Final = concept("""
    code / coding / software / functions / commits / git / deploy~ / servers? / bugs? / debugging
    repositor(?:y|ies) / branch(?:es)? / variables? / apis? / databases? / caches? / files?
    folders? / end users? / modules? / librar(?:y|ies) / scripts? / refactor~ / pull requests?
    tickets? / endpoints? / unit tests? / pipelines? / browsers? / emails? / websites? / passwords?
    programs? / screens? / keyboards?
    ovens? / flour / dough / butter / oil / onions? / garlic / sauces? / simmer~ / boil~ / stir~
    seasoning / serving / serve / recipes? / chefs? / cook~ / bake~ / roast~ / fry~ / frying / stew
    minutes? / hours? / degrees / teaspoons? / tablespoons? / grams? / broth / soups? / chop~
    sugar / cream / cheese / vegetables? / meat / chicken / fish / rice / pasta / marinade / batter
    flavou?rs? / aromas? / tastes? / ingredients? / knead~ / dessert / lunch / dinner / breakfast
    readers? / customers? / clients? / meetings? / manag(?:er|ers|ement) / employees? / teams?
    investors? / stocks? / bonds? / paragraphs? / agenda / audience / opponents?
    patients? / doctors? / students? / chapters? / essays? / authors? / equations? / theorems?
    soil / garden~ / paint~ / screws? / engines? / tyres? / bulbs? / roses? / weed~ / greenhouse
    hotels? / trains? / passports? / museums? / airports? / derivatives? / muscles? / grill~
""")
_HOUSEHOLD: Final = concept("""
    receptacles? / containers? / cabinets? / cupboards? / drawers? / fridges? / microwaves? / shelf
    shelves / counter(?:top)?s? / sinkbasins? / sinks? / (?:desk|floor)?lamps? / objects? / items?
    targets? / destinations? / tasks? / inventory / rooms? / places / locations? / spots? / basins?
    (?:a|the|each|every|one|any|same|its|this|first) place / goal / dressers? / safes? / surfaces?
    furniture / doors? / closed / shut / search~ / visit~ / heat~ / cool~ / clean~ / lights?
""")
_TASK_TALK: Final = concept("""
    receptacles? / objects? / items? / targets? / destinations? / tasks? / inventory / goal
    sinkbasins? / desklamps? / floorlamps? / countertops?
""")
_SHORT = 40
"""Minimum words of a text to decide which domain it is about."""
_DENSITY = 20
"""In a text about household tasks, at least one in this number of words is about them."""

_NARRATIVE = re.compile(
    r"\b(?:did|went|took|saw|came|said|thought|felt|stood|lay|hummed|became|got"
    r"|i|my|she|he|her|his|him|our|us|mine|mother|father|grandmother|grandma|uncle|aunt"
    r"|neighbou?rs?|someone|somebody|family|visitors|guests|children|century|yesterday|ago)\b"
)
_ADVICE = re.compile(
    r"^no |\b(?:always|never|must|should|ought to|do not|make sure|be sure|remember|ensure|needs?"
    r"|have to|has to|had better|you (?:can|may|will|want|might|get)|(?:is|are) to be|means|pays"
    r"|it (?:pays|helps)|helps?|best|essential|crucial|vital|important|required|mandatory|necessary"
    r"|worth"
    r"|wise|good idea|unnecessary|pointless|useless|a waste|wastes|avoid|only after|counts? as"
    r"|gets? (?:opened|taken|heated|picked|searched|cooled|cleaned|washed|one|a|exactly|only|just)"
    r"|allowed|forbidden|without|not (?:yet )?(?:done|finished|complete|searched|enough)|enough"
    r"|the rule|key|until|suffices?|will do|deserves?|can be|may be|is to \w+|then|first"
    r"|no (?:need|point|use|reason|sense)|by \w+ing"
    r"|go(?:es)? (?:first|through|to|via|into|under|straight))\b"
)
_IMPERATIVE = re.compile(
    r"^(?:(?:then|first|firstly|second|secondly|third|next|finally|lastly|just|simply|please|also"
    r"|and|or|but|so|now|instead|immediately|afterwards|otherwise|always|never|rather|often"
    r"|sometimes|\w+ly|do not|not|if so|to begin|to start|once there|step \d+|in that case|at once"
    r"|again|still|by default|tip|rule|note|in general|straight away|right away)\s+)*"
    r"(?:be|put|place|take|pick|go|open|look|search|check|use|switch|turn|bring|carry|heat|cool"
    r"|clean|deliver|drop|set|move|return|repeat|continue|keep|leave|visit|try|head|walk|hold|find"
    r"|fetch|wash|warm|chill|grab|examine|inspect|stop|skip|ignore|start|make|do|deposit|avoid"
    r"|explore|peek|peer|glance|scan|sweep|work|tick|cross|mark|track|remember|note|remove|rinse"
    r"|scrub|microwave|refrigerate|reheat|toggle|activate|light|flip|flick|press|begin|prioriti[sz]e"
    r"|prefer|consider|give|limit|restrict|confine|get|collect|seize|snatch|secure|claim|lift|pull"
    r"|unlatch|unseal|revisit|retrace|backtrack|recheck|proceed|cover|comb|scour|hunt|run|call|ask"
    r"|verify|review|consult|type|issue|study|scrutini[sz]e|survey|treat|prepare|transform|apply"
    r"|spend|waste|bother|refrain|forget|resist|let|store|stow|insert|lay|hand|finish|complete|end"
    r"|follow|favou?r|lead|swing|slide|stay|reach|approach|stand|pause|wait|circle|double|loop|plan"
    r"|gather|nab|retrieve|confirm|ensure|see|record|maintain|list|order|pass|investigate|tackle"
    r"|browse|rummage|read|count|choose|guess|expect|assume|quit|abandon|stick|think)\b"
)
_PAST = re.compile(r"\b(?:was|were|had)\b")
# "Exhaust all corners", with any verb.
_IMPERATIVE_BY_FORM = re.compile(
    r"^(?!(?:the|an?|this|these|those|it|there|in|on|at|of|for|with|by|from|and|nearly|almost)\b)"
    r"\w+(?<!s)(?<!ed)(?<!ing) (?:all|every|each|any|it|them|your|whatever|anything|everything)\b"
)
_CONTINUE = re.compile(r"(?:keep|continue|go on|repeat|carry on|persist|proceed)\b")


class Statement:
    """A sentence with its clauses."""

    def __init__(self, sentence: Sentence) -> None:
        self.sentence = sentence
        self.text = sentence.text
        self.clauses = split(sentence)

    @cached_property
    def context(self) -> str:
        """The preceding sentence and this one, to resolve "it" and "them"."""
        return f"{self.sentence.before} . {self.text}"

    @property
    def is_about_tasks(self) -> bool:
        """Whether it is about household tasks."""
        return self.says(_TASK_TALK)

    @property
    def is_advice(self) -> bool:
        """Whether it is an instruction about housekeeping rather than a report of an event."""
        if FOREIGN.search(self.text) or _NARRATIVE.search(self.text):
            return False
        if any(_IMPERATIVE.match(clause.text) for clause in self.clauses):
            return True
        return not tells_story(self.text) and bool(
            _ADVICE.search(self.text)
            or _IMPERATIVE_BY_FORM.match(self.text)
            or (self.sentence.telegraphic and len(self.text.split()) <= 9)
        )

    def says(self, *concepts: re.Pattern[str]) -> bool:
        """Tell whether all concepts occur in the sentence."""
        return all(one.search(self.text) for one in concepts)

    def asks(self, head: re.Pattern[str], within: Iterable[Clause] | None = None) -> bool | None:
        """Tell whether the sentence requires an action (True) or forbids it (False).

        The last mention counts. ``within`` limits the clauses.
        """
        answer: bool | None = None
        for clause in self.clauses if within is None else within:
            for found in head.finditer(clause.text):
                verdict = self._judged(clause, *found.span())
                answer = answer if verdict is None else verdict
        if answer is not None and self.sentence.discouraged:
            return _discouraged(answer, self.text)
        return answer

    def _judged(self, clause: Clause, start: int, end: int) -> bool | None:
        denied = clause.denies(start, end)
        match clause.kind:
            case Kind.MAIN:
                return not denied
            case Kind.CONDITION:
                return None
            case Kind.PROVISO:
                return not denied
            case Kind.CONTRAST:
                return denied
            case Kind.DEADLINE | Kind.WITHOUT:
                main = self._main_of(clause)
                if main.is_denied or (
                    clause.lead in {"until", "till"} and _CONTINUE.match(main.text)
                ):
                    return not denied
                return None if clause.kind is Kind.DEADLINE else denied

    def _main_of(self, clause: Clause) -> Clause:
        """Find the main clause that a clause depends on: the nearest before it, or the next."""
        at = self.clauses.index(clause)
        nearest = [*reversed(self.clauses[:at]), *self.clauses[at + 1 :]]
        return next((other for other in nearest if other.kind is Kind.MAIN), clause)


def _discouraged(answer: bool, text: str) -> bool:
    """Negate an entry of a list of mistakes, unless it is phrased as a prohibition."""
    if answer:
        return False
    return bool(re.match(r"(?:not \w+ing|forget|fail|leaving|skipping|ignoring|no \w+ing)", text))


def tells_story(text: str) -> bool:
    """Tell whether a sentence reports what a person did."""
    past = _PAST.search(VISITED.sub("", text))  # "was already searched" is no report
    return bool(past or _NARRATIVE.search(text))


def is_foreign(block: str) -> bool:
    """Tell whether a block of text is not about household tasks."""
    text = spelled_out(block)
    ours, words = len(_HOUSEHOLD.findall(text)), len(text.split())
    return len(FOREIGN.findall(text)) > ours // 2 or (words >= _SHORT and ours * _DENSITY < words)
