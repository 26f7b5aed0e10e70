"""What is wrong is said before a run begins, by every command that would meet it, and in order."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from shown import WIDTH, episodes, pipe
from skillwright.cli import tables
from skillwright.cli.faults import print_words
from skillwright.evaluation import Interval, SplitReport, measure_effect
from skillwright.evaluation.gates.judging import stricter

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BROKEN = """
from skillwright.envs import TextEnv

class Boom(TextEnv):
    def __init__(self, env_config=None, extras=None):
        raise KeyError("menu")

    def step(self, action):
        return self.reply("?")
"""


@pytest.fixture
def broken(tmp_path, write_config):
    (tmp_path / "boom.py").write_text(BROKEN, encoding="utf-8")
    return write_config(env={"name": f"{tmp_path / 'boom.py'}:Boom"})


@pytest.fixture
def tickets(tmp_path):
    """The example of an adapter, in the folder that commands run in."""
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "examples" / "tickets.yaml"


@pytest.mark.parametrize("command", ["train", "eval", "estimate"])
def test_an_environment_that_cannot_be_built_is_told_before_anything_is_written(
    refused, broken, command
):
    said = refused(command, broken)
    assert "boom.py:Boom' cannot be built for task " in said
    assert "KeyError: 'menu'" in said
    assert "its settings are in env.config" in said


def test_doctor_builds_an_environment_and_puts_problems_last(cli, broken):
    said = cli("doctor", broken, code=1).stdout.splitlines()
    assert said[-1] == "1 problem"
    assert said[-2].startswith("BAD  tasks and skill: environment ")
    assert "ok   target: scripted: household answers" in said[:-2]


def test_doctor_takes_settings_and_says_that_nothing_is_wrong(cli, refused, write_config):
    said = cli("doctor", write_config(), "--set", "evaluation.confirm_tasks=4").stdout
    assert "12 train, 20 val, 12 test" in said
    assert said.splitlines()[-1] == "no problems"
    assert "name one: skillwright doctor CONFIG" in refused("doctor", "--set", "run.seed=3")


def test_an_adapter_is_set_up_before_its_run_has_a_folder(cli, refused, tickets):
    report = json.loads(cli("doctor", tickets, "--json").stdout)
    [found] = [one for one in report if one["name"] == "tasks and skill"]
    assert (found["health"], found["detail"]) == ("ok", "16 train, 40 val, 32 test")
    said = refused("train", tickets, "--set", "evaluation.val_tasks=2")
    assert "cannot prove a gain on 2 val tasks" in said
    gone = "env.data={kind: split_dir, path: nowhere}"
    assert "nowhere" in refused("train", tickets, "--set", gone)


def test_an_adapter_plays_by_itself_and_no_scripted_mind_is_said_to(cli, tickets):
    result = cli("eval", tickets)
    assert "target: the adapter plays" in result.stdout
    assert "cripted" not in result.stdout
    assert "cripted" not in cli("runs", "show", "tickets").stdout


def test_a_misspelled_environment_is_told_before_that_its_data_do_not_fit(
    refused, write_config, tmp_path
):
    path = tmp_path / "typo.yaml"
    llms = {"target": {"backend": "scripted", "model": "household"}}
    llms["optimizer"] = {"backend": "scripted", "model": "analyst"}
    path.write_text(json.dumps({"models": llms, "env": {"name": "alfwrld"}}), encoding="utf-8")
    assert "no environment 'alfwrld'. Did you mean 'alfworld'?" in refused("train", path)
    said = refused("train", write_config(env={"name": f"{EXAMPLES / 'guess.py'}:Gues"}))
    assert f"there is no 'Gues' in '{EXAMPLES / 'guess.py'}'. Did you mean 'Guess'?" in said


def test_studies_are_among_the_runs_that_are_known(cli, refused, write_config):
    cli("train", write_config(), "--seeds", 2, "--set", "train.epochs=1")
    assert "no run 'dors' here or in 'runs'. Did you mean 'doors'?" in refused("resume", "dors")
    listed = cli("runs", "list").stdout
    assert max(map(len, listed.splitlines())) <= WIDTH
    assert "study 2/2" in listed


def test_a_gain_is_shown_with_its_unit_and_with_its_interval_or_why_there_is_none():
    report = SplitReport.of("test", {"initial": episodes(0, 5), "best": episodes(5, 0)})
    same = {"initial": episodes(0, 1), "best": episodes(1, 0)}
    one = SplitReport.of("test", same)
    lines = [*tables.gain_lines(report), *tables.gain_lines(one)]
    assert lines[0].startswith("released over initial: [bold]+100.0 points (95%: ")
    assert lines[1].endswith("points (no interval: one task shows no spread)[/] of reward")


def test_a_p_value_beside_an_interval_without_zero_is_explained():
    effect = measure_effect([])
    clear = replace(effect, interval=Interval(0.01, 0.3))
    assert "stricter than a 95% interval" in stricter(clear, 0.0056)
    assert stricter(clear, 0.05) == ""  # one-sided, so that is not stricter
    assert stricter(replace(effect, interval=Interval(-0.01, 0.3)), 0.0056) == ""


def test_an_estimate_sums_up_the_prices_that_are_known(cli, write_config):
    prices = {"input_usd_per_mtok": 100, "output_usd_per_mtok": 100}
    llm = {"backend": "openai_chat", "base_url": "http://127.0.0.1:9/v1"}
    llms = {"target": llm | {"model": "a", "prices": prices}, "optimizer": llm | {"model": "b"}}
    config = write_config(models=llms)
    assert "at least " in cli("estimate", config).stdout
    report = json.loads(cli("estimate", config, "--json").stdout)
    known = [stage["cost_usd"] for stage in report["stages"] if stage["role"] == "target"]
    assert report["known_cost_usd"] == pytest.approx(sum(known))
    assert report["total"]["cost_usd"] is None


def test_a_terminal_breaks_an_error_between_words_and_a_pipe_nowhere():
    url, text = "http://127.0.0.1:9/" + "v" * 90, "error: nobody answers at {} just now, " * 3
    shown = Console(file=io.StringIO(), width=WIDTH, force_terminal=True, color_system=None)
    print_words(shown, text.format(url, url, url))
    lines = [line.rstrip() for line in shown.file.getvalue().splitlines()]
    assert sum(line.count(url) for line in lines) == 3  # whole, to be clicked or copied
    assert " ".join(lines) == text.format(url, url, url).strip()
    plain = pipe()
    print_words(plain, text)
    assert plain.file.getvalue() == text + "\n"
