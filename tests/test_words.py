"""Words that nobody outside this project would expect are not used; plain terms of the field are.

Identifiers are read word by word: ``told_change`` and ``ToldBank`` hold the word "told". What may
stay is in `ALLOWED`, each with its reason; an allowance that nothing needs any more fails too.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from typer.testing import CliRunner

from skillwright.cli.app import LazyCommand, app

ROOT = Path(__file__).resolve().parent.parent
READ = (
    ("src/skillwright", (".py", ".md", ".in", ".yaml", ".html", ".sql")),
    ("docs", (".py", ".md", ".svg")),
    ("examples", (".py", ".md", ".yaml")),
)
PAGES = ("README.md", "CONTRIBUTING.md", "AGENTS.md", "pyproject.toml")
DATED = ("docs/log.md",)  # findings of a day keep the words of that day


class Banned(NamedTuple):
    """A word, what is said instead, and the only files it is banned from (all, where unset).

    The pattern is matched in any case, between letters of no other word.
    """

    pattern: str
    instead: str
    where: str = "*"


class Allowed(NamedTuple):
    """Text that is passed over in the files of ``where``, and why."""

    pattern: str
    where: str
    reason: str


OURS = (
    Banned(r"minds?", "model, scripted model"),
    Banned(r"told", "injected, retrieved; without skills; reported, said, shown"),
    Banned(r"the house", "the layout, the project"),
    Banned(r"rooms?", "package", "docs/reference/*"),
    Banned(r"nouns? and|nouns? of the command", "type", "docs/*"),
    Banned(r"(?:the|an|one|each|every|sealed) acts?", "job, command"),
    Banned(r"data walks?", "data flow"),
    Banned(r"won", "success, solved"),
    Banned(r"famil(?:y|ies)", "task type"),
    Banned(r"look(?:s|ed|ing)?[ -]?backs?", "epoch update, slow update, meta skill"),
    Banned(r"practi[sc](?:e[sd]?|ing)", "train on, RL rollouts"),
    Banned(r"flat", "zero-variance groups", "*/jobs/weights/*"),
    Banned(r"flat", "zero-variance groups", "*/policy/*"),
    Banned(r"flat", "zero-variance groups", "docs/rl*"),
    Banned(r'"norm"|\| norm', "grad norm"),
    Banned(r'"clipped"|\| clipped', "clip fraction"),
    Banned(r"arms?", "ablations, conditions"),
    Banned(r"streams?", "seeds", "docs/*rl_study*"),
    Banned(r"luck(?:y)?", "randomness"),
    Banned(r"so[- ]many?(?:ie)?th|so often", "every n-th, number of"),
    Banned(r"(?:goes|go|going|gone|went) on", "resumes, continues"),
    Banned(r"(?:stands?|stood|standing) in", "is in"),
    Banned(r"stand ins?", "scripted model, placeholder"),
    Banned(r"comes? of it", "outcome"),
    Banned(r"fold(?:s|ed|ing)?", "is rebuilt from the event log"),
    Banned(r"unkillable", "crash safety"),
    Banned(r"arenas?", "session"),
    Banned(r"class Place|Place\(|: Place", "step reference"),
    Banned(r"standing", "incumbent", "*/jobs/*"),
    Banned(r"standing", "incumbent", "*/config/*"),
    Banned(r"class \w*Desk|Desk\(", "agent"),
    Banned(r"unwatched", "NullCallback"),
    Banned(r"see(?=\()", "on_event"),
    Banned(r"admit(?:s|ted|ting|tance)?|admissions?", "approve"),
    Banned(r"quarantin(?:e[sd]?|ing)", "pending"),
    Banned(r"(?:a|this|that|another) home's", "this household's, another household's"),
    Banned(r"(?:some|no|any)body|whoever", "no model, the caller, another program", "src/*"),
    Banned(r"so many", "the number", "src/*"),
    Banned(
        r"beside (?:the|an?|it|its|them|each|other|what)",
        "next to, besides, in addition to",
        "src/*",
    ),
    Banned(r"what [^.]{0,40} (?:comes?|came) to", "result, outcome", "src/*"),
)
_STEMS = (
    "apolog|author|categor|custom|emphas|equal|final|formal|general|initial|local|maxim|memor|minim|"
    "normal|organ|penal|prior|random|real|recogn|serial|special|stabil|standard|summar|synchron|"
    "token|util|visual"
)
BRITISH = (
    Banned(r"behaviours?", "behavior"),
    Banned(r"(?:hyper|un)?optimis\w*", "optimize"),
    Banned(r"artefacts?", "artifact"),
    Banned(r"colour\w*", "color"),
    Banned(r"distils?", "distill"),
    Banned(r"favour\w*|honour\w*|neighbour\w*|harbour\w*|flavour\w*|labour\w*", "-or"),
    Banned(r"centre[sd]?|theatres?|fibres?|metres?|litres?", "-er"),
    Banned(r"analys(?:e|ed|ing|er|ers)", "analyze"),
    Banned(rf"(?:re|de|un)?(?:{_STEMS})is(?:e[sd]?|ers?|ing|ations?)", "-ize"),
    Banned(r"licences?|defences?|offences?", "-se"),
    Banned(r"modell(?:ed|ing|er)|labell(?:ed|ing)|travell(?:ed|ing|er)|signall(?:ed|ing)", "one l"),
    Banned(r"judgements?|acknowledgements?", "judgment, acknowledgment"),
    Banned(r"grey\w*", "gray"),
    Banned(r"learnt|spelt|burnt|misspelt|whilst|amongst", "learned, spelled, while, among"),
    Banned(r"fulfils?|skilful|enrols?", "fulfill, skillful"),
)
ALLOWED = (
    Allowed(r"(?m).*# (?:seed|prompt text)$", "src/*", "measured results depend on it"),
    Allowed(r"(?i)nobody|beside|so many", "src/*/prompts/*", "prompts to models"),
    Allowed(
        r"anybody else|beside (?:it|a call)|over somebody who",
        "*/tau_bench/*",
        "prompts and built-in data",
    ),
    Allowed(r"which nobody can read", "*/placebo.md", "text for models"),
    Allowed(r"nobody complains of the price|text beside the call", "src/*", "scores depend on it"),
    Allowed(
        r"no one\|nobody|nothing\|nobody|someone\|somebody|somebody\|",
        "*/skilltext/*",
        "words it reads",
    ),
    Allowed(r"font-family", "docs/*", "an attribute of SVG"),
    Allowed(r"overflow=.fold.", "src/*", "the name of Rich's own option"),
    Allowed(r"(?i)fold(?:ed|ing)?", "src/skillwright/envs/table/*", "Unicode's own term"),
    Allowed(r"fold: false", "docs/own_data.md", "the setting's name"),
    Allowed(
        r'["`]won["`]', "src/skillwright/worlds/*", "metadata that ALFWorld has; adapters read it"
    ),
    Allowed(r"in mind\.", "src/skillwright/worlds/webshop/*", "built-in data: talk about products"),
    Allowed(r"color colour", "src/skillwright/worlds/webshop/*", "spellings it reads"),
    Allowed(r"(?i)arm-?chair", "src/*", "a class of ALFWorld's objects"),
    Allowed(r".*(?:told|stands in).*", "*/tau_bench/built_in/*", "built-in data, by checksum"),
    Allowed(
        r"answer stands in the passages|user is told by email|has told you|customer was told",
        "*",
        "prompts of rollouts, on which scores depend",
    ),
    Allowed(
        r'(?<!")"(?!"")[^"]*"(?!")', "*/scripted/*", "scripted models' texts: scores depend on them"
    ),
    Allowed(
        r"told / requested|so often|center\|centre|place\(\?=|never mind /",
        "*/scripted/skilltext/words.py",
        "words that it reads in skills",
    ),
    Allowed(r"family box", "src/skillwright/worlds/webshop/*", "an option that sellers name so"),
    Allowed(
        r"Greywell|grey", "src/skillwright/worlds/*", "built-in data: a name, a color's spelling"
    ),
    Allowed(
        r"(?:kilo)?metres|harbour master",
        "src/skillwright/worlds/search/*",
        "texts of built-in tasks",
    ),
    Allowed(r"favour~|prioritise~|color colour|or colour", "*/scripted/*", "spellings it reads"),
    Allowed(r"\| was `[^|]*\|", "CHANGELOG.md", "names of earlier versions, beside the new ones"),
    Allowed(r"[Ii]n this home's", "*", "text of stored skills, on which scores depend"),
)
NAMES = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z][a-z])")


def compiled(banned: Banned) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z])(?:{banned.pattern})(?![a-z])", re.IGNORECASE)


WORDS = [(one, compiled(one)) for one in (*OURS, *BRITISH)]
ANY = compiled(Banned("|".join(f"(?:{one.pattern})" for one in (*OURS, *BRITISH)), ""))
PASSED = [(one, re.compile(one.pattern)) for one in ALLOWED]


def newest(changelog: str) -> str:
    """The first section of the changelog; what was published keeps its words."""
    return "## ".join(changelog.split("\n## ")[:2])


def texts() -> Iterator[tuple[str, str]]:
    """Every page, source and help text that is read, by the name that a finding shows."""
    for folder, endings in READ:
        for path in sorted((ROOT / folder).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix in endings and name not in DATED:
                yield name, path.read_text(encoding="utf-8")
    for page in PAGES:
        yield page, (ROOT / page).read_text(encoding="utf-8")
    yield "CHANGELOG.md", newest((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


def commands(command: typer.core.TyperCommand, path: tuple[str, ...] = ()) -> Iterator[list[str]]:
    yield [*path]
    loaded = command.load() if isinstance(command, LazyCommand) else command
    shown = {name: one for name, one in getattr(loaded, "commands", {}).items() if not one.hidden}
    for name, inner in shown.items():
        yield from commands(inner, (*path, name))


def helps() -> Iterator[tuple[str, str]]:
    """The help of every command, wide enough that no word is broken."""
    runner = CliRunner(env={"COLUMNS": "400", "TERM": "dumb", "NO_COLOR": "1"})
    for words in commands(typer.main.get_command(app)):
        result = runner.invoke(app, [*words, "--help"])
        assert result.exit_code == 0, result.output
        yield f"`skillwright {' '.join([*words, '--help'])}`", result.output


def banned_words(name: str, text: str) -> Iterator[str]:
    passed = [pattern for one, pattern in PASSED if fnmatch(name, one.where)]
    whole = NAMES.sub(" ", text)
    if not ANY.search(whole):  # most files hold none of them
        return
    words = [found for found in WORDS if fnmatch(name, found[0].where) and found[1].search(whole)]
    for number, line in enumerate(text.splitlines() if words else (), start=1):
        rest = line
        for pattern in passed:
            rest = pattern.sub("", rest)
        rest = NAMES.sub(" ", rest)
        for banned, pattern in words:
            if found := pattern.search(rest):
                yield f"{name}:{number}: {found[0]!r}, say {banned.instead}: {line.strip()[:90]}"


def test_files_use_no_word_of_our_own():
    assert not [line for name, text in texts() for line in banned_words(name, text)]


def test_file_names_use_no_word_of_our_own():
    files = sorted((ROOT / "src").rglob("*"))
    names = [str(path.relative_to(ROOT)) for path in files if path.suffix != ".pyc"]
    assert not [line for name in names for line in banned_words("src/skillwright", name)]


def test_help_uses_no_word_of_our_own():
    assert not [line for name, text in helps() for line in banned_words(name, text)]


def test_every_allowance_is_needed():
    every = list(texts())
    unused = [
        one.pattern
        for one, pattern in PASSED
        if not any(fnmatch(name, one.where) and pattern.search(text) for name, text in every)
    ]
    assert not unused


@pytest.mark.parametrize(
    "line",
    [
        "def told_change(self): ...",
        "class ToldBank:",
        "ADMITTED = 1",
        "what the optimiser says",
        "self._luck.random()",
        "it goes on where it stopped",
        "watcher.see(event)",
    ],
)
def test_a_word_is_found_in_names_and_in_prose(line):
    assert list(banned_words("src/skillwright/a.py", line))


@pytest.mark.parametrize(
    "line", ["distill, distilled", "remind, reminder", "the floor", "charm", "a wonder", "enfolded"]
)
def test_a_word_inside_another_is_none(line):
    assert not list(banned_words("src/skillwright/a.py", line))
