"""Read PDDL problems of the household domain, and turn their identifiers into names.

Source: the problem files of ALFWorld (alfworld/alfworld), derived from ALFRED's scenes.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, Union

from skillwright.core import DataError, did_you_mean
from skillwright.worlds.alfworld.problem import (
    AGENT,
    ARITY,
    PREDICATES,
    Goal,
    Problem,
    Receptacle,
    Thing,
    describe_goal,
)

# A small, fast reader of s-expressions with positions.


_COMMENT = re.compile(r";[^\n]*")
_TOKEN = re.compile(r"[()]|[^\s()]+")
_DEEPEST = 100  # real problems have a dozen levels; the parser recurses at each

Expression = Union[str, "Form"]


class Form(list[Expression]):
    """A parenthesized list of lower-case words and forms.

    Attributes:
        at: Index of its opening parenthesis among the tokens of the text. In a form of words only,
            child ``i`` is token ``at + 1 + i``.
    """

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at


class Misread(Exception):
    """A wrong token; the caller, which knows the file, turns it into a `DataError`."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message, at)
        self.message = message
        self.at = at


def read(text: str) -> Form:
    """Read the single form of a text; ``;`` comments are skipped."""
    root = form = Form(-1)
    open_forms: list[Form] = []
    for at, token in enumerate(_tokens(text)):
        if token == "(":
            open_forms.append(form)
            form = Form(at)
            open_forms[-1].append(form)
            if len(open_forms) > _DEEPEST:
                raise Misread(f"parentheses are nested more than {_DEEPEST} deep", at)
        elif token != ")":
            form.append(token)
        elif open_forms:
            form = open_forms.pop()
        else:
            raise Misread("this ')' closes nothing", at)
    if open_forms:
        raise Misread("this '(' is never closed", form.at)
    if len(root) != 1 or not isinstance(root[0], Form):
        raise Misread("expected one parenthesized definition and nothing else", 0)
    return root[0]


def typed_names(words: Form, kinds: Collection[str], start: int = 0) -> Iterator[tuple[str, str]]:
    """Read a PDDL list of typed names: ``one two - kind three - kind``."""
    waiting: list[str] = []
    for index in range(start, len(words)):
        word, at = words[index], words.at + 1 + index
        if isinstance(word, Form):
            raise Misread("expected a name and its kind, not another list", word.at)
        if words[index - 1] == "-" and index > start:
            if word not in kinds:
                raise Misread(f"there is no kind {word!r}. {did_you_mean(word, kinds)}", at)
            yield from ((name, word) for name in waiting)
            waiting = []
        elif word != "-":
            waiting.append(word)
    if waiting:
        raise Misread(f"{waiting[0]!r} has no kind; write '{waiting[0]} - object'", words.at)


def _tokens(text: str) -> list[str]:
    # The same tokens as _TOKEN finds, five times faster.
    return _without_comments(text).lower().replace("(", " ( ").replace(")", " ) ").split()


def position(text: str, at: int) -> tuple[int, int]:
    """Return the line and column of a token, both from 1; the end of the text if there is none."""
    token = next(islice(_TOKEN.finditer(_without_comments(text)), max(at, 0), None), None)
    start = len(text) if token is None else token.start()
    return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)


def _without_comments(text: str) -> str:
    """Replace comments by blanks, so that positions stay."""
    return _COMMENT.sub(lambda found: " " * len(found.group()), text) if ";" in text else text


_GOAL_KINDS: Final = ("agent", "location", "receptacle", "object")  # kinds of variables
_KINDS: Final = (*_GOAL_KINDS, "rtype", "otype")

_TRAITS: Final = {
    **{
        trait: trait
        for trait in ("pickupable", "cleanable", "heatable", "coolable", "sliceable", "toggleable")
    },
    "isreceptacleobject": "receptacle",
}
_STATES: Final = {f"is{state}": state for state in ("clean", "hot", "cool", "sliced", "toggled")}

# Predicate -> kinds of its arguments.
_SIGNATURES: Final[Mapping[str, tuple[str, ...]]] = {
    **{name.lower(): kinds for name, kinds in PREDICATES.items()},
    "inreceptacleobject": ("object", "object"),
    "isreceptacleobject": ("object",),
    "cancontain": ("rtype", "otype"),
}
# Facts without effect in a game, or that follow from others.
_IGNORED: Final = frozenset(
    {"=", "distance", "wasinreceptacle", "checked", "examined", "ison", "full", "moveable"}
    | {"isreceptacleobjectfull", "holdsany", "holdsanyreceptacleobject"}
)
_BAR: Final = "_bar_"


def read_problem(
    pddl_text: str,
    goal_text: str,
    *,
    dialect: str = "0.4",
    walkthrough: tuple[str, ...] = (),
    source: str = "PDDL problem",
) -> Problem:
    """Read a PDDL problem of the household domain.

    Args:
        pddl_text: The ``(define (problem ...) ...)`` form.
        goal_text: The task sentence without its final period.
        dialect: ``"0.4"`` or ``"2.1.1"``.
        walkthrough: A list of commands that solves it, if known.
        source: Name of the text in errors.

    Raises:
        DataError: The text is malformed or contradictory; the message gives line and column.
    """
    try:
        reader = _Reader(read(pddl_text))
        goal = reader.goal()
        task_type, params = describe_goal(goal)
        return Problem(
            receptacles=reader.receptacles(),
            things=reader.things(),
            start=reader.start(),
            can_contain=reader.can_contain(),
            goal=goal,
            goal_text=goal_text,
            held=reader.held(),
            dialect=dialect,
            task_type=task_type,
            walkthrough=walkthrough,
            params=params,
        )
    except Misread as error:
        line, column = position(pddl_text, error.at)
        raise DataError(f"{source}, line {line} column {column}: {error.message}") from error


def surface_names(identifiers: Iterable[str]) -> dict[str, str]:
    """Name identifiers as observations do: ``apple_bar_02`` becomes ``apple 1``.

    The class is the part before the first ``_bar_``, with ``basin`` added if the identifier
    mentions one. Within a class the numbers fall in the order of the identifiers. An identifier
    without ``_bar_`` is its own name.
    """
    ordered = sorted(set(identifiers))
    classes = {name: _surface_class(name) for name in ordered if _BAR in name}
    left = Counter(classes.values())
    names = {}
    for name in ordered:
        if name not in classes:
            names[name] = name
            continue
        names[name] = f"{classes[name]} {left[classes[name]]}"
        left[classes[name]] -= 1
    return names


def _surface_class(identifier: str) -> str:
    return identifier.partition(_BAR)[0] + ("basin" if "basin" in identifier else "")


def _class(type_name: str) -> str:
    return type_name.removesuffix("type")


class _Reader:
    """Reads the parts of one problem."""

    def __init__(self, form: Form) -> None:
        self._sections = {str(part[0]): part for part in form if isinstance(part, Form) and part}
        objects = self._section(":objects")
        self._declared = set(typed_names(objects, _KINDS, start=1))
        # predicate -> first argument -> second argument ("" if there is none) -> token
        self._facts: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
        self._mentioned: set[str] = set()
        self._read_facts(self._section(":init"))
        # An object without facts is declared but absent: it takes no number of its class.
        self._names = {name: name for name, _ in self._declared}
        self._names |= surface_names(self._names.keys() & self._mentioned)

    def _section(self, name: str) -> Form:
        if name not in self._sections:
            raise Misread(f"the problem has no ({name} ...) section", 0)
        return self._sections[name]

    def _read_facts(self, section: Form) -> None:
        for fact in section[1:]:
            if not isinstance(fact, Form) or not fact:
                raise Misread(
                    "expected a fact such as (openable x)", getattr(fact, "at", section.at)
                )
            predicate = str(fact[0])
            words = [word for word in fact if isinstance(word, str)]
            self._mentioned.update(words[1:])
            if predicate in _IGNORED:
                continue
            kinds = _SIGNATURES.get(predicate)
            if (
                kinds is None
                or not len(words) == len(fact) == len(kinds) + 1
                or not self._declared.issuperset(zip(words[1:], kinds, strict=True))
            ):
                raise self._wrong(fact, words)
            self._facts[predicate].setdefault(words[1], {})[(*words, "")[2]] = fact.at

    def _wrong(self, fact: Form, words: list[str]) -> Misread:
        """Return the error in a fact."""
        predicate, *names = words or [""]
        if predicate not in _SIGNATURES:
            hint = did_you_mean(predicate, _SIGNATURES)
            return Misread(f"no game has facts about {predicate!r}. {hint}", fact.at + 1)
        kinds = _SIGNATURES[predicate]
        for index, pair in enumerate(zip(names, kinds, strict=False)):
            if pair not in self._declared:
                known = [name for name, kind in self._declared if kind == pair[1]]
                hint = did_you_mean(pair[0], known)
                message = f"{pair[0]!r} is not declared as {pair[1]}. {hint}"
                return Misread(message, fact.at + 2 + index)
        return Misread(f"write this fact as ({predicate} {' '.join(kinds)})", fact.at)

    def _only(self, predicate: str, name: str) -> str:
        """Return the only second argument of the facts about ``name``, or ``""``."""
        found = self._facts[predicate].get(name, {})
        if len(found) > 1:
            raise Misread(f"{name!r} has more than one {predicate!r}", list(found.values())[1])
        return next(iter(found), "")

    def _named(self, predicate: str, name: str) -> list[str]:
        """Return surface names of second arguments of facts about ``name``, in listing order."""
        return [self._names[found] for found in sorted(self._facts[predicate].get(name, ()))]

    def _declared_as(self, kind: str) -> list[str]:
        return sorted(name for name, of in self._declared if of == kind)

    def start(self) -> str:
        for agent in self._declared_as("agent"):
            location = self._only("atlocation", agent)
            if location:
                return self._names[location]
        raise Misread("no fact (atLocation agent location) says where the agent starts", 0)

    def held(self) -> str:
        for agent in self._declared_as("agent"):
            held = self._only("holds", agent)
            if held:
                return self._names[held]
        return ""

    def receptacles(self) -> tuple[Receptacle, ...]:
        return tuple(
            Receptacle(
                name=self._names[name],
                sort_key=name,
                rtype=_class(self._only("receptacletype", name)),
                location=self._names.get(self._only("receptacleatlocation", name), ""),
                openable=name in self._facts["openable"],
                opened=name in self._facts["opened"],
            )
            for name in self._declared_as("receptacle")
        )

    def things(self) -> tuple[Thing, ...]:
        inner: dict[str, list[str]] = defaultdict(list)
        for name in sorted(self._facts["inreceptacleobject"]):
            for outer in self._facts["inreceptacleobject"][name]:
                inner[outer].append(self._names[name])
        facts = self._facts
        return tuple(
            Thing(
                name=self._names[name],
                sort_key=name,
                otype=_class(self._only("objecttype", name)),
                receptacles=tuple(self._named("inreceptacle", name)),
                locations=frozenset(self._named("objectatlocation", name)),
                inner=tuple(inner[name]),
                traits=frozenset(word for fact, word in _TRAITS.items() if name in facts[fact]),
                states=frozenset(word for fact, word in _STATES.items() if name in facts[fact]),
            )
            for name in self._declared_as("object")
        )

    def can_contain(self) -> dict[str, frozenset[str]]:
        return {
            _class(rtype): frozenset(_class(otype) for otype in otypes)
            for rtype, otypes in self._facts["cancontain"].items()
        }

    def goal(self) -> Goal:
        section = self._section(":goal")
        if len(section) != 2:
            raise Misread("(:goal ...) must hold one expression", section.at)
        agents = dict.fromkeys(self._declared_as("agent"), AGENT)
        types = {
            name: _class(name) for kind in ("rtype", "otype") for name in self._declared_as(kind)
        }
        return parse_goal(section[1], {**self._names, **agents, **types})


def parse_goal(form: Expression, names: Mapping[str, str]) -> Goal:
    """Read the goal of a PDDL problem."""
    if not isinstance(form, Form) or not form or isinstance(form[0], Form):
        raise Misread("expected a goal such as (and ...)", getattr(form, "at", 0))
    match list(form):
        case ["and", *parts]:
            return ("and", *(parse_goal(part, names) for part in parts))
        case ["not", part]:
            return ("not", parse_goal(part, names))
        case ["exists", Form() as variables, body]:
            introduced = tuple(typed_names(variables, _GOAL_KINDS))
            inner = {**names, **{variable: variable for variable, _ in introduced}}
            return ("exists", introduced, parse_goal(body, inner))
        case ["=", _, _]:
            return ("=", *_terms(form, names))
        case _:
            return ("atom", form[0], *_terms(form, names))


def _terms(form: Form, names: Mapping[str, str]) -> Iterator[str]:
    predicate, *terms = form
    wanted = {**ARITY, "=": 2}.get(str(predicate))
    if wanted is None:
        hint = did_you_mean(str(predicate), [*ARITY, "and", "not", "exists"])
        raise Misread(f"a goal cannot be about {predicate!r}. {hint}", form.at + 1)
    if len(terms) != wanted:
        raise Misread(f"{predicate!r} needs {wanted} names in a goal, not {len(terms)}", form.at)
    for at, term in enumerate(terms, form.at + 2):
        if isinstance(term, Form):
            raise Misread(f"{predicate!r} needs names, not another list", term.at)
        if term not in names:
            hint = did_you_mean(term, names)
            raise Misread(f"the goal mentions {term!r}, which nothing introduces. {hint}", at)
        yield names[term]
