"""Where nothing can be written: what only reads works, and what writes says what to do instead."""

import json
import shutil
from pathlib import Path

import pytest

from bank_doors import bank_file
from sealed import sealed
from skillwright.runs import RunStore

pytestmark = pytest.mark.heavy

HOME = {
    "run": {"name": "home"},
    "env": {"name": "alfworld", "data": {"kind": "generated", "train": 12, "val": 12, "test": 6}},
    "models": {
        "target": {"backend": "scripted", "model": "household"},
        "optimizer": {"backend": "scripted", "model": "analyst"},
        "teacher": {"backend": "scripted", "model": "household_teacher"},
    },
    "train": {"epochs": 1, "batch_size": 12},
    "evaluation": {"gate": {"kind": "strict"}},
}

LOOKS = [
    ("runs", "list"),
    ("runs", "show", "home"),
    ("runs", "show", "torn"),  # a process was killed, and its log came without the index
    ("runs", "episodes", "home", "--grep", "go to"),
    ("runs", "episodes", "latest"),
    ("runs", "view", "torn", "e1"),
    ("compare", "home", "first"),
    ("bank", "show", "t001"),
    ("bank", "log"),
    ("bank", "log", "--bank", "torn.sqlite"),
    ("bank", "stats"),
    ("bank", "lint"),
    ("bank", "diff", 0),
    ("bank", "search", "In the attic", "--env", "alfworld"),
    ("bank", "export", "{free}/bank.json"),
    ("estimate", "home.yaml"),
    ("eval", "home.yaml", "--skill", "runs/home/best_skill.md", "--set", "run.root={free}"),
    ("eval", "home.yaml", "--set", "skill.bank=bank.sqlite", "--set", "run.root={free}"),
    ("train", "home.yaml", "--set", "run.root={free}"),
]
COPY = "copy it to a folder of your own and name the copy"
WRITES = [
    (("train", "home.yaml"), "cannot be made: Read-only file system. Name a folder that can"),
    (("eval", "home.yaml"), "can be written as run.root"),
    (("demo", "--half", "text"), "run folder 'runs/demo' cannot be made"),
    (("resume", "home"), "to resume it, copy 'runs/home' to a folder of your own"),
    (("resume", "torn"), "`skillwright runs show runs/torn` looks at it there"),
    (("bank", "import", "seed:alfworld"), f"its folder is read-only. It can be looked at there; to "
                                          f"change it, {COPY}"),
    (("bank", "import", "seed:alfworld", "--bank", "new.sqlite"), "new.sqlite cannot be made"),
    (("bank", "rollback", 0, "--reason", "x"), COPY),
    (("bank", "approve", "--without-gate", "x"), COPY),
    (("bank", "distill", "home.yaml"), "Copy the bank to a folder of your own"),
    (("bank", "evolve", "home.yaml"), "Copy the bank to a folder of your own"),
    (("bank", "export", "out.json"), "error: out.json: Read-only file system"),
    (("bank", "export", "folders"), "Read-only file system"),
    (("env", "init", "my_bench"), "Read-only file system"),
]  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Run all commands in a folder with runs and banks that is read-only; return what each said."""
    folder = tmp_path_factory.mktemp("sealed")
    free = tmp_path_factory.mktemp("free")
    (folder / "home.yaml").write_text(json.dumps(HOME), encoding="utf-8")
    prepare(folder)
    words = [[str(word).format(free=free) for word in one] for one in commands()]
    return dict(zip(commands(), sealed(folder, words), strict=True))


def commands():
    return [*LOOKS, *(words for words, _ in WRITES)]


def prepare(folder):
    """Leave runs and banks there, finished ones and ones whose process was killed."""
    from typer.testing import CliRunner

    from skillwright.cli.app import app

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for words in (["train", "home.yaml"], ["eval", "home.yaml", "--set", "run.name=first"]):
            assert CliRunner().invoke(app, words).exit_code == 0
    torn = folder / "runs" / "torn"
    with RunStore.open(folder / "runs" / "home" / "run.sqlite") as store:
        store.append_event("kept", {"in": "the log"})
        shutil.copytree(folder / "runs" / "home", torn)
        (torn / "run.sqlite-shm").unlink()
    bank_file(folder / "bank.sqlite")
    shutil.copy(folder / "bank.sqlite", folder / "torn.sqlite")
    (folder / "torn.sqlite-wal").touch()


@pytest.mark.parametrize("words", LOOKS, ids=lambda words: "-".join(map(str, words[:3])))
def test_what_only_reads_works(told, words):
    assert told[words].code == 0, told[words].stderr


@pytest.mark.parametrize(("words", "said"), WRITES)
def test_what_writes_is_refused_with_the_next_move(told, words, said):
    result = told[words]
    assert result.code == 2
    assert " ".join(result.stderr.split()).startswith("error: ")
    assert said in " ".join(result.stderr.split())
    assert not Path(str(words[-1])).exists()
