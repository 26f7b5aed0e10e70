"""What is in examples/skyrl is read, and what needs no GPU runs.

SkyRL's configuration and data sets are the real ones: the package is installed without its
dependencies, which ask for another transformers. The rest of SkyRL 0.3 needs Python 3.12 and those.
"""

import importlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from policy.tiny_models import tiny_model, tiny_tokenizer
from skillwright.core import (
    Act,
    EpisodeResult,
    EpisodeSpec,
    Failure,
    FailureCause,
    Task,
    Trajectory,
    Turn,
)
from skillwright.plugins.skyrl import write_rollouts
from tau_models import shop

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "skyrl"
GAMES = """
env: {name: alfworld, max_turns: 30, data: {kind: generated, train: 16, val: 12, test: 2}}
models:
  target: {backend: scripted, model: household}
  optimizer: {backend: scripted, model: analyst}
"""


def is_whole():
    """Tell whether all of SkyRL can be imported here."""
    try:
        importlib.import_module("skyrl.train.generators.utils")
        importlib.import_module("skyrl.train.entrypoints.main_generate")
    except Exception:  # noqa: BLE001 - it fails in ways of its own where a dependency is another
        return False
    return True


@pytest.fixture
def ran(monkeypatch, capsys):
    """Run a script as from a shell; return its exit code and what it printed."""

    def run(name, *words):
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        monkeypatch.chdir(EXAMPLES)
        code = 0
        try:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        except SystemExit as ended:
            code = ended.code or 0
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def rehearsed(model, tmp_path_factory):
    """Run both launch scripts dry, as a person does; return exit code and words of each."""
    tmp = tmp_path_factory.mktemp("dry")
    (tmp / "games.yaml").write_text(GAMES, encoding="utf-8")
    own = {
        "alfworld_grpo.sh": {"GAMES": str(tmp / "games.yaml")},
        "tau_bench_eval.sh": {"TAU_DATA": str(shop(tmp / "shop", count=3)), "TRIALS": "2"},
    }
    done = {}
    for name, more in own.items():
        folder = tmp / name
        found = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "HF_HOME": str(tmp / "hf"),
            "DRY_RUN": "1",
            "POLICY": str(model),
            "DATA": str(folder / "data"),
            "OUT": str(folder / "out"),
            **more,
        }
        ended = subprocess.run(
            ["bash", str(EXAMPLES / name)], env=found, capture_output=True, text=True, check=False
        )
        done[name] = ended.returncode, ended.stdout + ended.stderr, folder
    return done


@pytest.mark.heavy
def test_a_dry_run_of_the_training_plays_rows_with_skills_up_to_the_first_gpu(rehearsed):
    code, said, folder = rehearsed["alfworld_grpo.sh"]
    assert "16 rows of the train split, 16 with skills" in said, said
    assert "train: 16 rows (16 of alfworld)" in said
    assert "16 episodes of 2 rows: 0 failures" in said
    assert code == (0 if is_whole() else 1), said
    assert not (folder / "out" / "checkpoints").exists()


@pytest.mark.heavy
def test_a_dry_run_of_the_evaluation_plays_a_scripted_user(rehearsed):
    code, said, _ = rehearsed["tau_bench_eval.sh"]
    assert "3 rows of the test split" in said, said
    assert "val: 3 rows (3 of tau_bench)" in said
    assert "4 episodes of 2 rows: 0 failures, mean turns 1, 4 answers asked for" in said
    assert code == (0 if is_whole() else 1), said


@pytest.mark.heavy
@pytest.mark.skipif(
    not is_whole(),
    reason="SkyRL 0.3's trainer needs Python 3.12 and its own dependencies (docs/trainers.md)",
)
@pytest.mark.parametrize("name", ["alfworld_grpo.sh", "tau_bench_eval.sh"])
def test_skyrl_accepts_configuration_and_rows(rehearsed, name):
    _, said, _ = rehearsed[name]
    assert "SkyRL accepts the configuration and" in said
    assert said.rstrip().endswith("next: Ray, and the engines on their GPUs")


@pytest.mark.heavy
def test_a_dry_run_names_a_file_that_is_missing_and_a_key_that_is_unknown(ran, model, tmp_path):
    policy = f"trainer.policy.model.path={model}"
    gone = f"data.val_data=['{tmp_path}/gone.parquet']"
    code, said = ran("launch.py", "eval", "--dry-run", policy, gone)
    assert code == 2
    assert "gone.parquet" in said
    assert "rows.py writes it" in said
    code, said = ran("launch.py", "eval", "--dry-run", "skillwright.rolouts=x")
    assert code == 2
    assert "rolouts" in said


def test_without_skyrl_it_says_what_to_install(ran, monkeypatch):
    monkeypatch.setitem(sys.modules, "skyrl.train.config", None)
    code, said = ran("launch.py", "eval", "--dry-run")
    assert "pip install 'skillwright[skyrl]' 'skyrl[fsdp]==0.3.0'" in f"{code}{said}"


def test_rows_are_written_and_a_limit_that_is_too_small_is_told(ran, tmp_path):
    data = shop(tmp_path / "shop", count=3)
    words = ["rows.py", "../tau_bench/eval.yaml", "--out", tmp_path, "--splits", "test", "--jsonl"]
    more = ["--max-input-length", 100, "--set", f"env.config.data_dir={data}"]
    code, said = ran(*words, *more)
    assert code == 0
    assert "3 rows of the test split, 0 with skills" in said
    assert "warning: max_input_length 100" in said
    assert len((tmp_path / "test.jsonl").read_text(encoding="utf-8").splitlines()) == 3


def test_rows_of_the_built_in_store_are_written_only_if_asked_for(ran, tmp_path, monkeypatch):
    monkeypatch.delenv("SKILLWRIGHT_TAU_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ["rows.py", "../tau_bench/eval.yaml", "--out", tmp_path, "--splits", "test", "--jsonl"]
    code, said = ran(*words)
    assert code == 2
    assert "data_dir=built-in" in said
    assert not (tmp_path / "test.jsonl").exists()
    code, said = ran(*words, "--set", "env.config.data_dir=built-in")
    assert code == 0
    assert "rows of the test split" in said


def played(index, reward):
    """An attempt at a task of tau-bench; ``None`` failed."""
    task = Task(f"test:{index}", "tau_bench", {"task_index": index, "task_split": "test"})
    failure = Failure(FailureCause.USER, "gone") if reward is None else None
    turn = Turn(0, (), Act("Bye."), "###STOP###", reward or 0.0)
    return EpisodeResult(
        EpisodeSpec(task, 0, phase="eval"),
        reward=reward,
        failure=failure,
        trajectory=Trajectory("Hello.", (turn,)),
        metrics={} if failure else {"truncated": 0.5},
    )


def scored(ran, tmp_path, attempts):
    data = shop(tmp_path / "shop", count=3)
    path = tmp_path / "eval.jsonl"
    write_rollouts([played(task, one) for task, of in enumerate(attempts) for one in of], path)
    return ran("scores.py", path, "--data-dir", data)


def test_what_was_played_is_scored_and_failures_stand_apart(ran, tmp_path):
    code, said = scored(ran, tmp_path, [(1.0, 1.0), (1.0, 0.0), (1.0, None)])
    assert code == 0
    assert "3 tasks x 2; 1 failures, 2 tasks without one" in said
    assert "pass^1: 0.750" in said
    assert "pass^2: 0.500" in said
    assert "truncated, mean over scored episodes: 0.5" in said


def test_unequal_attempts_are_no_score_and_neither_are_failures_alone(ran, tmp_path):
    code, said = scored(ran, tmp_path, [(1.0, 1.0), (1.0,)])
    assert (code, "attempts per task" in said) == (2, True)
    (tmp_path / "eval.jsonl").unlink()
    code, said = scored(ran, tmp_path, [(1.0, None), (None, None)])
    assert (code, "no score" in said) == (1, True)


@pytest.mark.parametrize(("name", "gpus"), [("alfworld_grpo", ""), ("tau_bench_eval", "67012345")])
def test_a_cluster_job_runs_its_script_on_one_node_with_eight_gpus(name, gpus):
    job = yaml.safe_load((EXAMPLES / f"{name}_job.yaml").read_text("utf-8"))
    script = (EXAMPLES / f"{name}.sh").read_text("utf-8")
    # Fields of anyscale's JobConfig; another one would be refused when it is submitted.
    assert set(job) <= {
        *("name", "entrypoint", "image_uri", "working_dir", "excludes", "max_retries"),
        *("timeout_s", "env_vars", "compute_config"),
    }
    assert f"bash examples/skyrl/{name}.sh" in job["entrypoint"]
    head, workers = job["compute_config"]["head_node"], job["compute_config"]["worker_nodes"]
    assert (head["required_resources"]["GPU"], workers) == (8, [])
    named = re.findall(r"CUDA_VISIBLE_DEVICES=([\d,]+)", script)
    assert "".join(named).replace(",", "") == gpus
    own = {"HF_HOME", "RAY_OVERRIDE_JOB_RUNTIME_ENV"}
    assert all(re.search(rf"\$\{{{one}:[-?]", script) for one in job["env_vars"].keys() - own)
    assert all(isinstance(value, str) for value in job["env_vars"].values())
    assert "skyrl[fsdp]==0.3.0" in job["entrypoint"]
    assert "skyrl[fsdp]==0.3.0" in script
