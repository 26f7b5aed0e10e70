"""Tell the reference pages which names a package exports: ``from module import Name as Name``."""

import ast
from typing import Any

import griffe


class PublicNames(griffe.Extension):
    """Takes a package's redundant aliases as its public names, as type checkers do."""

    def on_module_members(self, *, node: Any, mod: griffe.Module, **kwargs: Any) -> None:
        """Set the exports of a package without ``__all__``."""
        if mod.exports is not None or not mod.is_init_module or not isinstance(node, ast.AST):
            return
        names = [
            alias.name
            for one in ast.walk(node)
            if isinstance(one, ast.ImportFrom)
            for alias in one.names
            if alias.name == alias.asname
        ]
        mod.exports = list(names) or None
