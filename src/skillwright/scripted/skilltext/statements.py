"""A sentence as advice: does it tell anybody to do anything, and what does it ask for?"""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Final

from skillwright.scripted.skilltext.clauses import Clause, Kind, split
from skillwright.scripted.skilltext.lexicon import VISITED
from skillwright.scripted.skilltext.patterns import concept
from skillwright.scripted.skilltext.sentences import Sentence, spelled_out

# Other trades have closed tickets, hot pans and searches too.
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
"""A text of fewer words says too little to tell what it is about."""
_DENSITY = 20
"""In a text about household tasks, one word in so many belongs to them."""

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
# "Exhaust all corners", whatever the verb is.
_IMPERATIVE_BY_FORM = re.compile(
    r"^(?!(?:the|an?|this|these|those|it|there|in|on|at|of|for|with|by|from|and|nearly|almost)\b)"
    r"\w+(?<!s)(?<!ed)(?<!ing) (?:all|every|each|any|it|them|your|whatever|anything|everything)\b"
)
_GO_ON = re.compile(r"(?:keep|continue|go on|repeat|carry on|persist|proceed)\b")


class Statement:
    """A sentence with its clauses."""

    def __init__(self, sentence: Sentence) -> None:
        self.sentence = sentence
        self.text = sentence.text
        self.clauses = split(sentence)

    @cached_property
    def context(self) -> str:
        """The sentence after the one before it, for what "it" and "them" stand for."""
        return f"{self.sentence.before} . {self.text}"

    @property
    def is_about_tasks(self) -> bool:
        """It speaks of tasks as the household gives them."""
        return self.says(_TASK_TALK)

    @property
    def is_advice(self) -> bool:
        """It tells somebody what to do, about no trade but housekeeping, and tells no story."""
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
        """Tell whether the sentence asks for a doing (True) or forbids it (False); the last counts.

        Only some clauses are looked at where they are given.
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
                if main.is_denied or (clause.lead in {"until", "till"} and _GO_ON.match(main.text)):
                    return not denied
                return None if clause.kind is Kind.DEADLINE else denied

    def _main_of(self, clause: Clause) -> Clause:
        """Find the main clause that a clause depends on: the nearest before it, or the next."""
        at = self.clauses.index(clause)
        nearest = [*reversed(self.clauses[:at]), *self.clauses[at + 1 :]]
        return next((other for other in nearest if other.kind is Kind.MAIN), clause)


def _discouraged(answer: bool, text: str) -> bool:
    """Turn an entry of a list of mistakes around, unless it is phrased as a prohibition."""
    if answer:
        return False
    return bool(re.match(r"(?:not \w+ing|forget|fail|leaving|skipping|ignoring|no \w+ing)", text))


def tells_story(text: str) -> bool:
    """Tell whether a sentence tells what somebody did."""
    past = _PAST.search(VISITED.sub("", text))  # "was already searched" is no story
    return bool(past or _NARRATIVE.search(text))


def is_foreign(block: str) -> bool:
    """Tell whether a block of text is about another trade, or about nothing in particular."""
    text = spelled_out(block)
    ours, words = len(_HOUSEHOLD.findall(text)), len(text.split())
    return len(FOREIGN.findall(text)) > ours // 2 or (words >= _SHORT and ours * _DENSITY < words)
