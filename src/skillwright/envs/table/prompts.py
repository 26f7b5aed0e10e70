"""The prompt about a row: a Jinja template over the columns."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from jinja2 import Template, TemplateError, meta, nodes

from skillwright.core import DataError, did_you_mean
from skillwright.envs.table.bounded import BoundedTemplates, filled_in

ROW: Final = "row"
"""The name of the whole row in a template: ``row["Customer message"]``."""

# Templates load no file and have no access to Python objects.
_JINJA: Final = BoundedTemplates()
_FAULTS: Final = (
    *(TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError),
    *(RecursionError, MemoryError, SyntaxError),
)


def render_prompt(source: str, row: Mapping[str, Any]) -> str:
    """Render a template with a row; a cell without a value prints as nothing.

    Raises:
        DataError: The template is malformed, does too much work, or names a column that the row
            lacks.
    """
    try:
        return filled_in(_template(source), source, {**row, ROW: row}).strip()
    except _FAULTS as error:
        raise DataError(f"the prompt's template cannot be filled in: {_said(error)}") from error


@lru_cache(maxsize=16)
def columns_in(source: str) -> tuple[str, ...]:
    """Return the columns that a template names, sorted.

    Raises:
        DataError: It is malformed.
    """
    try:
        tree = _JINJA.parse(source)
        undeclared = meta.find_undeclared_variables(tree)
    except (TemplateError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise DataError(f"the prompt's template, line {line}: {_said(error)}") from error
    return tuple(sorted({*undeclared, *_of_the_row(tree)} - {ROW}))


def shows_whole_rows(source: str) -> bool:
    """Tell whether a template uses the variable ``row`` other than to name a column of it."""
    tree = _JINJA.parse(source)
    uses = sum(_is_row(name) for name in tree.find_all(nodes.Name))
    return uses > len(list(_of_the_row(tree)))


def refuse_other_columns(source: str, columns: Sequence[str], where: str) -> None:
    """Refuse a template that names no column, or a missing one.

    Raises:
        DataError: It does; the message names the nearest column.
    """
    named = columns_in(source)
    for name in named:
        if name not in columns:
            raise no_column("the prompt", name, columns, where)
    if not named and not shows_whole_rows(source):
        raise DataError(
            f"env.config.prompt names no column, so that all rows ask the same. Write one such as "
            f"{placeholder(columns[0])}; {where} has {_listed(columns)}"
        )


def no_column(what: str, name: str, columns: Sequence[str], where: str) -> DataError:
    """Return the error that something names a missing column."""
    return DataError(
        f"{what} names the column {name!r}, which {where} lacks. {did_you_mean(name, columns)} "
        f"Its columns are {_listed(columns)}"
    )


def placeholder(column: str) -> str:
    """Return the template's placeholder for a column."""
    plain = f"{{{{ {column} }}}}"
    # Jinja reserves words such as `not` and `true`.
    if column.isidentifier() and column != "not" and columns_in(plain) == (column,):
        return plain
    return f"{{{{ {ROW}[{quoted(column)}] }}}}"


def quoted(text: str) -> str:
    """Quote a text so that JSON, YAML and Jinja read it back equally."""
    # Only JSON joins surrogate escapes to one character.
    return json.dumps(text, ensure_ascii=not text.isprintable())


@lru_cache(maxsize=16)
def _template(source: str) -> Template:
    return _JINJA.compiled(source)


def _said(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it calls itself without end, or is nested too deep"
    if isinstance(error, MemoryError):
        return "it needs more memory than this process may take"
    return str(error)


def _of_the_row(tree: nodes.Template) -> Iterable[str]:
    for node in tree.find_all(nodes.Getitem):
        if _is_row(node.node) and isinstance(node.arg, nodes.Const):
            yield str(node.arg.value)
    for attribute in tree.find_all(nodes.Getattr):
        if _is_row(attribute.node) and attribute.attr not in _METHODS:
            yield attribute.attr


_METHODS: Final = frozenset({"items", "keys", "values", "get"})


def _is_row(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == ROW


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in columns[:20])
    return shown if len(columns) <= 20 else f"{shown}, and {len(columns) - 20} more"
