"""Redact keys, tokens and passwords in everything that is written.

Unknown secrets are found by pattern: secret names (``api_key``, ``HF_TOKEN``), and values that
look like a secret (``sk-...``, credentials in a URL). Known ones, the keys of the run and of the
environment, are found by value (`Redactor`). Names that only resemble secrets keep their values:
``max_tokens``, ``api_key_env``, ``episode_key``, ``eos_token``.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

REDACTED = "<redacted>"

# Many environment variables with secret-like names hold a word, a number or a path.
_SHORTEST_IN_ENVIRONMENT = 8
# Shorter values are likely words, and replacing them would garble texts.
_SHORTEST_SECRET = 6

_REFERENCE = re.compile(r"\$\{\w+\}")
_CONSTANTS = frozenset({"false", "none", "null", "true"})
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_SECRET_ANYWHERE = frozenset(
    {
        "apikey",
        "authorization",
        "credential",
        "credentials",
        "passphrase",
        "passwd",
        "password",
        "passwords",
        "pwd",
        "secret",
        "secrets",
    }
)
_SECRET_AT_THE_END = frozenset({"auth", "bearer", "cookie", "token"})
_PLURALS = {"keys": "key", "tokens": "token"}
# Last words of names that describe a secret and do not hold it.
_ABOUT_A_SECRET = frozenset(
    {"env", "file", "path", "name", "id", "mode", "scope", "type", "url", "var", "count", "limit"}
)
_HARMLESS_TOKENS = frozenset(
    {"bos", "cls", "end", "eos", "mask", "pad", "sep", "special", "start", "stop", "unk"}
)
_SECRET_PLURALS = frozenset({"access", "api", "auth", "private", "refresh", "secret", "session"})
_HARMLESS_KEYS = frozenset(
    {
        "cache",
        "call",
        "cluster",
        "episode",
        "foreign",
        "group",
        "lookup",
        "partition",
        "primary",
        "prompt",
        "public",
        "skill",
        "sort",
        "task",
    }
)

_SHAPES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (
            r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
            REDACTED,
        ),
        (r"(?<![A-Za-z0-9_-])sk-[A-Za-z0-9_-]{8,}", REDACTED),
        (r"(?<![A-Za-z0-9])(?:gh[oprsu]_|hf_|github_pat_)[A-Za-z0-9_]{20,}", REDACTED),
        (r"(?<![A-Za-z0-9])(?:xox[abprs]|glpat)-[A-Za-z0-9-]{10,}", REDACTED),
        (r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{20,}", REDACTED),
        (r"(?<![A-Za-z0-9])A(?:KI|SI)A[A-Z0-9]{16}(?![A-Z0-9])", REDACTED),
        (r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*", REDACTED),
        (r"(?<=://)[^/\s@\"']+(?=@)", REDACTED),
        # "bearer" may be prose ("bearer credentials"); a token has a digit or is long.
        (r"(?i)\b(bearer\s+)(?=[a-z._~+/=-]*\d|[\w.~+/=-]{20})[\w.~+/=-]{8,}", rf"\1{REDACTED}"),
        (r"(?i)\b(authorization[\"']?\s*[:=]\s*[\"']?\w+ +)[^\s\"',;<]+", rf"\1{REDACTED}"),
        (r"\b(key=)[A-Za-z0-9+/_=-]{16,}", rf"\1{REDACTED}"),
    )
)
# Names match as whole words, because a match from every letter would take quadratic time.
_ASSIGNED = re.compile(
    r"""(?<![A-Za-z0-9_.-])[0-9_.-]*+(?P<name>[A-Za-z][A-Za-z0-9_.-]*+)
        ["']?[ \t]*[:=][ \t]*
        (?P<value>\$\{\w+\} | "(?:[^"\\\n]|\\.)*" | '[^'\n]*' | [^\s,;&"'()\[\]{}]+)""",
    re.VERBOSE,
)
_OPTION = re.compile(r"(?P<name>(?<!\S)--?[A-Za-z][\w-]*) +(?P<value>[^\s<-]\S*)")


def is_secret_name(name: str) -> bool:
    """Tell whether a key, option or variable of this name holds a secret."""
    words = _words(name)
    if not words or words[-1] in _ABOUT_A_SECRET:
        return False
    if _SECRET_ANYWHERE.intersection(words):
        return True
    *before, last = words
    owner = before[-1] if before else ""
    if last in _PLURALS:
        return owner in _SECRET_PLURALS
    if last == "key":
        # A bare "key" is often a digest; `_SHAPES` finds real keys under it.
        return bool(before) and owner not in _HARMLESS_KEYS
    return last in _SECRET_AT_THE_END and owner not in _HARMLESS_TOKENS


def redact(value: Any) -> Any:
    """Redact secrets in a text, or in all texts of a JSON value, by pattern.

    Under a secret name every text is replaced whole, and every number, unless the name ends in
    ``key``, ``token`` or the like, where a number is a count. ``${NAME}`` is a reference and
    stays. Redacting is idempotent.

    Returns:
        A value of the same shape; tuples become lists, as in JSON.
    """
    match value:
        case str():
            return _redact_text(value)
        case Mapping():
            return {
                key: _hidden(item, str(key)) if is_secret_name(str(key)) else redact(item)
                for key, item in value.items()
            }
        case list() | tuple():
            return [redact(item) for item in value]
        case _:
            return value


def secrets_in(value: Any, name: str = "") -> list[str]:
    """Return the texts that `redact` would replace because of their names.

    Args:
        value: A JSON value, such as the settings of an environment.
        name: The secret name of the whole value, or ``""``.
    """
    match value:
        case str():
            return [value] if name and _hide_text(value, name) == REDACTED else []
        case Mapping():
            under = {key: name or (key if is_secret_name(str(key)) else "") for key in value}
            return [found for key in value for found in secrets_in(value[key], str(under[key]))]
        case list() | tuple():
            return [found for item in value for found in secrets_in(item, name)]
        case _:
            return []


def environment_secrets(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the values of environment variables that are secrets by name or by shape.

    Single words, numbers and existing paths (``PWD``, ``GOOGLE_APPLICATION_CREDENTIALS``) are left
    out, because redacting them would garble texts.
    """
    found = (os.environ if environ is None else environ).items()
    values = ((name, value.strip()) for name, value in found)
    return [
        value
        for name, value in values
        if redact(value) == REDACTED or (is_secret_name(name) and _may_be_secret(value))
    ]


def _may_be_secret(value: str) -> bool:
    if len(value) < _SHORTEST_IN_ENVIRONMENT or value.isdecimal() or len(value.split()) > 1:
        return False
    is_word = value.isalpha() and (value.islower() or value.isupper() or value.istitle())
    return not is_word and not (value.startswith(("/", "~")) and os.path.lexists(value))


class Redactor:
    """Redacts the known secrets of a run.

    Args:
        secrets: API keys and other secret values. Values under 6 characters are ignored.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {
            form
            for secret in secrets
            if len(secret.strip()) >= _SHORTEST_SECRET
            for form in (
                secret.strip(),
                json.dumps(secret.strip())[1:-1],
                quote(secret.strip(), ""),
            )
        }
        # Longest first: one secret may begin with another.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def exact(self, text: str) -> str:
        """Replace known secrets, including JSON-escaped and percent-encoded ones."""
        return self._pattern.sub(REDACTED, text) if self._pattern else text

    def clean(self, value: Any) -> Any:
        """Replace known secrets and those found by pattern, in a text or JSON value."""
        return _each_text(redact(value), self.exact)

    def facts(self, value: Any) -> Any:
        """Clean the texts of a JSON value, ignoring its keys.

        Unlike `clean`, which also redacts values under secret names: here a key may be a task type
        such as ``reset_password``.
        """
        return _each_text(value, self.clean)


def _each_text(value: Any, change: Callable[[str], Any]) -> Any:
    """Apply a function to every text of a JSON value, but not to keys."""
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _each_text(item, change) for key, item in value.items()}
        case list() | tuple():
            return [_each_text(item, change) for item in value]
        case _:
            return value


def _hidden(value: Any, name: str) -> Any:
    """Redact a value under a secret name."""
    match value:
        case str():
            return _hide_text(value, name)
        case Mapping():
            return {key: _hidden(item, name) for key, item in value.items()}
        case list() | tuple():
            return [_hidden(item, name) for item in value]
        case int() | float() if not isinstance(value, bool) and _hides_numbers(name):
            return REDACTED
        case _:
            return value


def _hide_text(value: str, name: str) -> str:
    if not value or _REFERENCE.fullmatch(value) or value.lower() in _CONSTANTS:
        return value
    is_number = value.replace(".", "", 1).isdecimal()
    return value if is_number and not _hides_numbers(name) else REDACTED


def _hides_numbers(name: str) -> bool:
    return not _SECRET_ANYWHERE.isdisjoint(_words(name))


def _redact_text(text: str) -> str:
    for shape, replacement in _SHAPES:
        text = shape.sub(replacement, text)
    return _OPTION.sub(_redact_assigned, _ASSIGNED.sub(_redact_assigned, text))


def _redact_assigned(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    if not is_secret_name(name):
        return found[0]
    mark = value[0] if value[0] in "\"'" else ""
    inner = value[1:-1] if mark else value
    before = found[0].removesuffix(value)
    return f"{before}{mark}{_hide_text(inner, name)}{mark}"


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]
