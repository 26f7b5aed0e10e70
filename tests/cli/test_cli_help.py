"""Help lists every command without importing one, and says of each what it says of itself."""

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from plugged import install
from skillwright.cli.app import app

PROGRAM = typer.main.get_command(app)
ORDER = (
    *("demo", "init", "train", "rl", "sft", "internalize", "coevolve", "resume", "doctor"),
    *(
        "estimate",
        "eval",
        "check",
        "compare",
        "runs",
        "view",
        "report",
        "config",
        "regrade",
        "replay",
    ),
    *("fork", "serve", "policy", "skill", "bank", "learn-from-sessions", "verify"),
    *("env", "models", "data"),
)


@pytest.mark.parametrize("name", ORDER)
def test_the_list_says_of_a_command_what_it_says_of_itself(name):
    listed = PROGRAM.commands[name]
    itself = listed.load()
    assert " ".join(itself.help.split("\n\n")[0].split()) == listed.help
    assert itself.name == name


def test_the_program_lists_its_commands_under_headings(cli):
    text = cli("--help").stdout
    places = [text.index(f"│ {name} ") for name in ORDER]
    assert places == sorted(places)
    assert tuple(PROGRAM.commands) == ORDER
    for heading in ("Train", "Inspect", "Skills", "Data and environments"):
        assert f"─ {heading} ─" in text


def test_a_command_that_is_not_there_is_answered_with_the_nearest(cli):
    assert "Did you mean 'train'?" in cli("trian", code=2).stderr


def test_the_help_of_a_group_lists_its_own_commands(cli):
    text = cli("runs", "--help").stdout
    assert "skillwright runs [OPTIONS]" in text
    assert "│ list " in text
    assert "--install-completion" not in text


def test_help_and_completion_import_no_command():
    code = (
        "import sys\n"
        "from skillwright.cli.app import app\n"
        "try:\n    app(['--help'])\n"
        "finally:\n    print([name for name in sys.modules if name.startswith('skillwright.jobs')])"
    )
    words = [sys.executable, "-c", code]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert said.stdout.splitlines()[-1] == "[]", said.stderr


def test_only_training_of_weights_loads_torch():
    modules = "runs", "estimate", "training", "bank", "view", "doctor", "compare", "episodes"
    imports = "; ".join(f"import skillwright.cli.{name}" for name in modules)
    shown = "print(sorted({'torch', 'transformers'} & sys.modules.keys()))"
    code = f"import sys; {imports}; {shown}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


THEIRS = """
from skillwright.entry_points import Command
COUNT = Command("their_count:count", "Count things.", before="policy")
EACH = Command("their_count:each", "Count each thing.")
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The program where another package adds commands, one of them broken."""
    points = {"count": "their_commands:COUNT", "runs.each": "their_commands:EACH"}
    points["gone"] = "their_absent_module:GONE"
    modules = {
        "their_commands": THEIRS,
        "their_count": "def count():\n  print('three')\ndef each():\n  print('one each')",
    }
    groups = {"skillwright.commands": points}
    monkeypatch.syspath_prepend(install(tmp_path, "their_package", groups, modules))
    return typer.main.get_command(app)


def run(*words):
    return CliRunner().invoke(app, words)


def test_a_package_adds_a_command_by_an_entry_point(program):
    names = list(program.commands)
    assert names.index("fork") < names.index("count") < names.index("policy")
    assert "Count things." in run("--help").output
    assert run("count").output == "three\n"


@pytest.mark.usefixtures("program")
def test_a_package_adds_a_command_to_a_group():
    assert "Count each thing." in run("runs", "--help").output
    assert run("runs", "each").output == "one each\n"


@pytest.mark.usefixtures("program")
def test_a_broken_command_leaves_the_others_and_says_why_when_it_is_called():
    assert "Not available: their_package fails to import." in run("--help").output
    called = run("gone")
    assert called.exit_code == 2
    assert "ModuleNotFoundError: No module named 'their_absent_module'" in called.output
    assert "Update the package 'their_package', or uninstall it." in called.output
