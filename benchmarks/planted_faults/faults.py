"""Draw faults from the source, find them again after the source has moved, and plant them."""

import ast
import copy
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

SKIPPED = re.compile(
    r"config/re(moved|named)\.py|gates/sequential\.py|train/bets\.py|critical_path\.py|__main__|jobs/(rl/)?__init__"
)
REMOVED = re.compile(r"hnsw|usearch|\bahead\b|\bbets?\b|sequential|critical_path", re.IGNORECASE)
QUIET = re.compile(r"\b(\w*log|logger|warn\w*|echo|print|info|debug|note|say|warnings)(\.\w+)*\(")
SWAPPED_OPERATORS: dict[type, tuple[str, type]] = {
    ast.Lt: ("boundary", ast.LtE),
    ast.LtE: ("boundary", ast.Lt),
    ast.Gt: ("boundary", ast.GtE),
    ast.GtE: ("boundary", ast.Gt),
    ast.Eq: ("comparison", ast.NotEq),
    ast.NotEq: ("comparison", ast.Eq),
    ast.In: ("comparison", ast.NotIn),
    ast.NotIn: ("comparison", ast.In),
    ast.Is: ("comparison", ast.IsNot),
    ast.IsNot: ("comparison", ast.Is),
    ast.And: ("and_or", ast.Or),
    ast.Or: ("and_or", ast.And),
    ast.Sub: ("arithmetic", ast.Add),
    ast.Mult: ("arithmetic", ast.Add),
    ast.FloorDiv: ("arithmetic", ast.Mult),
    ast.Div: ("arithmetic", ast.Mult),
}
SWAPPED_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
SWAPPED_NAMES |= {"startswith": "endswith", "endswith": "startswith"}
CHANCES = {"boundary": 3.0, "default": 3.0, "slice": 2.0, "return_dropped": 0.4}
CHANCES |= {"swapped_arguments": 0.5, "condition_negated": 0.6}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of one statement; text is in the form that `ast.unparse` gives it."""

    id: int
    package: str
    path: str  # below src/skillwright
    function: str  # qualified name
    statement: str  # of a compound statement, the header
    nth: int  # position among equal statements of the function
    node: int  # position of the changed node in `ast.walk` of the statement
    kind: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a file where a fault can be planted."""

    path: Path
    function: Function
    statement: ast.stmt
    node: ast.AST


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """List the functions of a module with their qualified names."""
    for child in ast.iter_child_nodes(tree):
        named = isinstance(child, Function | ast.ClassDef)
        name = f"{prefix}{child.name}" if named else prefix.removesuffix(".")
        if isinstance(child, Function):
            yield name, child
        yield from functions(child, f"{name}." if name else "")


def statements(function: Function) -> Iterator[ast.stmt]:
    """List a function's own statements, without bodies; its header first."""

    def own(node: ast.AST) -> Iterator[ast.stmt]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield header(child)
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case) and not isinstance(
                child, Function | ast.ClassDef
            ):
                yield from own(child)

    yield header(function)
    yield from own(function)


def header(statement: ast.stmt) -> Any:
    """Copy a statement without its body; its expressions are shared with the original."""
    bare: Any = copy.copy(statement)
    for block in ("body", "orelse", "finalbody", "handlers", "cases", "decorator_list"):
        if hasattr(bare, block):
            setattr(bare, block, [])
    return bare


def changed(node: ast.AST, **fields: Any) -> str:
    """Return the text of a node with some of its fields replaced."""
    bare = copy.copy(node)
    for name, value in fields.items():
        setattr(bare, name, value)
    return ast.unparse(bare)


def operators(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield faults that exchange an operator."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPPED_OPERATORS:
            kind, other = SWAPPED_OPERATORS[type(op)]
            yield kind, changed(node, ops=[other()])
        case ast.BinOp(op=ast.Div(), right=ast.Constant(value=str()) | ast.JoinedStr()):
            return  # a path
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in SWAPPED_OPERATORS:
            kind, other = SWAPPED_OPERATORS[type(op)]
            yield kind, changed(node, op=other())
        case ast.BinOp(op=ast.Add(), right=ast.Constant(value=int() | float())):
            yield "arithmetic", changed(node, op=ast.Sub())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not_removed", ast.unparse(operand)


def values(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield faults that change a constant, a slice or the arguments of a call."""
    match node:
        case ast.Constant(value=bool() as value):
            yield "constant", repr(not value)
        case ast.Constant(value=int() as number):
            yield "constant", repr(number + 1)
        case ast.Slice(lower=ast.expr() as bound) | ast.Slice(upper=ast.expr() as bound):
            one = ast.BinOp(bound, ast.Add(), ast.Constant(1))
            yield "slice", changed(node, **{"lower" if node.lower else "upper": one})
        case ast.Call(func=ast.Name(id=name)) if name in SWAPPED_NAMES and len(node.args) == 1:
            yield "call", changed(node, func=ast.Name(SWAPPED_NAMES[name]))
        case ast.Call(func=ast.Attribute(attr=name)) if name in SWAPPED_NAMES:
            yield "call", changed(node, func=changed_attribute(node.func, SWAPPED_NAMES[name]))
        case ast.Call(
            args=[ast.Name() | ast.Attribute() as one, ast.Name() | ast.Attribute() as two]
        ):
            if ast.unparse(node.func) not in ("isinstance", "getattr", "cast", "issubclass"):
                yield "swapped_arguments", changed(node, args=[two, one])


def changed_attribute(node: ast.expr, name: str) -> Any:
    """Copy an attribute access with another name."""
    bare: Any = copy.copy(node)
    bare.attr = name
    return bare


def flow(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield faults of a whole statement."""
    match node:
        case ast.Return(value=ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()) as value):
            yield "return_negated", f"return not ({ast.unparse(value)})"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return_dropped", "return None"
        case (
            ast.Continue()
            | ast.Break()
            | ast.AugAssign()
            | ast.Expr(value=ast.Call() | ast.Await())
        ):
            yield "statement_removed", "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement_removed", "pass"


def changes(statement: Any) -> Iterator[tuple[int, str, str, str]]:
    """Yield node, kind, text before and text after of each fault that a statement can have."""
    text = ast.unparse(statement)
    if isinstance(statement, ast.Raise | ast.Assert | ast.ClassDef) or QUIET.search(text):
        return
    of_function = isinstance(statement, Function)
    nodes = list(ast.walk(statement))
    strings = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    left_out = {id(part) for string in strings for part in ast.walk(string)}
    if hint := getattr(statement, "annotation", None):
        left_out |= {id(part) for part in ast.walk(hint)}
    defaults: list[Any] = []
    if of_function:
        defaults = [*statement.args.defaults, *statement.args.kw_defaults]
    for index, node in enumerate(nodes):
        if id(node) in left_out or (of_function and node not in defaults):
            continue
        found = [*values(node)] if of_function else [*operators(node), *values(node), *flow(node)]
        if isinstance(statement, ast.If | ast.While) and node is statement.test and not found:
            found = [("condition_negated", f"not ({ast.unparse(node)})")]
        for kind, after in found:
            before = ast.unparse(node)
            if before != after and "yield" not in before:
                yield index, "default" if of_function else kind, before, after


def sites_in(path: Path, inside: str) -> list[Fault]:
    """List all faults that a file can have, with id 0."""
    found: list[Fault] = []
    package = inside.partition("/")[0] if "/" in inside else "api"
    for name, function in functions(ast.parse(path.read_text(encoding="utf-8"))):
        if REMOVED.search(ast.unparse(function)) or name.startswith("__getattr__"):
            continue
        seen: dict[str, int] = {}
        for statement in statements(function):
            text = ast.unparse(statement)
            nth = seen[text] = seen.get(text, -1) + 1
            for node, kind, before, after in changes(statement):
                found.append(Fault(0, package, inside, name, text, nth, node, kind, before, after))
    return found


def draw(source: Path, seed: int, count: int, least: int) -> list[Fault]:
    """Draw faults: packages by their lines, files by their lines, kinds with equal chances."""
    randomness = random.Random(seed)
    lines: dict[str, dict[str, int]] = {}
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source).as_posix()
        package = inside.partition("/")[0] if "/" in inside else "api"
        if not SKIPPED.search(inside):
            size = path.read_text(encoding="utf-8").count("\n")
            lines.setdefault(package, {})[inside] = size
    total = sum(sum(files.values()) for files in lines.values())
    drawn: list[Fault] = []
    for files in lines.values():
        wanted = max(least, round(count * sum(files.values()) / total))
        last = len(drawn) + wanted
        pools = {inside: sites_in(source / inside, inside) for inside in files}
        while len(drawn) < last and any(pools.values()):
            weights = [files[inside] if pools[inside] else 0 for inside in files]
            pool = pools[randomness.choices(list(files), weights)[0]]
            kinds = sorted({fault.kind for fault in pool})
            kind = randomness.choices(kinds, [CHANCES.get(one, 1.0) for one in kinds])[0]
            fault = randomness.choice([fault for fault in pool if fault.kind == kind])
            pool[:] = [
                other
                for other in pool
                if other.function != fault.function
                or (wanted == least and other.statement != fault.statement)
            ]
            drawn.append(Fault(len(drawn) + 1, *_rest(fault)))
    return drawn


def _rest(fault: Fault) -> tuple[Any, ...]:
    return tuple(getattr(fault, name) for name in Fault.__slots__[1:])


class Sources:
    """The functions of a source tree, to find faults in."""

    def __init__(self, source: Path, renames: Mapping[str, str]) -> None:
        self._renames = renames
        self._source = source
        self._named: dict[str, list[tuple[Path, str, Function]]] = {}
        for path in sorted(source.rglob("*.py")):
            for name, function in functions(ast.parse(path.read_text(encoding="utf-8"))):
                last = name.rpartition(".")[2]
                self._named.setdefault(last, []).append((path, name, function))

    def renamed(self, text: str) -> str:
        """Replace old names by new ones."""
        for old, new in self._renames.items():
            text = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, text)
        return text

    def find(self, fault: Fault) -> Site | None:
        """Find a fault's statement: first where it was, then in any function of its name.

        A statement that was reworded is found when it is alike and holds the changed text.
        """
        name, text, before = map(self.renamed, (fault.function, fault.statement, fault.before))
        places = sorted(
            self._named.get(name.rpartition(".")[2], []),
            key=lambda place: (
                place[0] != self._source / fault.path,
                place[1] != name,
                place[0].name != Path(fault.path).name,
            ),
        )
        for path, _, function in places:
            equal = [item for item in statements(function) if ast.unparse(item) == text]
            if equal:
                statement = equal[min(fault.nth, len(equal) - 1)]
                return Site(path, function, statement, list(ast.walk(statement))[fault.node])
        best: tuple[float, Site | None] = (0.85, None)
        for path, _, function in places:
            for statement in statements(function):
                alike = SequenceMatcher(None, ast.unparse(statement), text).ratio()
                nodes = [node for node in ast.walk(statement) if _text(node) == before]
                if nodes and alike > best[0]:
                    best = alike, Site(path, function, statement, nodes[0])
        return best[1]


def _text(node: ast.AST) -> str:
    """Return a node's text; operators and contexts have none."""
    return ast.unparse(node) if isinstance(node, ast.expr | ast.stmt | ast.Slice) else ""


def replace(text: str, node: Any, new: str) -> str:
    """Replace a node's text; the number of lines stays, so that other code keeps its place."""
    data = text.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    begin = starts[node.lineno - 1] + node.col_offset
    end = starts[node.end_lineno - 1] + node.end_col_offset
    padding = b"\n" * (data[begin:end].count(b"\n") - new.count("\n"))
    opened, closed = (b"", b"")
    if isinstance(node, ast.expr) and not isinstance(node, ast.Slice):
        opened, closed = b"(", b")"
    return (data[:begin] + opened + new.encode() + padding + closed + data[end:]).decode()
