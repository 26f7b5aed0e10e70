"""What the core room promises to every other."""

import ast
import sys
from pathlib import Path

import skillwright.core


def test_core_imports_the_standard_library_itself_and_for_its_codec_pydantic():
    imported = set()
    for path in Path(skillwright.core.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module).split(".")[0])
    assert imported <= sys.stdlib_module_names | {"skillwright", "pydantic"}
