"""Recognize the rules in a skill, with one function per rule."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Final, NamedTuple

from skillwright.worlds.scripted.skilltext import words as lex
from skillwright.worlds.scripted.skilltext.rules import Conduct, Rule, Stance
from skillwright.worlds.scripted.skilltext.sentences import (
    Clause,
    Kind,
    Statement,
    blocks,
    is_foreign,
    sentences,
)
from skillwright.worlds.scripted.skilltext.words import FEW, concept, union

# One function per rule tells whether a statement asks for it (True), forbids it (False), or neither
# (None). It looks for the concepts of its rule anywhere in the sentence, not for whole phrases, and
# for the polarity of the clause with the action.


Answer = bool | None


def search_once(said: Statement) -> Answer:
    """Search systematically, each place once; or: go back to places already searched."""
    if said.says(lex.SECOND):
        return None
    going_back = said.asks(lex.REVISIT)
    if said.says(lex.ORIGIN):
        going_back = None
    if going_back is False and not said.says(lex.DESTINATION):
        return True
    if going_back and said.says(lex.VISITED):
        return False
    if _is_examining(said) and not said.says(lex.ONCE):
        return None
    if said.says(lex.VISITED) and not said.says(lex.CLOSED):
        passed = said.asks(lex.SKIP)
        if passed is not None:
            return passed
    return _systematic(said)


def _systematic(said: Statement) -> Answer:
    for mark in (lex.ONCE, lex.ORDERLY, lex.UNVISITED):
        if mark is lex.UNVISITED and said.says(lex.CLOSED):
            continue  # "not searched until it is opened"
        if mark is lex.ORDERLY and said.says(lex.TWO):
            continue  # "bring the two one by one"
        if said.says(mark) and (said.says(lex.SPOT) or said.says(lex.SEARCH)):
            searching = said.asks(lex.SEARCH)
            return said.asks(mark) if searching is None else searching
    other = (lex.CLOSED, lex.OPEN, lex.OFTEN, lex.LIKELY)
    if said.says(lex.EVERY, lex.SPOT) and not any(map(said.says, other)):
        return said.asks(lex.SEARCH)
    return None


def likely_first(said: Statement) -> Answer:
    """Look first where such an object is usually kept."""
    about = (lex.SPOT, lex.OBJECT, concept("search~"))
    if not said.says(lex.LIKELY) or not any(map(said.says, about)):
        return None
    searching = said.asks(lex.SEARCH)
    return said.asks(lex.FIRST) if searching is None else searching


def few_places(said: Statement) -> Answer:
    """Search the first few places only."""
    if not said.says(lex.FEW, lex.STOP) or said.says(lex.LIKELY):
        return None
    if said.says(lex.ONCE) or said.says(lex.EVERY) or said.says(lex.SECOND):
        return None
    if said.asks(concept("more than / beyond / further than")) is False:
        return True
    return said.asks(lex.STOP)


_GOING_BACK = union(lex.REVISIT, concept("go (?:all the way )?to / walk~ to / back (?:to|at)"))


def return_to_start(said: Statement) -> Answer:
    """Go back to where the search began."""
    if not said.says(lex.ORIGIN):
        return None
    return said.asks(_GOING_BACK)


_TEMPERING = union(lex.HEAT, lex.COOL)
_TEMPERED_IN = union(lex.MICROWAVE, lex.FRIDGE)
_CLOSABLE = union(lex.CLOSED, lex.CONTAINER, lex.EVERY, concept("things? / stuff"))


def open_closed(said: Statement) -> Answer:
    """Open closed receptacles to look inside; or leave them shut."""
    answer: Answer = None
    for clause, near in _near(said, union(lex.OPEN, lex.LOOK_INSIDE)):
        if _is_about_placing(near) and not lex.LOOK_INSIDE.search(near):
            continue
        if not _CLOSABLE.search(near):
            continue
        verdict = said.asks(union(lex.OPEN, lex.LOOK_INSIDE), [clause])
        if verdict is False and (lex.AGAIN.search(near) or lex.VISITED.search(near)):
            continue
        if _is_treating(near):
            continue
        answer = verdict if verdict is not None else answer
    return _passing_by_closed(said) if answer is None else answer


def _passing_by_closed(said: Statement) -> Answer:
    for clause, near in _near(said, lex.SKIP):
        if lex.CLOSED.search(near) and not lex.OPEN.search(near) and not _is_about_placing(near):
            passed = said.asks(lex.SKIP, [clause])
            return None if passed is None else not passed
    return None


def open_to_place(said: Statement) -> Answer:
    """Open the destination before placing."""
    answer: Answer = None
    for clause, near in _near(said, lex.OPEN):
        if not _is_about_placing(near) or lex.LOOK_INSIDE.search(near):
            continue
        verdict = said.asks(lex.OPEN, [clause])
        if verdict is False and lex.AGAIN.search(near):
            continue
        answer = verdict if verdict is not None else answer
    return answer


def _is_about_placing(near: str) -> bool:
    return bool(lex.DESTINATION.search(near) or lex.PUT.search(near))


def _is_treating(near: str) -> bool:
    """Tell whether a text is about an appliance in use, whose door need not be open."""
    return bool(_TEMPERING.search(near) and _TEMPERED_IN.search(near))


def _near(said: Statement, head: re.Pattern[str]) -> Iterator[tuple[Clause, str]]:
    """Yield the clauses with an action, each with the words that identify its object.

    These are the clause, the subordinate clauses next to it, and for "it" or "them" the clause or
    sentence before it.
    """
    for at, clause in enumerate(said.clauses):
        if not head.search(clause.text):
            continue
        parts = [clause.text]
        beside = [*said.clauses[max(at - 1, 0) : at], *said.clauses[at + 1 : at + 2]]
        parts += [other.text for other in beside if other.kind is not Kind.MAIN]
        if lex.PRONOUN.search(clause.text) or not lex.GOODS.search(clause.text):
            parts += _antecedents(said, at)
        yield clause, " | ".join(parts)


def _antecedents(said: Statement, at: int) -> list[str]:
    """Return the clauses that "it" may refer to: those before, up to one that names a thing."""
    found: list[str] = []
    for text in [*(clause.text for clause in reversed(said.clauses[:at])), said.sentence.before]:
        found.append(text)
        if lex.CONTAINER.search(text) or lex.GOODS.search(text):
            break
    return found


def take_on_sight(said: Statement) -> Answer:
    """Take the wanted object when it is seen; or leave it."""
    if said.says(lex.SECOND) or said.says(lex.LAMP) or not said.says(lex.OBJECT):
        return None
    if said.says(lex.TAKE) and (lex.SEEN.search(said.context) or said.says(lex.AT_ONCE)):
        taking = said.asks(lex.TAKE)
        if taking is not None:
            return taking
    if not said.says(lex.GOODS) or any(map(said.says, (lex.CLOSED, lex.VISITED, lex.IRRELEVANT))):
        return None
    left = said.asks(lex.LEAVE)
    if left and not said.says(lex.SEEN):
        return None  # "ignore things" is not about the wanted one
    return None if left is None else not left


class _Treatment(NamedTuple):
    doing: re.Pattern[str]
    idea: re.Pattern[str]
    appliance: re.Pattern[str]
    undone: re.Pattern[str]


_HEATING = _Treatment(lex.HEATING, lex.HEAT, lex.MICROWAVE, lex.UNHEATED)
_COOLING = _Treatment(lex.COOLING, lex.COOL, lex.FRIDGE, lex.UNCOOLED)
_CLEANING = _Treatment(lex.CLEANING, lex.CLEAN, lex.SINK, lex.UNCLEANED)


_ANY_TREATMENT = union(lex.HEAT, lex.COOL, lex.CLEAN, lex.MICROWAVE, lex.FRIDGE, lex.SINK)
_AS_IT_IS = concept("""
    (?:straight|right|directly) (?:down|in|into|onto|on|at) / as (?:it )?is / in its current state
    whatever (?:it|the task|the goal)(?: says| asks| wants)? / regardless / no detours?
    without (?:any )?(?:detours?|stops?|further|treatment|preparation|other stops?)
    no matter what / even (?:if|when) the task / unconditionally
""")


def _treats(how: _Treatment, said: Statement) -> Answer:
    """Treat the object before placing it."""
    if _only_where_asked(said):
        return None
    answer = _names_treatment(said, how)
    if answer is None and not said.says(_ANY_TREATMENT):
        answer = _treats_in_general(said)
    return answer


def _names_treatment(said: Statement, how: _Treatment) -> Answer:
    if said.says(lex.PUT, how.undone) and not said.says(how.appliance):
        undelivered = said.asks(how.undone)  # "do not deliver it unwashed"
        return None if undelivered is None else not undelivered
    answer = said.asks(union(how.idea, how.appliance))
    if answer and said.says(how.appliance) and how.idea.search(said.sentence.before):
        return True
    if answer is False:
        return _forbids_treatment(said, how)
    if not said.says(how.idea):
        return None  # "look into the microwave" asks for no heat
    if answer is None and said.says(how.appliance):
        return _presupposed(said, union(how.idea, how.appliance))
    is_ours = any(map(said.says, (how.appliance, lex.PUT, lex.DESTINATION)))
    return answer if is_ours else None


def _forbids_treatment(said: Statement, how: _Treatment) -> Answer:
    if said.asks(how.doing) is False:
        ours = (how.appliance, lex.PUT, lex.DESTINATION)
        return False if any(map(said.says, ours)) or _is_sweeping(said) else None
    # "Skip the microwave" forbids heating; "do not look into the microwave" does not.
    is_search = any(map(said.says, (lex.OPEN, lex.SEARCH, lex.CLOSED)))
    return False if said.asks(how.appliance) is False and not is_search else None


def _is_sweeping(said: Statement) -> bool:
    """E.g. "Never clean anything", "skip heating and cooling", "washing is unnecessary"."""
    several = sum(said.says(verb) for verb in (lex.HEAT, lex.COOL, lex.CLEAN)) > 1
    return several or said.says(lex.OBJECT) or said.says(lex.EVERY) or len(said.text.split()) < 6


def _presupposed(said: Statement, head: re.Pattern[str]) -> Answer:
    """E.g. "Deliver it after a turn in the microwave" asks for the turn, too."""
    for clause in said.clauses:
        if clause.lead in {"after", "once", "having"} and head.search(clause.text):
            return True
    return None


def _treats_in_general(said: Statement) -> Answer:
    """Answer for all treatments at once: "prepare it before placing", "put it straight down"."""
    is_placing = said.says(lex.PUT) or said.says(lex.DESTINATION)
    if is_placing and said.says(lex.UNPREPARED):
        undelivered = said.asks(lex.UNPREPARED)
        return None if undelivered is None else not undelivered
    if said.says(lex.PREPARE) and is_placing:
        return said.asks(lex.PREPARE)
    if said.says(lex.TWO):
        return None
    if said.says(_AS_IT_IS) and said.says(lex.OBJECT) and not said.says(concept("ready|heated")):
        placing = said.asks(lex.PUT)
        return None if placing is None else not placing
    return None


def _only_where_asked(said: Statement) -> bool:
    """E.g. "Do not heat unless the task asks for it" takes nothing back."""
    if said.says(lex.PLAIN_TASK):
        return True
    return any(
        clause.lead in {"unless", "if", "when", "where"}
        and lex.ASKED.search(clause.text)
        and (clause.lead == "unless" or re.search(r"\bnot?\b", clause.text))
        for clause in said.clauses
    )


def use_lamp(said: Statement) -> Answer:
    """Carry the object to the lamp and switch it on."""
    if not said.says(lex.LAMP):
        return None
    for doing in (lex.SWITCH_ON, lex.CARRY):
        answer = said.asks(doing)
        if answer is not None:
            return answer
    return False if said.asks(lex.LAMP) is False else None


_ENOUGH = concept("""
    stop~ / finish~ / enough / suffices / only / just / done / will do / sufficient / plenty / alone
""")


def fetch_second(said: Statement) -> Answer:
    """Bring one object, then the second, to the same place; or stop after the first."""
    errand = (lex.PUT, lex.TAKE, lex.DESTINATION, lex.OBJECT, lex.SEARCH, lex.SPOT, lex.TWO)
    is_errand = any(idea.search(said.context) for idea in errand)
    if said.says(lex.SECOND) and is_errand:
        naming = [clause for clause in said.clauses if lex.SECOND.search(clause.text)]
        fetching = said.asks(lex.SECOND)
        return False if fetching and said.asks(lex.SKIP, naming) else fetching
    if said.says(lex.ENOUGH) and (said.says(lex.TWO) or said.says(lex.OBJECT)):
        enough = said.asks(_ENOUGH)
        return None if enough is None or said.says(lex.SPOT) else not enough
    if said.says(lex.TWO) and is_errand and not said.says(lex.TOGETHER):
        return said.asks(
            concept("repeat~ / again / one (?:by one|at a time) / twice / each / then")
        )
    return None


_CHECKING = concept("""
    check~ / use / run / type / look~ / review~ / verify~ / consult~ / issue / call / confirm~ / do
    ask~ / inventory / inspect~ / examine~ / list~
""")


def check_inventory(said: Statement) -> Answer:
    """Check the inventory after every move."""
    if not said.says(lex.HANDS, lex.OFTEN):
        return None
    return said.asks(_CHECKING)


def examine_all(said: Statement) -> Answer:
    """Examine everything before doing anything else."""
    if not _is_examining(said) or said.says(lex.ONCE):
        return None
    return said.asks(lex.EXAMINE)


def _is_examining(said: Statement) -> bool:
    everything = said.says(lex.EVERY) or said.says(lex.OFTEN)
    about = said.says(lex.SPOT) or said.says(lex.OBJECT) or said.says(lex.EVERY)
    other = said.says(lex.LAMP) or said.says(lex.CLOSED) or said.says(lex.LOOK_INSIDE)
    return said.says(lex.EXAMINE) and everything and about and not other


def look_around(said: Statement) -> Answer:
    """Look around after every move."""
    return said.asks(lex.LOOK_AROUND) if said.says(lex.LOOK_AROUND, lex.OFTEN) else None


READERS: Final[tuple[tuple[Rule, Callable[[Statement], Answer]], ...]] = (
    (Rule.SEARCH_ONCE, search_once),
    (Rule.OPEN_CLOSED, open_closed),
    (Rule.TAKE_ON_SIGHT, take_on_sight),
    (Rule.CLEAN_FIRST, partial(_treats, _CLEANING)),
    (Rule.HEAT_FIRST, partial(_treats, _HEATING)),
    (Rule.COOL_FIRST, partial(_treats, _COOLING)),
    (Rule.USE_LAMP, use_lamp),
    (Rule.FETCH_SECOND, fetch_second),
    (Rule.OPEN_TO_PLACE, open_to_place),
    (Rule.LIKELY_FIRST, likely_first),
    (Rule.CHECK_INVENTORY, check_inventory),
    (Rule.EXAMINE_ALL, examine_all),
    (Rule.LOOK_AROUND, look_around),
    (Rule.RETURN_TO_START, return_to_start),
    (Rule.FEW_PLACES, few_places),
)


_NUMBERS: Final = {
    "two": 2, "couple": 2, "three": 3, "few": 3, "four": 4, "five": 5, "handful": 5, "six": 6,
}  # fmt: skip
_FEWEST = 2


@lru_cache(maxsize=512)
def read_stances(text: str) -> tuple[Stance, ...]:
    """Return the statements of a text about rules, in order."""
    found: list[Stance] = []
    for said in _advice(text):
        for rule, reader in READERS:
            wanted = reader(said)
            if wanted is not None:
                number = _number(said.text) if rule is Rule.FEW_PLACES else 0
                found.append(Stance(rule, wanted, said.sentence.source, number))
    return tuple(found)


def _advice(text: str) -> Iterator[Statement]:
    for block in blocks(text):
        foreign = is_foreign(block)
        for sentence in sentences(block):
            said = Statement(sentence)
            if said.is_advice and (said.is_about_tasks or not foreign):
                yield said


@lru_cache(maxsize=512)
def read_conduct(text: str) -> Conduct:
    """Return the rules that hold once the whole text is read.

    Precedence: a later sentence overrides an earlier one about the same rule.
    """
    return Conduct({stance.rule: stance for stance in read_stances(text)})


def _number(text: str) -> int:
    found = FEW.search(text)
    words = re.findall(r"[a-z]+|\d", found[0]) if found else []
    numbers = [int(word) if word.isdigit() else _NUMBERS.get(word, 0) for word in words]
    return max([_FEWEST, *numbers])
