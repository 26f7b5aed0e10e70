"""`skillwright rl`: what it shows, what it prints as JSON, and how it ends."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from fakes import make_episode
from shown import WIDTH, episodes, pipe, terminal
from skillwright.cli.app import app
from skillwright.cli.live import LiveDisplay, PlainDisplay, display
from skillwright.cli.rl_tables import RlTally, evolution_text
from skillwright.evaluation import Decision, Score, Verdict
from skillwright.jobs.run import EpisodeFinished, RunStarted, StageStarted
from skillwright.jobs.weights import EvolutionRecord, IterationEnded, IterationRecord, Validated

SCRIPTED = "{backend: scripted, model: %s}"
CONFIG = f"""
env: {{data: {{kind: households, train: 48, val: 12, test: 6, homes: 2}}}}
models:
  base: {SCRIPTED % "searcher"}
  teacher: {SCRIPTED % "household_teacher"}
  expert: {SCRIPTED % "searcher"}
policy: {{width: 16}}
distill: {{max_turns: 50}}
cold_start: {{tasks: 12, steps: 3, batch_rows: 32, learning_rate: 0.001}}
grpo: {{iterations: 2, tasks_per_iteration: 2, group_size: 2, learning_rate: 0.0003}}
evolve: {{every: 1, nth: 3, trigger_accuracy: 1.0}}
evaluation: {{gate: {{kind: strict}}, val_every: 2}}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A whole run at the command line: its folder, and what was printed."""
    root = tmp_path_factory.mktemp("rl")
    (root / "small.yaml").write_text(CONFIG, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        words = ["rl", "small.yaml"]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return root, " ".join(result.stdout.split())


def test_a_run_tells_of_every_stage_and_ends_with_the_sealed_test(small):
    _, said = small
    for words in (
        "policy: a command scorer",
        "of the evolution split, 12 val, 6 sealed test tasks",
        "first bank (version 1):",
        "cold start:",
        "val after iteration 0:",
        "2/2 success",
        "evolution after iteration 1:",
        "Held-out test tasks solved",
        "control: the selected weights without skills",
        "Scripted models took part",
    ):
        assert words in said, words


def test_a_finished_run_is_shown_again_as_json_and_nobody_is_asked(small, monkeypatch):
    root, _ = small
    monkeypatch.chdir(root)
    result = CliRunner().invoke(app, ["resume", "small", "--json"], catch_exceptions=False)
    report = json.loads(result.stdout)
    assert report["job"] == "rl"
    assert report["scripted"] is True
    assert [one["iteration"] for one in report["iterations"]] == [1, 2]
    assert set(report["test"]["tables"]) >= {"cold_start", "final", "no_skills", "other_scope"}


def test_runs_are_listed_and_shown_beside_others(small, monkeypatch):
    root, _ = small
    monkeypatch.chdir(root)
    listed = json.loads(CliRunner().invoke(app, ["runs", "list", "--json"]).stdout)
    assert [(one["job"], one["finished"]) for one in listed] == [("rl", True)]
    shown = CliRunner().invoke(app, ["runs", "show", "small"], catch_exceptions=False)
    assert "Val tasks solved" in shown.stdout
    told = json.loads(CliRunner().invoke(app, ["runs", "show", "small", "--json"]).stdout)
    assert told["rl"]["finished"] is True


def test_policies_are_compared_on_val_by_iteration_and_on_test_by_what_was_selected(
    small, monkeypatch
):
    root, _ = small
    monkeypatch.chdir(root)
    for options, said in (
        (["--split", "val"], "of 12 flipped on val from iteration 0 to iteration 2:"),
        ([], "of 6 flipped on test from cold start to selected:"),
    ):
        words = ["runs", "episodes", "latest", "--flipped", *options]
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert said in " ".join(result.stdout.split())


def test_a_pipe_gets_a_line_per_iteration_and_no_escape_codes(small):
    root, _ = small
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        result = CliRunner().invoke(app, ["rl", "small.yaml", "--set", "run.name=again"])
    assert "\x1b" not in result.output
    lines = result.stdout.splitlines()
    for number in (1, 2):
        (line,) = [one for one in lines if one.startswith(f"{number}/2  success ")]
        assert len(line) <= WIDTH
    for stage in ("base episodes:", "teacher: the first bank", "SFT (cold start)", "GRPO rollouts"):
        assert sum(one.startswith(stage) for one in lines) == 1, stage


def test_a_configuration_is_printed_as_it_is_understood(small, monkeypatch):
    root, _ = small
    monkeypatch.chdir(root)
    said = CliRunner().invoke(app, ["config", "show", "small.yaml", "--set", "grpo.epochs=2"])
    assert "  epochs: 2\n" in said.stdout
    assert "cold_start:\n" in said.stdout


def test_only_the_budget_of_a_run_can_change(small, monkeypatch):
    root, _ = small
    monkeypatch.chdir(root)
    words = ["resume", "small", "--set", "grpo.iterations=9"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "cannot change in a run that was begun" in " ".join(result.stderr.split())


def test_a_misspelled_key_is_refused_with_the_nearest_one_and_nothing_is_written(refused, tmp_path):
    (tmp_path / "bad.yaml").write_text("grpo: {iteration: 3}\n", encoding="utf-8")
    said = " ".join(refused("rl", "bad.yaml").split())
    assert "unknown key 'grpo.iteration'. Did you mean 'iterations'?" in said


def test_a_base_model_that_is_not_there_is_refused_and_nothing_is_written(refused, tmp_path):
    text = CONFIG.replace("{width: 16}", "POLICY")
    policy = "{kind: hf, model: ./no-such-model}"
    (tmp_path / "hf.yaml").write_text(text.replace("POLICY", policy), encoding="utf-8")
    assert "is not on this machine" in " ".join(refused("rl", "hf.yaml").split())


def test_without_torch_the_command_says_what_to_install(refused, tmp_path, monkeypatch):
    (tmp_path / "small.yaml").write_text(CONFIG, encoding="utf-8")
    monkeypatch.setattr("skillwright.jobs.weights.launch.find_spec", lambda name: None)
    assert "pip install 'skillwright[train]'" in " ".join(refused("rl", "small.yaml").split())


def test_the_command_line_does_not_load_torch_before_it_is_needed():
    code = "import sys, skillwright.cli.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


RECORD = IterationRecord(
    iteration=3,
    bank_version=2,
    episodes=24,
    reward=0.5,
    success=0.5,
    task_types={"pick_and_place_simple": (12, 24)},
    groups=6,
    zero_variance=3,
    lone=0,
    failures=0,
    truncated=2,
    malformed=0,
    turns=8.0,
    tokens=8.0,
    rows=120,
    steps=1,
    skipped=0,
    loss=0.1,
    kl=0.02,
    entropy=None,
    clip_fraction=0.01,
    drift=0.0,
    grad_norm=1.5,
    learning_rate=1e-3,
    skills=7.5,
    injected={"g001": 24, "t004": 8},
)
STARTED = RunStarted("rl[1]", "runs/[dim]rl", {"policy": "a scorer"}, ("facts",), steps=9)


def test_plain_lines_say_an_iteration_within_a_small_terminal():
    console = pipe()
    shown = PlainDisplay(console, kind=RlTally)
    for event in (STARTED, StageStarted("train", step=3, episodes=24)):
        shown.on_event(event)
    shown.on_event(IterationEnded(RECORD, rollout_s=0.5, learning_s=0.5))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= WIDTH
    (line,) = [one for one in lines if one.startswith("3/9")]
    for words in ("reward 0.500", "success 50%", "KL 0.020", "entropy -"):
        assert words in line
    assert line.endswith("about 0:06 left")  # six iterations of a second
    below = lines[lines.index(line) + 1]
    for words in ("zero-variance groups 50%", "clip fraction 1.0%", "24.0 episodes/s"):
        assert words in below


def test_plain_lines_name_each_stage_of_the_recipe_once():
    console = pipe()
    shown = PlainDisplay(console, kind=RlTally)
    stages = [("base", 40), ("distill", 0), ("cold start", 0), ("rollouts", 8), ("rollouts", 8)]
    for stage, count in stages:
        shown.on_event(StageStarted(stage, episodes=count))
    assert console.file.getvalue().splitlines() == [
        "base episodes: 40 episodes ...",
        "teacher: the first bank ...",
        "SFT (cold start) ...",
        "GRPO rollouts: 8 episodes ...",
    ]


def test_a_validation_says_every_task_type_with_its_interval():
    console = pipe()
    shown = PlainDisplay(console, kind=RlTally)
    shown.on_event(validated(20))
    said = " ".join(console.file.getvalue().split())
    assert "val after iteration 20: 50% solved (24% to 76%, n=10), the best so far" in said
    for task_type in TYPES:
        assert f"{task_type.replace('_', ' ')} 50% (24% to 76%)" in said


def test_the_live_table_shows_the_latest_iterations_and_the_skills_that_were_told():
    console = terminal()
    shown = LiveDisplay(console, kind=RlTally)
    shown.on_event(STARTED)
    shown.on_event(StageStarted("train", step=3, episodes=24))
    for number in range(1, 14):
        record = IterationRecord.from_dict({**RECORD.to_dict(), "iteration": number})
        # Time is estimated from the ten that are shown: the first ones were slower.
        shown.on_event(
            IterationEnded(record, rollout_s=0.5, learning_s=59.5 if number > 3 else 600)
        )
        if number == 7:
            early = _drawn(shown)
    said = _drawn(shown)
    shown.close()
    assert "about 9:43 left" in early  # (3 * 600.5 + 4 * 60) / 7 s each, two to go
    assert "left" not in said
    assert "iteration 13: success 50%" in said
    assert "g001 24x, t004 8x" in said
    assert "iteration 3/9" in said


def _drawn(shown, width=WIDTH):
    fresh = terminal(width)
    fresh.print(shown.draw())
    return fresh.export_text()


TYPES = (
    "look_at_obj_in_light",
    "pick_and_place_simple",
    "pick_clean_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_two_obj_and_place",
)


def validated(iteration):
    score = Score.of(episodes(5, 5))
    return Validated(iteration, score, dict.fromkeys(TYPES, score), is_best=True)


def learning(width, height):
    """A panel in the middle of a run, with all that it can show."""
    shown = LiveDisplay(terminal(width, height), kind=RlTally)
    shown.on_event(replace(STARTED, episodes=1_000))
    shown.on_event(validated(0))
    counts = {name: [12, 24] for name in TYPES}
    for number in range(1, 4):
        facts = {"iteration": number, "task_types": counts, "entropy": 0.68}
        record = IterationRecord.from_dict({**RECORD.to_dict(), **facts})
        shown.on_event(IterationEnded(record, rollout_s=24, learning_s=36))
    shown.on_event(validated(3))
    shown.on_event(StageStarted("rollouts", step=4, episodes=24))
    shown.on_event(EpisodeFinished(make_episode("t1", 1.0)))
    return shown


@pytest.mark.parametrize(("width", "height"), [(120, 50), (80, 24), (60, 30), (40, 40)])
def test_the_panel_cuts_no_word_and_fits_its_terminal(width, height):
    shown = learning(width, height)
    lines = _drawn(shown, width).splitlines()
    shown.close()
    assert max(map(len, lines)) <= width
    assert len(lines) < height
    assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(lines)
    said = " ".join(" ".join(lines).split())
    for words in (
        "GRPO rollouts",
        "iteration 4/9",
        "1/24",
        "base episodes > teacher > expert > SFT > [GRPO] > evolution > test",
        "success 50%",
        "reward 0.500",
        "episode length 8.0 turns",
        "KL 0.020",
        "entropy 0.68",
        "clip fraction 1.0%",
        "zero-variance groups 50%",
        "50% (24% to 76%)",
        "best on val: iteration 3",
        "money $0.00",
    ):
        assert words in said, words


def test_the_time_left_counts_what_else_will_be_played():
    shown = learning(WIDTH, 24)
    # Six iterations of a minute, less the first episode of the fourth; a second per episode of
    # the others, of which 1,000 less 6 x 24 rollouts and the one that was played are left.
    assert shown._tally.left_s(0.0) == pytest.approx(6 * 60 + (1_000 - 6 * 24) - 1)
    shown.close()


def test_rollouts_that_are_all_over_are_learned_from():
    shown = learning(WIDTH, 24)
    for _ in range(23):
        shown.on_event(EpisodeFinished(make_episode("t", 1.0)))
    assert "GRPO update  iteration 4/9" in _drawn(shown)
    shown.close()


def test_on_a_small_terminal_the_weakest_task_types_are_shown():
    shown = learning(WIDTH, 18)
    strong = Score.of(episodes(10, 0))
    event = validated(4)
    types = {**event.task_types, TYPES[0]: strong, TYPES[1]: strong, TYPES[2]: strong}
    shown.on_event(replace(event, task_types=types))
    said = _drawn(shown)
    shown.close()
    assert "and 3 more" in said
    assert "look at obj" not in said
    assert "pick two obj and place" in said


def test_a_terminal_gets_the_table_and_a_pipe_gets_lines():
    for make, kind in ((pipe, PlainDisplay), (terminal, LiveDisplay)):
        console = make()
        with display(console, kind=RlTally) as shown:
            assert isinstance(shown, kind)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("accept", "bank v1 -> v2: 2 added, 1 retired. Better."),
        ("reject", "bank stays v2. Better."),
        ("none_weak", "no category was weak enough"),
        ("teacher_failed", "the teacher failed"),
    ],
)
def test_an_update_of_the_bank_is_told_in_a_sentence(action, words):
    verdict = Verdict(Decision.ACCEPT, "Better.")
    record = EvolutionRecord(
        5, 2, 1, action, {}, added=("t1", "t2"), retired=("t3",), verdict=verdict
    )
    assert words in evolution_text(record)


def test_episodes_fill_the_bar_of_their_stage():
    console = pipe()
    shown = PlainDisplay(console, kind=RlTally)
    shown.on_event(StageStarted("val", episodes=2))
    shown.on_event(EpisodeFinished(make_episode("t1", 1.0)))
    assert shown._tally.in_stage == 1
