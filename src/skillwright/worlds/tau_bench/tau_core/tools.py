"""Tool calls in every domain, and the three tools that all domains have.

Source: tau-bench (arXiv:2406.12045), its base environment.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from skillwright.worlds.tau_bench.tau_core.database import Database
from skillwright.worlds.tau_bench.tau_core.domain import Domain, Tool

# The `calculate` tool, without ``eval``: Python's parser gives the same error texts as tau-bench's
# ``eval``; the tree is computed here, one operation at a time, with limits on size.


MAX_CHARS: Final = 2_000
MAX_BITS: Final = 65_536

_ALLOWED: Final = "0123456789+-*/(). "

_BINARY: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}


def calculate(expression: Any) -> str:
    """Compute an expression, rounded to two digits; ``Error: ...`` for other characters."""
    if not all(char in _ALLOWED for char in expression):
        return "Error: invalid characters in expression"
    if not isinstance(expression, str):
        raise TypeError("eval() arg 1 must be a string, bytes or code object")
    if len(expression) > MAX_CHARS:
        raise ValueError(
            f"the expression has {len(expression)} characters; at most {MAX_CHARS} are computed"
        )
    tree = ast.parse(expression.lstrip(" "), filename="<string>", mode="eval")
    return str(round(float(_value(tree.body)), 2))


def _value(root: ast.expr) -> Any:
    """Compute a tree, left operands first; with a stack, because long sums are deep."""
    todo: list[tuple[ast.expr, bool]] = [(root, False)]
    values: list[Any] = []
    while todo:
        node, operands_known = todo.pop()
        if operands_known:
            values.append(_apply(node, values))
            continue
        if isinstance(node, ast.Constant):
            values.append(node.value)
            continue
        todo.append((node, True))
        todo.extend((operand, False) for operand in reversed(_operands(node)))
    return values.pop()


def _operands(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.Call(func=func, args=args):
            return [func, *args]
        case ast.Tuple(elts=[]):
            return []
    raise ValueError("the expression is not arithmetic")


def _apply(node: ast.expr, values: list[Any]) -> Any:
    match node:
        case ast.BinOp(op=op):
            right, left = values.pop(), values.pop()
            _refuse_large(op, left, right)
            return _BINARY[type(op)](left, right)
        case ast.UnaryOp(op=op):
            operand = values.pop()
            return -operand if isinstance(op, ast.USub) else +operand
        case ast.Call(args=args):
            for _ in args:
                values.pop()
            raise TypeError(f"{type(values.pop()).__name__!r} object is not callable")
        case _:
            return ()


def _refuse_large(op: ast.operator, left: Any, right: Any) -> None:
    if not (isinstance(left, int) and isinstance(right, int)):
        return
    bits = 0
    if isinstance(op, ast.Mult):
        bits = left.bit_length() + right.bit_length()
    elif isinstance(op, ast.Pow) and abs(left) > 1:
        bits = left.bit_length() * right
    if bits > MAX_BITS:
        raise ValueError("the result is too large to be computed")


T = TypeVar("T")

TRANSFER: Final = "transfer_to_human_agents"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call."""

    observation: str  # `""` after a thought
    ends_episode: bool = False  # the user was transferred, even if the call was malformed
    is_error: bool = False  # the tool refused, or there is no such tool


class Refused(Exception):
    """A refusal of a tool; the observation is the message after ``Error: ``."""


def call_tool(
    db: Database, name: str, kwargs: Mapping[str, Any], *, by_user: bool = False
) -> ToolResult:
    """Answer a tool call as the original does; never raise.

    Args:
        db: The episode's database.
        name: The tool.
        kwargs: Its arguments.
        by_user: Whether the simulated user calls, with its own tools.
    """
    domain = db.tables.domain
    tool = (domain.user_tools if by_user else domain.tools).get(name)
    if tool is None:
        unknown = f"Error: Tool '{name}' not found." if domain.is_tau3 else f"Unknown action {name}"
        return ToolResult(unknown, is_error=True)
    try:
        observation = _misfit(domain, name, kwargs, by_user) or tool(db, **kwargs)
        if domain.sync:
            domain.sync(db)
    except Exception as error:  # noqa: BLE001 - a refusal, or an argument of the wrong type: its error is the answer
        observation = f"Error: {error}"
    ends = name == TRANSFER and not domain.is_tau3
    return ToolResult(observation, ends, observation.startswith("Error"))


def _misfit(domain: Domain, name: str, kwargs: Mapping[str, Any], by_user: bool) -> str | None:
    """Return the error in the names of arguments, in Python's own words."""
    called = f"{''.join(word.capitalize() for word in name.split('_'))}.invoke()"
    if domain.is_tau3:
        called = f"{domain.toolkit.replace('Tools', 'UserTools' if by_user else 'Tools')}.{name}()"
    elif "data" in kwargs:
        # In tau-bench this is the name of the database, the first argument of every tool.
        return (
            f"Error: tau_bench.envs.{domain.name}.tools.{name}.{called} "
            "got multiple values for keyword argument 'data'"
        )
    wrong = misfit(called, domain.parameters[name], kwargs)
    return wrong and f"Error: {wrong}"


def misfit(called: str, parameters: Mapping[str, bool], kwargs: Mapping[str, Any]) -> str | None:
    """Return Python's error for a function that is called with other names of arguments.

    Args:
        called: The function, as Python names it.
        parameters: Its parameters, and whether each is required.
        kwargs: The arguments.
    """
    for key in kwargs:
        if key not in parameters:
            return f"{called} got an unexpected keyword argument '{key}'"
    missing = [repr(one) for one, needed in parameters.items() if needed and one not in kwargs]
    if not missing:
        return None
    *most, last = missing
    listed = f"{', '.join(most)}{',' if len(most) > 1 else ''} and {last}" if most else last
    plural = "s" if most else ""
    return f"{called} missing {len(missing)} required positional argument{plural}: {listed}"


def known(found: T | None, what: str) -> T:
    """Return a record, or raise `Refused` if there is none."""
    if found is None:
        raise Refused(f"{what} not found")
    return found


def capitalized(tool: Tool) -> Tool:
    """Return a tool of tau-bench whose refusals begin with a capital, as in tau2-bench."""

    def call(db: Database, **kwargs: Any) -> str:
        try:
            return tool(db, **kwargs)
        except Refused as refusal:
            said = str(refusal)
            raise Refused(f"{said[:1].upper()}{said[1:]}") from None

    return call


def _calculate(db: Database, expression: Any) -> str:
    """Compute an expression as tau2-bench does."""
    return calculate(expression).replace("Error: invalid", "Error: Invalid")


SHARED_TOOLS: Final[Mapping[str, Tool]] = {
    "calculate": lambda db, expression: calculate(expression),
    "think": lambda db, thought: "",
    TRANSFER: lambda db, summary: "Transfer successful",
}
"""The tools of every domain."""

TAU3_SHARED_TOOLS: Final[Mapping[str, Tool]] = {
    "calculate": _calculate,
    TRANSFER: SHARED_TOOLS[TRANSFER],
}
"""The tools of tau2-bench's retail and airline domains that are the same in both."""
