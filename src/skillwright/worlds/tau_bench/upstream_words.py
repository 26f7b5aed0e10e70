"""tau-bench's own words for its simulated user, read from a copy of tau-bench.

They are not part of the project. The file is parsed, never executed: the text is built from its
syntax tree.
"""

import ast
import hashlib
import importlib.util
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from skillwright.core import DataError
from skillwright.core.jsonio import read_text
from skillwright.worlds.tau_bench.config import TauBenchEnvConfig
from skillwright.worlds.tau_bench.tau_core.store import DOMAINS, data_dir

WORDS_FILE: Final = "user_prompt.txt"
"""The file next to the data where `skillwright data tau-bench` puts the words."""
SOURCE: Final = Path("envs") / "user.py"
"""The file in tau-bench's package that has the words."""
PUBLISHED: Final = "6898b6f9ef7955ddb9af4325b97176750c20d6f300d75c8232ba8d12cd5c19be"
"""The SHA-256 of the role prompt of tau-bench's published figures (commit 1c9cf190)."""

_MARK: Final = "{instruction}"
_CLASS: Final = "LLMUserSimulationEnv"
_METHOD: Final = "build_system_prompt"


_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class UserWords:
    """The role prompt of tau-bench's own simulated user."""

    template: str  # the text, with `{instruction}` for the instruction
    origin: str  # the file that it was read from

    @property
    def digest(self) -> str:
        """The SHA-256 of the template."""
        return hashlib.sha256(self.template.encode()).hexdigest()

    @property
    def is_published(self) -> bool:
        """Whether they are those of tau-bench's figures, byte for byte."""
        return self.digest == PUBLISHED

    def role(self, instruction: str) -> str:
        """Return the role prompt for an instruction."""
        return self.template.replace(_MARK, instruction, 1)


def user_words(config: TauBenchEnvConfig) -> UserWords:
    """Find tau-bench's words in the configured folder, else next to the data, else installed."""
    return _found(
        config.tau_bench_dir, data_dir(config.data_dir, config.domain).path, config.domain
    )


def template_of(source: str, where: str) -> str:
    """Return the role prompt that a ``user.py`` of tau-bench builds."""
    for node in parse(source, where).body:
        if isinstance(node, ast.ClassDef) and node.name == _CLASS:
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and member.name == _METHOD:
                    return _checked(_returned(member, where), where)
    raise DataError(f"{where} has no {_CLASS}.{_METHOD}: it is no user.py of tau-bench")


@lru_cache(maxsize=16)
def _found(named: str, data: str, domain: str) -> UserWords:
    if named:
        return _of_source(_source_in(Path(named).expanduser()))
    beside = Path(data) / WORDS_FILE
    if beside.is_file():
        return UserWords(_checked(read_text(beside, "role prompt"), repr(str(beside))), str(beside))
    if (installed := _installed()) is not None:
        return _of_source(installed)
    raise DataError(
        "tau_bench env_config: user_prompt is 'tau-bench', and its words are not here, as they are "
        f"not shipped. Run `{DOMAINS[domain].fetch_command}` (again, where the data was "
        "fetched by an earlier version), or name a checkout of tau-bench in tau_bench_dir, or "
        "install its package"
    )


def _source_in(folder: Path) -> Path:
    """Return the source file in a checkout of tau-bench or in its installed package."""
    places = [folder / "tau_bench" / SOURCE, folder / SOURCE]
    for place in places:
        if place.is_file():
            return place
    raise DataError(
        f"tau_bench env_config: tau_bench_dir is {str(folder)!r}, which holds neither "
        f"{str(places[0].relative_to(folder))!r} nor {str(SOURCE)!r}; name a checkout of "
        "tau-bench, or the folder of its installed package"
    )


def _installed() -> Path | None:
    """Return the source file of the installed tau-bench package, or ``None``."""
    # Found, not imported: its import loads a model client, and our folders of that name (examples)
    # are not its package.
    try:
        spec = importlib.util.find_spec("tau_bench")
    except (ImportError, ValueError):
        return None
    places = (spec.submodule_search_locations if spec else None) or ()
    sources = (Path(place) / SOURCE for place in places)
    return next((source for source in sources if source.is_file()), None)


def _of_source(path: Path) -> UserWords:
    return UserWords(template_of(read_text(path, "file of tau-bench"), repr(str(path))), str(path))


def _checked(template: str, where: str) -> str:
    if template.count(_MARK) != 1:
        raise DataError(
            f"{where}: its role prompt has the instruction {template.count(_MARK)} times; it must "
            "have it once"
        )
    return template


def _returned(function: ast.FunctionDef, where: str) -> str:
    """Evaluate a function with one text parameter that assigns texts and returns one."""
    try:
        return _run_through(function)
    except NotLiteral as error:
        raise DataError(
            f"{where}, line {error.line}: a {error} stands where a text is put together, and such "
            "files are read, not run. Use tau-bench as its authors publish it"
        ) from error
    except RecursionError as error:
        raise DataError(f"{where} is nested too deeply to be read") from error


def _run_through(function: ast.FunctionDef) -> str:
    known = {argument.arg: _MARK for argument in function.args.args if argument.arg != "self"}
    for statement in function.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                known[name] = _text(value, known)
            case ast.Return(value=ast.expr() as value):
                return _text(value, known)
            case ast.Expr(value=ast.Constant()):
                continue
            case _:
                raise NotLiteral(statement)
    raise NotLiteral(function)


# Values from Python files that are parsed, never executed.


@dataclass(frozen=True, slots=True)
class Call:
    """A call in the file; it is not executed."""

    name: str  # name of the callee
    keywords: Mapping[str, Any]  # its arguments, all by name


class NotLiteral(Exception):
    """An expression that cannot be evaluated without running it."""

    def __init__(self, node: ast.AST) -> None:
        super().__init__(type(node).__name__)
        self.line = getattr(node, "lineno", 0)


def parse(source: str, where: str) -> ast.Module:
    """Parse a Python file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escape sequences in upstream code
            return ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise DataError(f"{where} is not Python: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise DataError(f"{where} is nested too deeply to be read") from error


def assigned(module: ast.Module, names: tuple[str, ...], where: str) -> Any:
    """Return the value assigned to the first of these names, as JSON and `Call` objects."""
    found = [given for node in module.body if (given := _given(node, names)) is not None]
    if len(found) != 1:
        raise DataError(f"{where} assigns {names[0]} {len(found)} times; it must once")
    return literal(found[0], where)


def literal(node: ast.expr, where: str) -> Any:
    """Return the value of an expression."""
    try:
        return _value(node)
    except NotLiteral as error:
        raise DataError(
            f"{where}, line {error.line}: a {error} stands where a plain value must; such files "
            "are read, not run"
        ) from error
    except RecursionError as error:
        raise DataError(f"{where} is nested too deeply to be read") from error


def _value(node: ast.AST | None, known: Mapping[str, str] = _NOTHING) -> Any:
    """Return JSON, with a `Call` for ``Name(key=value, ...)``; ``known`` holds texts by name."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as plain):
            return plain
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.List(elts=parts):
            return [_value(part) for part in parts]
        case ast.Dict(keys=keys, values=values):
            return {_text(key): _value(part) for key, part in zip(keys, values, strict=True)}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
            return Call(name, _keywords(keywords))
        case _:
            return _put_together(node, known)


def _put_together(node: ast.AST | None, known: Mapping[str, str]) -> str:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left, known) + _text(right, known)
        case ast.JoinedStr(values=parts):  # without a placeholder it is a plain text
            return "".join(_text(part, known) for part in parts)
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None) if known:
            return _text(value, known)
        case ast.IfExp(
            test=ast.Compare(
                left=ast.Name(), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]
            ),
            body=body,
        ) if known:
            return _text(body, known)  # there is always an instruction
        case _:
            raise NotLiteral(node or ast.Pass())


def _keywords(keywords: list[ast.keyword]) -> Mapping[str, Any]:
    for keyword in keywords:
        if keyword.arg is None:
            raise NotLiteral(keyword)
    return {str(keyword.arg): _value(keyword.value) for keyword in keywords}


def _text(node: ast.AST | None, known: Mapping[str, str] = _NOTHING) -> str:
    text = _value(node, known)
    if not isinstance(text, str):
        raise NotLiteral(node or ast.Pass())
    return text


def _given(node: ast.stmt, names: tuple[str, ...]) -> ast.expr | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=found)], value=ast.expr() as given):
            return given if found in names else None
        case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as given):
            return given if found in names else None
        case _:
            return None
