"""Draw faults from the source, find them again after the source has moved, and plant them."""

import ast
import copy
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

# What was to be removed soon when the list was drawn, and calls that only report.
SKIPPED = re.compile(
    r"config/re(moved|named)\.py|gates/sequential\.py|train/bets\.py|critical_path\.py|__main__"
    r"|jobs/(rl/)?__init__"
)
REMOVED = re.compile(r"hnsw|usearch|\bahead\b|\bbets?\b|sequential|critical_path", re.IGNORECASE)
QUIET = re.compile(r"\b(\w*log|logger|warn\w*|echo|print|info|debug|note|say|warnings)(\.\w+)*\(")

OPERATORS = {
    getattr(ast, old): (kind, getattr(ast, new))
    for kind, old, new in (
        *(("boundary", "Lt", "LtE"), ("boundary", "LtE", "Lt")),
        *(("boundary", "Gt", "GtE"), ("boundary", "GtE", "Gt")),
        *(("comparison", "Eq", "NotEq"), ("comparison", "NotEq", "Eq")),
        *(("comparison", "In", "NotIn"), ("comparison", "NotIn", "In")),
        *(("comparison", "Is", "IsNot"), ("comparison", "IsNot", "Is")),
        *(("and_or", "And", "Or"), ("and_or", "Or", "And")),
        *(("arithmetic", "Sub", "Add"), ("arithmetic", "Mult", "Add")),
        *(("arithmetic", "FloorDiv", "Mult"), ("arithmetic", "Div", "Mult")),
    )
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
NAMES |= {"startswith": "endswith", "endswith": "startswith"}
WEIGHTS = {"boundary": 3.0, "default": 3.0, "slice": 2.0, "return_dropped": 0.4}
WEIGHTS |= {"swapped_arguments": 0.5, "condition_negated": 0.6}
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
    node: Any


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """List the functions of a module with their qualified names."""
    for child in ast.iter_child_nodes(tree):
        named = isinstance(child, Function | ast.ClassDef)
        name = f"{prefix}{child.name}" if named else prefix.removesuffix(".")
        if isinstance(child, Function):
            yield name, child
        yield from functions(child, f"{name}." if name else "")


def statements(function: Function) -> Iterator[Any]:
    """List the headers of a function and of its own statements; expressions are shared."""

    def own(node: ast.AST) -> Iterator[Any]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield header(child)
            if isinstance(child, Function | ast.ClassDef):
                continue
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield from own(child)

    yield header(function)
    yield from own(function)


def header(statement: ast.stmt) -> Any:
    """Copy a statement without its body."""
    blocks = ("body", "orelse", "finalbody", "handlers", "cases", "decorator_list")
    return _with(statement, **{name: [] for name in blocks if hasattr(statement, name)})


def _with(node: ast.AST, **fields: Any) -> Any:
    """Copy a node with some of its fields replaced."""
    bare = copy.copy(node)
    for name, value in fields.items():
        setattr(bare, name, value)
    return bare


def _operators(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in OPERATORS:
            kind, other = OPERATORS[type(op)]
            yield kind, ast.unparse(_with(node, ops=[other()]))
        case ast.BinOp(op=ast.Div(), right=ast.Constant(value=str()) | ast.JoinedStr()):
            return  # a path
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in OPERATORS:
            kind, other = OPERATORS[type(op)]
            yield kind, ast.unparse(_with(node, op=other()))
        case ast.BinOp(op=ast.Add(), right=ast.Constant(value=int() | float())):
            yield "arithmetic", ast.unparse(_with(node, op=ast.Sub()))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not_removed", ast.unparse(operand)


def _values(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Constant(value=bool() as value):
            yield "constant", repr(not value)
        case ast.Constant(value=int() as number):
            yield "constant", repr(number + 1)
        case ast.Slice(lower=ast.expr() as bound) | ast.Slice(upper=ast.expr() as bound):
            one = ast.BinOp(bound, ast.Add(), ast.Constant(1))
            yield "slice", ast.unparse(_with(node, **{"lower" if node.lower else "upper": one}))
        case ast.Call(func=ast.Name(id=name)) if name in NAMES and len(node.args) == 1:
            yield "call", ast.unparse(_with(node, func=_with(node.func, id=NAMES[name])))
        case ast.Call(func=ast.Attribute(attr=name)) if name in NAMES:
            yield "call", ast.unparse(_with(node, func=_with(node.func, attr=NAMES[name])))
        case ast.Call(args=[ast.Name() | ast.Attribute(), ast.Name() | ast.Attribute()]):
            if ast.unparse(node.func) not in ("isinstance", "getattr", "cast", "issubclass"):
                yield "swapped_arguments", ast.unparse(_with(node, args=node.args[::-1]))


def _flow(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Return(value=ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()) as value):
            yield "return_negated", f"return not ({ast.unparse(value)})"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return_dropped", "return None"
        case ast.Continue() | ast.Break() | ast.AugAssign():
            yield "statement_removed", "pass"
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "statement_removed", "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement_removed", "pass"


def changes(statement: Any) -> Iterator[tuple[int, str, str, str]]:
    """Yield node, kind, text before and text after of each fault that a statement can have."""
    if isinstance(statement, ast.Raise | ast.Assert | ast.ClassDef):
        return
    if QUIET.search(ast.unparse(statement)):
        return
    nodes = list(ast.walk(statement))
    aside = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    aside += [hint] if (hint := getattr(statement, "annotation", None)) else []
    left_out = {id(part) for whole in aside for part in ast.walk(whole)}
    of_function = isinstance(statement, Function)
    if of_function:
        kept = [*statement.args.defaults, *statement.args.kw_defaults]
        left_out |= {id(node) for node in nodes if node not in kept}
    for index, node in enumerate(nodes):
        if id(node) in left_out:
            continue
        found = [] if of_function else [*_operators(node)]
        found += _values(node)
        found += [] if of_function else _flow(node)
        if isinstance(statement, ast.If | ast.While) and node is statement.test and not found:
            found = [("condition_negated", f"not ({ast.unparse(node)})")]
        for kind, after in found:
            before = ast.unparse(node)
            if before != after and "yield" not in before:
                yield index, "default" if of_function else kind, before, after


def faults_in(path: Path, inside: str) -> list[Fault]:
    """List all faults that a file can have, with id 0."""
    found: list[Fault] = []
    for name, function in functions(ast.parse(path.read_text(encoding="utf-8"))):
        if REMOVED.search(ast.unparse(function)) or name.startswith("__getattr__"):
            continue
        seen: dict[str, int] = {}
        for statement in statements(function):
            text = ast.unparse(statement)
            nth = seen[text] = seen.get(text, -1) + 1
            where = (0, package_of(inside), inside, name, text, nth)
            found += [Fault(*where, *change) for change in changes(statement)]
    return found


def package_of(inside: str) -> str:
    """Return the package of a file; the modules at the top count as one."""
    return inside.partition("/")[0] if "/" in inside else "api"


def draw(source: Path, seed: int, count: int, least: int) -> list[Fault]:
    """Draw packages and files by their lines, then kinds by `WEIGHTS`, then places."""
    rng = random.Random(seed)
    lines: dict[str, dict[str, int]] = {}
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source).as_posix()
        if not SKIPPED.search(inside):
            size = path.read_text(encoding="utf-8").count("\n")
            lines.setdefault(package_of(inside), {})[inside] = size
    total = sum(sum(files.values()) for files in lines.values())
    drawn: list[Fault] = []
    for files in lines.values():
        wanted = max(least, round(count * sum(files.values()) / total))
        last = len(drawn) + wanted
        pools = {inside: faults_in(source / inside, inside) for inside in files}
        while len(drawn) < last and any(pools.values()):
            sizes = [files[inside] if pools[inside] else 0 for inside in files]
            pool = pools[rng.choices(list(files), sizes)[0]]
            kinds = sorted({fault.kind for fault in pool})
            kind = rng.choices(kinds, [WEIGHTS.get(one, 1.0) for one in kinds])[0]
            fault = rng.choice([fault for fault in pool if fault.kind == kind])
            pool[:] = [
                other
                for other in pool
                if other.function != fault.function
                or (wanted == least and other.statement != fault.statement)
            ]
            drawn.append(replace(fault, id=len(drawn) + 1))
    return drawn


class Sources:
    """The functions of a source tree, to find faults in."""

    def __init__(self, source: Path, renames: Mapping[str, str]) -> None:
        self._source = source
        self._renames = renames
        self._named: dict[str, list[tuple[Path, str, Function]]] = {}
        for path in sorted(source.rglob("*.py")):
            for name, function in functions(ast.parse(path.read_text(encoding="utf-8"))):
                places = self._named.setdefault(name.rpartition(".")[2], [])
                places.append((path, name, function))

    def _renamed(self, text: str) -> str:
        for old, new in self._renames.items():
            text = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, text)
        return text

    def find(self, fault: Fault) -> Site | None:
        """Find a fault: first where it was, then in any function of its name.

        A statement that was reworded is found when it is alike and holds the changed text.
        """
        name, text, before = map(self._renamed, (fault.function, fault.statement, fault.before))
        was = self._source / fault.path
        places = sorted(
            self._named.get(name.rpartition(".")[2], []),
            key=lambda place: (place[0] != was, place[1] != name, place[0].name != was.name),
        )
        for path, _, function in places:
            if equal := [item for item in statements(function) if ast.unparse(item) == text]:
                nodes = list(ast.walk(equal[min(fault.nth, len(equal) - 1)]))
                return Site(path, function, nodes[fault.node])
        best: tuple[float, Site | None] = (0.85, None)
        for path, _, function in places:
            for item in statements(function):
                alike = SequenceMatcher(None, ast.unparse(item), text).ratio()
                nodes = [node for node in ast.walk(item) if _text(node) == before]
                if nodes and alike > best[0]:
                    best = alike, Site(path, function, nodes[0])
        return best[1]

    def mutant(self, fault: Fault) -> tuple[Path, str] | None:
        """Return the file that holds a fault, and its text with the fault planted."""
        if (site := self.find(fault)) is None:
            return None
        text = site.path.read_text(encoding="utf-8")
        return site.path, put(text, site.node, self._renamed(fault.after))


def _text(node: ast.AST) -> str:
    """Return a node's text; operators and contexts have none."""
    return ast.unparse(node) if isinstance(node, ast.expr | ast.stmt | ast.Slice) else ""


def put(text: str, node: Any, new: str) -> str:
    """Replace a node's text; the number of lines stays, so that other code keeps its place."""
    data = text.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    begin = starts[node.lineno - 1] + node.col_offset
    end = starts[node.end_lineno - 1] + node.end_col_offset
    padding = "\n" * (data[begin:end].count(b"\n") - new.count("\n"))
    bare = isinstance(node, ast.stmt | ast.Slice)
    new = f"{new}{padding}" if bare else f"({new}{padding})"
    return (data[:begin] + new.encode() + data[end:]).decode()
