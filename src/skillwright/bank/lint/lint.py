"""Check what a skill contains: it goes into the prompts of every later task.

Lint is one of three defenses: environment text is fenced before a teacher reads it, and a gate
compares episodes with and without the skill. Forms that a client would run or cannot read are found
reliably; bad advice in new words, or a brand name from a product page, can pass every pattern.

The rules are in `rules.toml`: `FORM` is what a client follows, runs, expands or cannot read, and
`CONDUCT` what a skill must not ask for. Patterns match text in compatibility form (NFKC), without
hidden characters, on one line and in lower case, so that other alphabets, widths and invisible
letters do not hide a word.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import Any

from skillwright.bank.bank import BankError
from skillwright.core import BankSkill, SkillKind
from skillwright.core.fence import hidden_at, hidden_character, is_hidden, one_line


class Severity(StrEnum):
    """The effect of a finding."""

    BLOCKS = "blocks"
    """The skill cannot become active."""
    WARNS = "warns"
    """A person should look at it."""


class Negation(StrEnum):
    """The negation that reverses the meaning of a match."""

    NONE = "none"
    JUST_BEFORE = "just_before"
    """``Never skip ...``: the words right before it."""
    OF_THE_CLAUSE = "of_the_clause"
    """``Never cancel anything without confirmation``: the first word of its clause."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Patterns that a skill must not contain.

    Attributes:
        name: Its name in findings.
        why: The risk.
        fix: What the author should do.
        negation: The negation that makes a match harmless.
        only_advice: Search the advice to the agent only, not the description of the failure.
        sees_disguises: Also read digits as letters (``1gn0re``), and words joined by hyphens or
            underscores as separate words.
    """

    name: str
    patterns: tuple[re.Pattern[str], ...]
    why: str
    fix: str
    severity: Severity = Severity.BLOCKS
    negation: Negation = Negation.NONE
    only_advice: bool = False
    sees_disguises: bool = False


def _rule(fields: dict[str, Any], words: Mapping[str, str]) -> Rule:
    patterns = map(_joined, fields.pop("patterns"))
    return Rule(
        patterns=tuple(
            re.compile(re.sub("<([A-Z]+)>", lambda found: words[found[1]], one)) for one in patterns
        ),
        severity=Severity(fields.pop("severity", Severity.BLOCKS)),
        negation=Negation(fields.pop("negation", Negation.NONE)),
        **fields,
    )


def _joined(text: str) -> str:
    return "".join(line.lstrip() for line in text.splitlines()) if "\n" in text else text


def _read() -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    file = resources.files("skillwright.bank.lint") / "rules.toml"
    read = tomllib.loads(file.read_text(encoding="utf-8"))
    words = {name: _joined(text) for name, text in read["words"].items()}
    form, conduct = (tuple(_rule(one, words) for one in read[key]) for key in ("form", "conduct"))
    return form, conduct


FORM, CONDUCT = _read()


LONGEST = {
    "name": 60,
    "principle": 500,
    "applicability": 300,
    "failure_point": 300,
    "flawed_reasoning": 300,
    "corrective_action": 300,
    "category": 64,
    "scope": 64,
    "details": 6_000,
}
"""Most characters of each field; a longer field blocks."""

MOST_NAME_WORDS = 8
COPIED_WORDS = 12
"""A run of this many words that is also in a source counts as copied."""

_ADVICE = ("name", "principle", "applicability", "corrective_action", "details")
_PARTS = ("failure_point", "flawed_reasoning", "corrective_action")
LIVE = re.compile(r"\$(?:ARGUMENTS|\d|\{)|!\s*`|^\s*```\s*!|(?<!\w)@\S", re.MULTILINE)
"""Text that a client of Agent Skills expands or runs."""
LIVE_RULE = "live"
_SPAN = 80
_SEARCHED = 5_000

_WORD = re.compile(r"\w+")
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{24,}")
_LABEL = re.compile(r"[\w][\w .#/-]*")
_NEGATED = re.compile(
    r"(?:\bnever|\b(?:do|does|did|must|should|may|can|will) ?not|\w+n't|\bcannot|\bnot to)"
    r"\s+(?:\w+ly\s+|ever\s+|try to\s+)?$"
)
_NEGATED_CLAUSE = re.compile(
    r"^\W*(?:and\s+|but\s+)?(?:you\s+)?(?:never|do not|don't|must not|cannot|can't|no)\s+"
    r"(?!wait|hesitate|worry|bother|ask|delay|need|forget|fail|stop)"
)
_CLAUSE_END = re.compile(r"[.;:!?]")
_DIGITS_AS_LETTERS = tuple(str.maketrans("0134578@$", f"o{one}eastbas") for one in "il")
_JOINED = re.compile(r"(?<=[^\W\d_])[_-](?=[^\W\d_])")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation of a rule.

    Attributes:
        rule: Name of the rule.
        span: The matching words, with hidden characters escaped.
        why: The risk.
        fix: What the author should do.
        field: The field of the skill.
    """

    rule: str
    severity: Severity
    span: str
    why: str
    fix: str
    field: str = ""

    @property
    def blocks(self) -> bool:
        """Whether the skill cannot become active."""
        return self.severity == Severity.BLOCKS

    def __str__(self) -> str:
        """Format as one line."""
        return f"lint {self.rule} in {self.field}: {self.span!r}. {self.why} {self.fix}"


@dataclass(frozen=True, slots=True)
class Sources:
    """Texts of other authors, indexed once for many skills.

    Attributes:
        words: The words of every text, a text per line.
    """

    words: str

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Sources":
        """Index texts."""
        return cls("\n".join(map(_words, texts)))


def lint(skill: BankSkill, sources: Sources | Iterable[str] = ()) -> tuple[Finding, ...]:
    """Find violations in a skill.

    Args:
        skill: The skill to check.
        sources: Texts of other authors (observations, user and tool messages); a long run of their
            words in the skill is a finding. Index them once with `Sources.of` for many skills.

    Returns:
        Findings in the order of the fields.
    """
    fields = _fields(skill)
    known = sources if isinstance(sources, Sources) else Sources.of(sources)
    findings: list[Finding] = []
    for field, text in fields.items():
        findings += _lengths(skill, field, text)
        if field == "details":
            findings += _details(text)
            continue
        text = text[:_SEARCHED]  # what is longer cannot become active anyway
        findings += _characters(field, text)
        findings += _blobs(field, text)
        seen = _normal(text)
        for rule in (*FORM, *CONDUCT):
            if field in _ADVICE or not rule.only_advice:
                findings += _matches(rule, field, seen)
        findings += _copies(field, text, known)
    return tuple(findings)


def _details(text: str) -> Iterator[Finding]:
    """Find what details may not hold; their code and tables are what a person imported."""
    if hidden := {text[at] for at in hidden_at(text)}:
        yield _hidden("details", text, hidden)
    seen = _normal(text)
    for rule in (*(one for one in FORM if one.name == "credential"), *CONDUCT):
        yield from _matches(rule, "details", seen)
    if live := LIVE.search(text):
        why, fix = "A client expands or runs it.", "It is not exported to Agent Skills."
        yield _finding(LIVE_RULE, "details", live[0], why, fix, Severity.WARNS)


def is_clean(skill: BankSkill, sources: Sources | Iterable[str] = ()) -> bool:
    """Return whether lint lets a skill become active."""
    return not any(finding.blocks for finding in lint(skill, sources))


def refuse_unsafe(skills: Iterable[BankSkill], where: str) -> None:
    """Refuse skills that lint blocks.

    Args:
        skills: Skills that will be injected.
        where: Name of the bank in the message.

    Raises:
        BankError: Lint blocks one of them; the message says why.
    """
    for skill in skills:
        for finding in lint(skill):
            if finding.blocks:
                raise BankError(
                    f"{where}: skill {skill.id!r} cannot become active: {finding} "
                    "Mend it, or bring the bank in with an import, which leaves it pending."
                )


def _fields(skill: BankSkill) -> dict[str, str]:
    fields = {
        "name": skill.name,
        "principle": skill.principle,
        "applicability": skill.applicability,
        "category": skill.category,
        "scope": skill.scope,
    }
    if skill.counterfactual is not None:
        fields |= {part: getattr(skill.counterfactual, part) for part in _PARTS}
    if skill.details:
        fields["details"] = skill.details
    return fields


def _normal(text: str) -> str:
    """Return the text as patterns see it."""
    # Inputs may be whole trajectories, so only their distinct characters are checked.
    hidden = {ord(one): None for one in set(text) - {"\r"} if is_hidden(one)}
    shown = text.translate(hidden)
    return " ".join(unicodedata.normalize("NFKC", shown).casefold().replace("\u2019", "'").split())


def _matches(rule: Rule, field: str, text: str) -> Iterator[Finding]:
    texts = [text]
    if rule.sees_disguises and not text.isalpha():
        texts += [text.translate(letters) for letters in _DIGITS_AS_LETTERS]
        texts.append(_JOINED.sub(" ", text))
    for seen in dict.fromkeys(texts):
        for pattern in rule.patterns:
            for found in pattern.finditer(seen):
                if not _is_negated(rule.negation, seen[: found.start()]):
                    yield _finding(
                        rule.name, field, found.group(), rule.why, rule.fix, rule.severity
                    )
                    return


def _is_negated(negation: Negation, before: str) -> bool:
    match negation:
        case Negation.NONE:
            return False
        case Negation.JUST_BEFORE:
            return _NEGATED.search(before) is not None
        case Negation.OF_THE_CLAUSE:
            clause = _CLAUSE_END.split(before)[-1]
            return bool(_NEGATED_CLAUSE.search(clause) or _NEGATED.search(before))


def _characters(field: str, text: str) -> Iterator[Finding]:
    if hidden := {text[at] for at in hidden_at(text)}:
        yield _hidden(field, text, hidden)
    if "\n" in text or "\t" in text:
        yield _finding(
            "line_break",
            field,
            text,
            "A second line can look like another skill or a heading.",
            "Write it on one line.",
        )
    mixed = [word for word in _WORD.findall(text) if len(_scripts(word)) > 1]
    if mixed:
        yield _finding(
            "mixed_alphabets",
            field,
            mixed[0],
            "Letters of another alphabet look the same and hide a word.",
            "Write each word in one alphabet.",
        )


def _hidden(field: str, text: str, hidden: Iterable[str]) -> Finding:
    return _finding(
        "hidden_characters",
        field,
        "".join(sorted(hidden)),
        "A reader does not see it, and a model does.",
        f"Take it out: {hidden_character(text)}.",
    )


def _scripts(word: str) -> set[str]:
    if word.isascii():
        return set()
    names = (unicodedata.name(one, "").split(" ")[0] for one in word)
    return {name for name in names if name in _SCRIPTS}


def _lengths(skill: BankSkill, field: str, text: str) -> Iterator[Finding]:
    long = "Long skills cost tokens in every prompt, and hide things."
    if len(text) > LONGEST[field]:
        fix = f"Say it in at most {LONGEST[field]} characters; this has {len(text)}."
        yield _finding("too_long", field, text, long, fix)
    if field == "name" and len(text.split()) > MOST_NAME_WORDS:
        fix = f"Say it in one to five words; {MOST_NAME_WORDS} is the limit."
        yield _finding("too_long", field, text, long, fix)
    if field in ("category", "scope"):
        if text and not _LABEL.fullmatch(text):
            fix = "Use letters, digits, spaces and . # / - only."
            yield _finding("bad_label", field, text, "It is a heading of the prompt.", fix)
    elif not text.strip() and (field != "applicability" or skill.kind == SkillKind.TASK_SPECIFIC):
        severity = Severity.WARNS if field == "applicability" else Severity.BLOCKS
        why = "A skill without it does not say what to do and when."
        yield _finding("empty", field, text, why, "Fill it in.", severity)


def _blobs(field: str, text: str) -> Iterator[Finding]:
    """Find encoded text; separate from the rules, because patterns do not see upper case."""
    for found in _BLOB.finditer(text):
        blob = found.group()
        upper, lower, digit = (
            any(map(kind, blob)) for kind in (str.isupper, str.islower, str.isdigit)
        )
        # Tool names are long too, but consist of lowercase letters, digits and underscores.
        if upper and (digit or (lower and len(blob) >= 40)):
            why, fix = "It can carry anything past a reader.", "Say it in plain words."
            yield _finding("encoded", field, blob, why, fix)
            return


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(_normal(text)))} "


def _copies(field: str, text: str, sources: Sources) -> Iterator[Finding]:
    if not sources.words:
        return
    words = _words(text).split()
    for start in range(len(words) - COPIED_WORDS + 1):
        run = " ".join(words[start : start + COPIED_WORDS])
        if f" {run} " in sources.words:
            yield _finding(
                "copied",
                field,
                run,
                "What an environment, a tool or a user said is no advice of ours.",
                "Say in your own words what to do.",
            )
            return


def _finding(
    rule: str, field: str, span: str, why: str, fix: str, severity: Severity = Severity.BLOCKS
) -> Finding:
    return Finding(rule, severity, one_line(span, _SPAN) or repr(span), why, fix, field)
