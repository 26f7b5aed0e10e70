"""A repository shaped like tau-bench's, with content of our own or of whoever calls."""

import io
import json
import tarfile
from pathlib import Path

from tau_store import TABLES, TASKS

RETAIL = Path("tau_bench") / "envs" / "retail"
TOOL = """\
from typing import Any, Dict
from tau_bench.envs.tool import Tool


class {camel}(Tool):
    @staticmethod
    def invoke(data: Dict[str, Any], **kwargs: Any) -> str:
        return open("/dev/null").read()

    @staticmethod
    def get_info() -> Dict[str, Any]:
        return {info}
"""
# Shaped as tau-bench's own, in words of ours.
USER_PY = '''\
import abc
from litellm import completion


class LLMUserSimulationEnv(abc.ABC):
    def build_system_prompt(self, instruction):
        instruction_display = (
            ("\\n\\nWhat you want: " + instruction + "\\n")
            if instruction is not None
            else ""
        )
        return f"""You ring up a shop.{instruction_display}
Rules:
- Say '###STOP###' at the end."""


class ReactUserSimulationEnv(LLMUserSimulationEnv):
    def build_system_prompt(self, instruction):
        return "Think aloud."
'''
USER_WORDS = (
    "You ring up a shop.\n\nWhat you want: {instruction}\n\nRules:\n- Say '###STOP###' at the end."
)
INFO = {
    "type": "function",
    "function": {
        "name": "think",
        "description": "Think.",
        "parameters": {
            "type": "object",
            "properties": {"thought": {"type": "string"}},
            "required": ["thought"],
        },
    },
}


def python_task(entry) -> str:
    actions = ", ".join(
        f"Action(name={one['name']!r}, kwargs={one['kwargs']!r})" for one in entry["actions"]
    )
    return (
        f'Task(annotator="0", user_id={entry["user_id"]!r}, instruction={entry["instruction"]!r}, '
        f"actions=[{actions}], outputs={entry['outputs']!r})"
    )


def python_tasks(split, entries, domain="retail") -> str:
    name = "TASKS" if domain == "airline" else f"TASKS_{split.upper()}"
    listed = ",\n    ".join(python_task(entry) for entry in entries)
    return f"from tau_bench.types import Action, Task\n\n{name} = [\n    {listed}\n]\n"


def write_checkout(
    folder: Path, *, domain="retail", tables=None, tasks=None, rules=("Be kind.",), tools=(INFO,)
):
    """Write a checkout; ``tables`` are JSON texts by name, ``tasks`` are entries by split."""
    retail = folder / RETAIL.parent / domain
    (retail / "data").mkdir(parents=True)
    (retail / "tools").mkdir()
    for name, text in (tables or {name: json.dumps(TABLES[name]) for name in TABLES}).items():
        (retail / "data" / f"{name}.json").write_text(text)
    for split, entries in (tasks or {"test": TASKS, "train": TASKS[:1], "dev": []}).items():
        (retail / f"tasks_{split}.py").write_text(python_tasks(split, entries, domain))
    (retail / "rules.py").write_text(f"RULES = {list(rules)!r}\n")
    (retail / "wiki.md").write_text("# Policy\n")
    (retail / "tools" / "__init__.py").write_text("from .think import Think\nALL_TOOLS = [Think]\n")
    # Files are named so that their order is not that of the tools.
    for number, info in enumerate(reversed(tools)):
        text = TOOL.format(camel=f"Tool{number}", info=repr(info))
        (retail / "tools" / f"tool_{number:02}.py").write_text(text)
    (folder / "tau_bench" / "envs" / "user.py").write_text(USER_PY)
    (folder / "LICENSE").write_text("A license.\n")
    return folder


def write_archive(path: Path, checkout: Path, extra=()) -> Path:
    """Pack a checkout as GitHub does; ``extra`` are further members, name and content."""
    with tarfile.open(path, "w:gz") as tar:
        tar.add(checkout, arcname="tau-bench-abc")
        for name, content in extra:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path
