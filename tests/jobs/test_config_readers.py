"""No dead knobs: every key that a configuration may set is read by what runs."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import skillwright
from skillwright.config import RunConfig
from skillwright.config.yaml_files import key_paths

SOURCE = Path(skillwright.__file__).parent
# What declares, checks, translates or shows a key does not act on it.
NO_READERS = ("config/", "models/config.py", "cli/")
# The schema itself acts on these: which member of a union it is, and which defaults hold.
OF_THE_SCHEMA = {"env.data.kind", "evaluation.gate.kind", "run.parity"}
# Makes settings of the sections that it declares.
ALSO_READS = {"config/bank.py"}
# What a section is called where it is handed on under another name; learners call theirs settings.
ALSO_CALLED = {
    "bank": {"self", "settings"},
    "distill": {"self", "settings", "_settings"},
    "evolve": {"self", "settings"},
    "evaluation": {"limits"},
    "gradient": {"settings"},
    "optimizer": {"config", "settings"},
    "optimizer.skill_aware": {"aware", "self"},
    "rollout": {"limits"},
    "rollout.ray": {"settings"},
}


# A gate's class is the section `evaluation.gate` itself.
GATES = "evaluation/gates/"


class Read(NamedTuple):
    """An attribute that is read, or a name that is asked for: ``gate.draws``."""

    owner: str
    name: str


def name_of(node: ast.expr) -> str:
    """Return the last name of an expression: ``data`` of ``data`` and of ``self.data``."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def reads_in(tree: ast.AST, me: str = "self") -> Iterator[Read]:
    """Find what is read in a file, ``me`` being what ``self`` is called there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            owner = name_of(node.value)
            yield Read(me if owner == "self" else owner, node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            # An environment is handed its section as a mapping.
            if isinstance(node.slice, ast.Constant):
                yield Read(name_of(node.value), str(node.slice.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            match node.func.attr, node.args:
                case "get", [ast.Constant(value=key), *_]:
                    yield Read(name_of(node.func.value), str(key))
        elif isinstance(node, ast.MatchClass):
            owner = getattr(node.cls, "id", "")
            yield from (Read(owner, name) for name in node.kwd_attrs)


@pytest.fixture(scope="module")
def reads() -> set[Read]:
    files = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    return {
        read
        for name, path in files.items()
        if name in ALSO_READS or not name.startswith(NO_READERS)
        for read in reads_in(
            ast.parse(path.read_text(encoding="utf-8")),
            me="gate" if name.startswith(GATES) else "self",
        )
    }


def leaves() -> list[str]:
    paths = [place.path for place in key_paths(RunConfig)]
    return [path for path in paths if not any(one.startswith(f"{path}.") for one in paths)]


def is_reader(read: Read, key: str) -> bool:
    """Whether a read is one of this key; a model's settings have other owners in every dialect."""
    section, _, leaf = key.rpartition(".")
    owners = {section.rpartition(".")[2]} | ALSO_CALLED.get(section, set())
    return read.name == leaf and (key.startswith("models.") or read.owner in owners)


@pytest.mark.parametrize("key", sorted(set(leaves()) - OF_THE_SCHEMA))
def test_every_key_has_a_reader(key, reads):
    assert any(is_reader(read, key) for read in reads), f"nothing in src reads {key}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = run.config.train.patience", True),
        ("match train:\n    case train(patience=p): pass", True),
        ("x = train['patience']", True),
        ("x = self.train['patience']", True),
        ("x = train.get('patience') or 5", True),
        ("run.config.train.patience = 5", False),
        ("train['patience'] = 5", False),
        ("x = somebody.get('patience')", False),
        ("x = train.pop('patience')", False),
        ("x = somebody.patience", False),
        ("x = 'train.patience'", False),
    ],
)
def test_a_key_without_a_reader_would_be_found(source, found):
    reads = set(reads_in(ast.parse(source)))
    assert any(is_reader(read, "train.patience") for read in reads) is found
