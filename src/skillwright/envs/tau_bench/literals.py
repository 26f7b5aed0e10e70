"""Values out of Python files that are parsed and never executed.

tau-bench keeps its tasks, rules and tool descriptions in Python. Reading them as syntax trees
gives the same values and runs nothing, whatever the files say.
"""

import ast
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillwright.core import DataError


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it stands there; nobody makes it."""

    name: str  # what it calls
    keywords: Mapping[str, Any]  # its arguments, all of them by name


class NotLiteral(Exception):
    """An expression whose value only running it could tell."""

    def __init__(self, node: ast.AST) -> None:
        super().__init__(type(node).__name__)
        self.line = getattr(node, "lineno", 0)


def parse(source: str, where: str) -> ast.Module:
    """Parse a Python file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about somebody else's escape sequences
            return ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise DataError(f"{where} is not Python: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise DataError(f"{where} is nested too deeply to be read") from error


def assigned(module: ast.Module, name: str, where: str) -> Any:
    """Return the value that a file gives to a name: JSON, with `Call` where it calls something."""
    found = [given for node in module.body if (given := _given(node, name)) is not None]
    if len(found) != 1:
        raise DataError(f"{where} assigns {name} {len(found)} times; it must once")
    return literal(found[0], where)


def literal(node: ast.expr, where: str) -> Any:
    """Return the value of an expression."""
    try:
        return value(node)
    except NotLiteral as error:
        raise DataError(
            f"{where}, line {error.line}: a {error} stands where a plain value must; such files "
            "are read, not run"
        ) from error
    except RecursionError as error:
        raise DataError(f"{where} is nested too deeply to be read") from error


def value(node: ast.AST | None) -> Any:
    """Return the value of an expression: JSON, with a `Call` for ``Name(key=value, ...)``."""
    match node:
        case ast.Constant(value=str() | int() | float() | None as plain):
            return plain
        case ast.List(elts=parts):
            return [value(part) for part in parts]
        case ast.Dict(keys=keys, values=values):
            return {_text(key): value(part) for key, part in zip(keys, values, strict=True)}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left) + _text(right)
        case ast.JoinedStr(values=parts):  # without a placeholder it is a plain text
            return "".join(_text(part) for part in parts)
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
            return Call(name, _keywords(keywords))
        case _:
            raise NotLiteral(node or ast.Pass())


def _keywords(keywords: list[ast.keyword]) -> Mapping[str, Any]:
    for keyword in keywords:
        if keyword.arg is None:
            raise NotLiteral(keyword)
    return {str(keyword.arg): value(keyword.value) for keyword in keywords}


def _text(node: ast.expr | None) -> str:
    text = value(node)
    if not isinstance(text, str):
        raise NotLiteral(node or ast.Pass())
    return text


def _given(node: ast.stmt, name: str) -> ast.expr | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=found)], value=ast.expr() as given):
            return given if found == name else None
        case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as given):
            return given if found == name else None
        case _:
            return None
