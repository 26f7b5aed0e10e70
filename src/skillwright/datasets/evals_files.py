"""Read the evals of an Agent Skills folder as rows: ``evals/evals.json`` and its dialects.

A row has the columns ``id``, ``prompt`` (with the texts of its files) and ``assertions``:

    {"checks": [{"text": "names the owner"}, {"rule": "contains", "values": ["one"], "text": ...}],
     "expected": "A summary of one line", "left_out": ["..."], "problem": ["", ""]}

A check without a rule is for a judge. ``left_out`` has the reasons why assertions cannot be checked
on a reply, and ``problem`` why the whole case cannot be played, and what it is about.

Sources: agentskills.io (``evals/evals.json``), dotnet/skills (``eval.yaml``).
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from skillwright.core import DataError
from skillwright.core.jsonio import dumps
from skillwright.core.skill import with_line_feeds
from skillwright.core.skill_file import SKILL_FILE, is_inside

ASSERTIONS: Final = "assertions"
"""The column of the assertions, which no agent may read."""
TRIGGER: Final = "should_trigger"
"""The key of a query that tests a description: whether it should open the skill."""

_PLACES: Final = (
    *("evals/evals.json", "evals/evals.yaml", "evals/evals.yml", "evals/eval.yaml"),
    *("evals/evals.jsonl", "evals.json", "eval.yaml", "tests/eval.yaml"),
)
LISTS: Final = ("evals", "cases", "scenarios", "test_cases", "tests")
"""Keys of a document that may hold its list of cases."""
PROMPTS: Final = ("prompt", "query", "input", "question", "task")
"""Keys of a case that may hold what a user asks."""
_JUDGED: Final = (
    *("expectations", "assertions", "expected_behavior", "expected_behaviors", "rubric"),
    *("criteria", "success_criteria", "assert", "checks"),
)
_CONTAINED: Final = ("must_include", "must_contain", "expected_contains", "must_mention")
_AVOIDED: Final = ("must_avoid", "must_not_include", "must_not_contain", "must_not_mention")
_EXPECTED: Final = ("expected_output", "expected", "reference")
OPENS: Final = (TRIGGER, "should_activate", "expect_activation", "triggers")
"""Keys of a case that say whether it should open the skill."""
_FILES: Final = ("files", "input_files", "fixtures")
_FILE_KEYS: Final = ("path", "name", "file", "source", "content")
_TOOLS: Final = ("expect_tools", "reject_tools", "expected_tools", "tool_calls")
_TEXTS: Final = (
    *("text", "description", "assertion", "expectation", "criterion", "statement", "criteria"),
    "name",
)
_VALUES: Final = ("value", "values", "pattern", "regex", "expected", "substring", "contains")
_NAMES: Final = {
    **dict.fromkeys(("contains", "icontains", "contains_all", "includes", "include"), "contains"),
    **dict.fromkeys(("must_include", "must_contain", "substring"), "contains"),
    "contains_any": "contains_any",
    **dict.fromkeys(("lacks", "excludes", "must_avoid", "must_not_include"), "lacks"),
    **dict.fromkeys(("must_not_contain", "does_not_contain"), "lacks"),
    **dict.fromkeys(("matches", "match", "regex", "pattern"), "matches"),
    **dict.fromkeys(("equals", "exact", "exact_match"), "equals"),
    **dict.fromkeys(("starts_with", "startswith"), "starts_with"),
    **dict.fromkeys(("ends_with", "endswith"), "ends_with"),
}
_NEGATED: Final = {"contains": "lacks", "contains_any": "lacks", "matches": "matches_not"}
_OF_OTHERS: Final = re.compile(
    r"(file|dir|folder|exit|command|run|tool|script|skill)_|(exit|tool)$"
)
_JUDGED_KINDS: Final = re.compile(r"llm|rubric|judge|semantic|quality|factual|behaviou?r|model")
_LONGEST_FILE: Final = 200_000
_LONGEST_NAME: Final = 60


def evals_in(folder: Path) -> Path | None:
    """Return the file of evals of a skill's folder; ``None`` if there is none, or no SKILL.md."""
    if not (folder / SKILL_FILE).is_file():
        return None
    return next((folder / one for one in _PLACES if (folder / one).is_file()), None)


def eval_rows(found: Any, path: Path) -> list[dict[str, Any]] | None:
    """Return the rows of a document of evals; ``None`` if it is none.

    Args:
        found: The parsed file.
        path: The file; files of its cases are relative to the skill's folder, or to its own.

    Raises:
        DataError: It holds no case, or one that is no object or has no prompt.
    """
    cases = _cases(found, path)
    if cases is None:
        return None
    if not cases:
        raise DataError(
            f"{str(path)!r} holds no cases; write one such as "
            '{"id": 1, "prompt": "...", "assertions": ["..."]} into its list'
        )
    for number, case in enumerate(cases, start=1):
        if not isinstance(case, Mapping):
            raise DataError(f"{str(path)!r}, case {number} is {case!r:.80}, not an object")
    if all(TRIGGER in case and not _is_checked(case) for case in cases):
        return [
            {"query": _prompt(case, path, number), TRIGGER: case[TRIGGER]}
            for number, case in enumerate(cases, start=1)
        ]
    return [_row(case, path, number) for number, case in enumerate(cases, start=1)]


def eval_row(row: Mapping[str, Any], path: Path, number: int) -> dict[str, Any] | None:
    """Return the row of a case of JSON Lines; ``None`` if it is none.

    Raises:
        DataError: It has no prompt.
    """
    is_case = any(key in row for key in PROMPTS) and _has_assertions(row)
    return _row(row, path, number) if is_case else None


def _cases(found: Any, path: Path) -> list[Any] | None:
    if isinstance(found, Mapping):
        key = next((key for key in LISTS if isinstance(found.get(key), list)), None)
        return None if key is None else found[key]
    if not isinstance(found, list):
        return None
    is_named = "eval" in path.stem or path.parent.name == "evals"
    are_cases = any(
        isinstance(case, Mapping)
        and any(key in case for key in PROMPTS)
        and (_has_assertions(case) or (is_named and _is_checked(case)))
        for case in found
    )
    return found if are_cases else None


def _has_assertions(case: Mapping[str, Any]) -> bool:
    return any(case.get(key) for key in (*_JUDGED, *_CONTAINED, *_AVOIDED))


def _is_checked(case: Mapping[str, Any]) -> bool:
    return _has_assertions(case) or any(case.get(key) for key in _EXPECTED)


def _row(case: Mapping[str, Any], path: Path, number: int) -> dict[str, Any]:
    prompt = _prompt(case, path, number)
    files = [_file(one, path) for one in _files(case)]
    texts = [f"File {name}:\n\n{_quoted(text)}" for name, text, why in files if not why]
    problem = next(([why, name] for name, _, why in files if why), ["", ""])
    checks, left_out = list[dict[str, Any]](), list[str]()
    for one in _checks(case):
        if isinstance(one, str):
            left_out.append(one)
        else:
            checks.append(one)
    given = next((case[key] for key in _EXPECTED if case.get(key)), "")
    expected = _text(given)
    if expected and not checks:
        checks.append({"text": f"The reply fits this description: {expected}"})
    if not (problem[0] or checks):
        is_opened = any(key in case for key in OPENS)
        problem = problem if left_out and not is_opened else ["without an assertion", ""]
        problem = ["only for the description", ""] if is_opened else problem
    return {
        "id": _id(case) or str(number),
        "prompt": "\n\n".join([prompt, *texts]),
        ASSERTIONS: {
            "checks": checks,
            "expected": expected,
            "left_out": left_out,
            "problem": problem,
        },
    }


def _id(case: Mapping[str, Any]) -> str:
    given = case.get("id", case.get("name"))
    name = "" if given is None else str(given).strip()
    return name if len(name) <= _LONGEST_NAME else ""


def _prompt(case: Mapping[str, Any], path: Path, number: int) -> str:
    for key in PROMPTS:
        if isinstance(found := case.get(key), str) and found.strip():
            return found.strip()
    raise DataError(
        f"{str(path)!r}, case {number} has no prompt; write the request of a user, as text, under "
        "'prompt'"
    )


def _checks(case: Mapping[str, Any]) -> Iterator[dict[str, Any] | str]:
    """Yield the checks of a case, and reasons why others are left out."""
    for key in _JUDGED:
        for one in _listed(case.get(key)):
            yield _check(one)
    for keys, rule, verb in ((_CONTAINED, "contains", "has"), (_AVOIDED, "lacks", "lacks")):
        for key in keys:
            for one in _listed(case.get(key)):
                several = isinstance(one, list) and rule == "contains"
                values = [str(text) for text in _listed(one)]
                name = "contains_any" if several else rule
                yield {"rule": name, "values": values, "text": f"{verb} {' or '.join(values)!r}"}
    if any(case.get(key) for key in _TOOLS):
        yield "about tools that the agent calls"
    if any(key in case for key in OPENS):
        yield "about whether the agent opens the skill"


def _check(found: Any) -> dict[str, Any] | str:
    """Return the check of an assertion, or the reason why it is left out."""
    if not isinstance(found, Mapping):
        return {"text": str(found).strip()} if str(found or "").strip() else "blank"
    kind = re.sub(r"[\W_]+", "_", str(found.get("type") or found.get("kind") or "").lower())
    if _OF_OTHERS.match(kind):
        return f"about more than the reply ({kind})"
    bare = re.sub(r"^(output|response|reply|text)_", "", kind)
    rule = _NAMES.get(bare.removeprefix("not_"), "")
    if bare.startswith("not_"):
        rule = _NEGATED.get(rule, "")
    text = next((found[key] for key in _TEXTS if isinstance(found.get(key), str)), "").strip()
    given = next((found[key] for key in _VALUES if found.get(key) not in (None, "", [])), text)
    values = [_text(one) for one in _listed(given)]
    if not rule and not text and _JUDGED_KINDS.search(kind):
        text = "; ".join(values)
    if not rule or not values:
        return {"text": text} if text else f"of an unknown type ({kind or 'none is given'})"
    if rule in ("matches", "matches_not"):
        if kind.startswith("output_"):  # dotnet's ignore case
            values = [f"(?i:{one})" for one in values]
        try:
            for one in values:
                re.compile(one)
        except re.error as error:
            return f"no regular expression in Python ({error})"
    shown = text or f"{rule.replace('_', ' ')} {' or '.join(values)!r}"
    return {"rule": rule, "values": values, "text": shown}


def _text(found: Any) -> str:
    """Return a value as text; what YAML reads as a date stays as it was written."""
    if isinstance(found, str):
        return found
    return dumps(found) if isinstance(found, bool | int | float | list | dict) else str(found)


def _listed(found: Any) -> list[Any]:
    if found is None or found == "":
        return []
    return found if isinstance(found, list) else [found]


def _files(case: Mapping[str, Any]) -> list[Any]:
    setup = case.get("setup")
    more = setup.get("files") if isinstance(setup, Mapping) else None
    found = [one for key in _FILES for one in _listed(case.get(key))]
    return [file for one in (*found, *_listed(more)) for file in _named(one)]


def _named(found: Any) -> list[Any]:
    """Return a file, or those of an object of contents by name."""
    if not isinstance(found, Mapping) or any(key in found for key in _FILE_KEYS):
        return [found]
    return [{"path": name, "content": text} for name, text in found.items()]


def _file(found: Any, path: Path) -> tuple[str, str, str]:
    """Return the name and the text of a case's file, and why it cannot be shown to the agent."""
    given = found if isinstance(found, Mapping) else {"path": found}
    name = str(given.get("path") or given.get("name") or given.get("file") or "")
    if isinstance(given.get("content"), str):
        return name, given["content"], ""
    root = path.parent.parent if path.parent.name in ("evals", "tests") else path.parent
    where = str(given.get("source") or name)
    file = next((one for one in (root / where, path.parent / where) if _exists(one)), None)
    if file is None:
        return where, "", f"a file is missing; its path begins at {str(root)!r}"
    if not is_inside(file, root):
        return where, "", f"a file lies outside {str(root)!r}"
    if not file.is_file():
        return where, "", "a file is a folder"
    try:
        text = with_line_feeds(file.read_bytes().decode("utf-8-sig"))
    except (OSError, UnicodeError):
        return where, "", "a file is no UTF-8 text, which is all that the agent reads"
    if len(text) > _LONGEST_FILE:
        return where, "", f"a file has more than {_LONGEST_FILE:,} characters"
    return name, text, ""


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long, or with a zero byte
        return False


def _quoted(text: str) -> str:
    """Put a text between fences that it does not contain."""
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence}\n{text.rstrip()}\n{fence}"
