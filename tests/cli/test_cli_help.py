"""Help lists every command without importing one, and says of each what it says of itself."""

import subprocess
import sys

import pytest
import typer

from skillwright.cli.app import COMMANDS, app

PROGRAM = typer.main.get_command(app)


@pytest.mark.parametrize("name", [name for name, *_ in COMMANDS])
def test_the_list_says_of_a_command_what_it_says_of_itself(name):
    listed = PROGRAM.commands[name]
    itself = listed.load()
    assert " ".join(itself.help.split("\n\n")[0].split()) == listed.help
    assert itself.name == name


def test_the_program_lists_its_commands_under_headings(cli):
    text = cli("--help").stdout
    places = [text.index(f"│ {name} ") for name, *_ in COMMANDS]
    assert places == sorted(places)
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
