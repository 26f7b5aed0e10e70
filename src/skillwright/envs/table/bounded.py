"""Jinja templates with bounded work: a prompt is rendered within about a second, or refused.

Every loop, call, filter and operation that can enlarge a value is charged for its largest possible
result before it runs. So no value in a template is larger than the whole allowance.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final

from jinja2 import StrictUndefined, Template, TemplateError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from skillwright.core.jsonio import dumps

_ALLOWANCE: Final = 100_000_000  # of steps of about 10 ns
_PER_OPERATION: Final = 100
_PER_CALL: Final = 1000
_PER_ITEM: Final = 50
_LONGEST_NUMBER: Final = 10_000
_WIDEST: Final = 999  # characters to which a format pads a value
_WIDER: Final = re.compile(  # than that, or as wide as another value says
    r"%(?:\([^)]*\))?[-#0 +]*(?:\d*\.)?(?:\d{4}|\*)|\{[^{}]*:[^{}]*(?:\d{4}|\{)"
)
_CHARGE, _COUNT = "_charged", "_counted"
_FREE: Final = frozenset(  # filters that return a part of what they get
    {"truncate", "first", "last", "length", "count", "default", "d", _CHARGE, _COUNT}
    | {"select", "reject", "selectattr", "rejectattr"}
)

_left: ContextVar[list[int]] = ContextVar("left")
_source_chars: ContextVar[int] = ContextVar("source_chars", default=0)


class TooMuchWork(TemplateError):
    """A template loops too often, or produces a text that is too long."""


class BlankCell(str):
    """A cell without a value: it prints as nothing, and templates see it as ``none``."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other is None or other == ""

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class BoundedTemplates(ImmutableSandboxedEnvironment):
    """Templates with bounded work and without files, randomness or Python; see `filled_in`.

    ``None`` prints as nothing, lists and objects as JSON.
    """

    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False, finalize=_printed)
        # Every process must render a row equally.
        del self.globals["lipsum"], self.filters["random"]
        self.filters = {name: _charging(name, one) for name, one in self.filters.items()}
        self.filters[_CHARGE], self.filters[_COUNT] = _charged, _counted
        self.tests["none"] = lambda value: value is None or isinstance(value, BlankCell)

    def compiled(self, source: str) -> Template:
        """Return a template whose loops and literals are charged.

        Raises:
            TemplateError: It is malformed.
        """
        tree = self.parse(source)
        for node in tree.find_all(nodes.For):
            node.iter = nodes.Filter(node.iter, _COUNT, [], [], None, None)
        for joined in tree.find_all(nodes.Concat):
            joined.nodes = [_charge(one) for one in joined.nodes]
        for literal in tree.find_all((nodes.List, nodes.Tuple, nodes.Dict)):
            self._charge_items(literal)
        return self.from_string(tree)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute an operation whose result may be large."""
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if operator == "%" and isinstance(left, str):
            _spend(_formatted(left, right))
        elif not numbers:
            _spend(_product([left, right]) if operator == "*" else _size(left) + _size(right))
        elif operator in ("*", "**") and isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * abs(right) if operator == "**" else _bits(left, right)
            if bits > _LONGEST_NUMBER:
                raise TooMuchWork("a number is too long")
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, called: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: D102
        # Jinja wraps the methods that format.
        own = getattr(getattr(called, "__wrapped__", called), "__self__", "")
        given = [*args, *kwargs.values()]
        is_format = getattr(called, "__name__", "") in ("format", "format_map")
        # A method may repeat its own text.
        cost = _formatted(own, given) if is_format else _product([own, *given])
        _spend(cost + _PER_CALL + _source_chars.get())
        return super().call(context, called, *args, **kwargs)

    def _charge_items(self, node: nodes.Expr) -> None:
        if isinstance(node, nodes.Dict):
            for pair in node.items:
                pair.value = _charge(pair.value)
        elif isinstance(node, nodes.List) or (isinstance(node, nodes.Tuple) and node.ctx == "load"):
            node.items = [_charge(one) for one in node.items]


def filled_in(template: Template, source: str, values: Mapping[str, Any]) -> str:
    """Render a template that was compiled from ``source``.

    Raises:
        TooMuchWork: It loops too often, or a text or list in it is too long.
        RecursionError: It calls itself without end.
        TemplateError: It cannot be rendered, for example because a name has no value.
    """
    blank = BlankCell()
    marks = _left.set([_ALLOWANCE]), _source_chars.set(len(source))
    try:
        return template.render(
            {name: blank if one is None else one for name, one in values.items()}
        )
    finally:
        _left.reset(marks[0])
        _source_chars.reset(marks[1])


def _charge(node: nodes.Expr) -> nodes.Expr:
    return nodes.Filter(node, _CHARGE, [], [], None, None)


def _charged(value: Any) -> Any:
    _spend(_size(value))
    return value


def _counted(values: Iterable[Any]) -> Iterator[Any]:
    cost = _source_chars.get()  # an upper bound of the text of one iteration
    for value in values:
        _spend(cost)
        yield value


def _charging(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that is charged before it runs."""
    if name in _FREE:
        return made
    begin = int(hasattr(made, "jinja_pass_arg"))  # such filters get an object of Jinja first

    @wraps(made)
    def charged(*args: Any, **kwargs: Any) -> Any:
        value, *others = *args[begin:], *kwargs.values()
        if name == "format":
            _spend(_formatted(value, others))
        else:  # a number that is filtered is no count, such as a width
            _spend(_product([str(value) if isinstance(value, int) else value, *others]))
        if name == "join":
            args = tuple(_without_none(one) for one in args)
        return made(*args, **kwargs)

    return charged


def _without_none(value: Any) -> Any:
    is_list = isinstance(value, list | tuple)
    return [BlankCell() if one is None else one for one in value] if is_list else value


def _printed(value: Any) -> Any:
    """Return the printed form of a value, charged for its length."""
    if value is None:
        return ""
    _spend(_size(value))
    return dumps(value) if isinstance(value, dict | list) else value


def _spend(cost: int) -> None:
    left = _left.get([_ALLOWANCE])  # a constant is computed when a template is compiled
    left[0] -= cost + _PER_OPERATION
    if left[0] < 0:
        raise TooMuchWork("it loops too often, or makes a text that is too long")


def _product(values: Iterable[Any]) -> int:
    """Return an upper bound of the size of a result: the product of the two largest values.

    An integer counts as itself, because it may be a width or a number of repetitions.
    """
    sizes = (abs(one) if isinstance(one, int) else _size(one) for one in values)
    return math.prod(sorted(max(one, 1) for one in sizes)[-2:])


def _formatted(text: Any, values: Any) -> int:
    """Return an upper bound of the size of a format string that is filled in."""
    if _WIDER.search(str(text)):
        raise TooMuchWork(f"a format pads a value to more than {_WIDEST} characters")
    fields = str(text).count("%") + str(text).count("{")
    return _size(text) + fields * (_WIDEST + _size(values))


def _bits(*numbers: int) -> int:
    return sum(number.bit_length() for number in numbers)


def _size(value: Any) -> int:
    """Estimate the characters of a value as text; counting ends at the allowance."""
    total, rest = 0, [value]
    while rest and total <= _ALLOWANCE:
        one = rest.pop()
        total += _PER_ITEM if rest else 1
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, Mapping):
            rest += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            rest += one
        elif isinstance(one, int):
            total += one.bit_length() // 3
    return total
