"""Clauses of a sentence, and what a sentence says about a doing in it: do it, do not, or nothing.

"Never put it down before it is hot" asks for heat; "put it down without heating it" forbids it;
"if you heat it, ..." says nothing about heating. The rules:

- A sentence falls into clauses at punctuation and at words like *before*, *if*, *without*.
- In a main clause a doing is asked for, unless the words on its left or right deny it; two denials
  cancel each other ("do not forget to").
- In a condition (*if*, *when*, *once*, *after*, ...) nothing is asked for.
- What stands after *without*, *before*, *until* or *unless* is asked for where the main clause is
  denied ("do not leave before ..."). After *without* it is forbidden otherwise.
- What stands after *only after* or *only once* is asked for.
- What stands after *rather than* or *instead of* is forbidden.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from skillwright.scripted.skilltext.sentences import Sentence


class Kind(StrEnum):
    """The part that a clause plays."""

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

# What denies the doing on its right. "If it is not there, open ..." denies nothing: a bare "not"
# counts only after do, should and the like, or at the start of a clause.
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
# Two words, one denial.
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

    text: str  # its words, without the conjunction that leads it
    kind: Kind  # the part that it plays
    lead: str = ""  # the conjunction or mark before it, or ""
    denied: bool = False  # a denial further left reaches into it ("never wander **or go back**")

    def denies(self, start: int, end: int) -> bool:
        """Tell whether an odd number of words deny the doing at ``[start, end)``."""
        # The whole clause is searched, because some denials look at the word that follows them.
        count = sum(found.end() <= start for found in _DENIAL.finditer(self.text))
        count -= sum(found.end() <= start for found in _PAIRED_DENIAL.finditer(self.text))
        count += bool(_OPENING_DENIAL.match(self.text[:start])) + self.denied
        count += bool(_DENIED_AFTER.match(self.text[end:]))
        return count % 2 == 1

    @property
    def is_denied(self) -> bool:
        """The clause says what not to do, or what does not happen."""
        return self.denies(len(self.text), len(self.text))


def split(sentence: Sentence) -> tuple[Clause, ...]:
    """Take a sentence apart."""
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
            lead = "and"  # the clause goes on in the part that it plays
        else:
            kind, lead = Kind(mark), border[mark].strip()
    words = sentence.text[at:].strip()
    if words:
        clauses.append(_joined(Clause(words, kind, lead), clauses))
    return _with_lists_denied(_with_fronted_clause_cut(clauses))


def _with_fronted_clause_cut(clauses: list[Clause]) -> list[Clause]:
    """Find the main clause where no comma announces it: "if it is shut | open it"."""
    if not clauses or any(clause.kind is Kind.MAIN for clause in clauses):
        return clauses
    verb = _IMPERATIVE_INSIDE.search(clauses[0].text)
    if not verb:
        return clauses
    text = clauses[0].text
    front = replace(clauses[0], text=text[: verb.start()].strip())
    return [front, Clause(text[verb.start() :].strip(), Kind.MAIN), *clauses[1:]]


def _joined(clause: Clause, before: list[Clause]) -> Clause:
    """Carry a denial over "and": "never stop and look" denies both, "avoid it and look" one."""
    if clause.lead != "and" or not before or not before[-1].is_denied:
        return clause
    reaches = before[-1].denied or bool(_DENIES_BASE_FORM.search(before[-1].text))
    return replace(clause, denied=reaches)


def _with_lists_denied(clauses: list[Clause]) -> tuple[Clause, ...]:
    """Carry a denial through a list that ends with "or": "never wander, stop, or go back"."""
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
