"""The study of the recipe: its ablations, a short form of one seed, and its summary of results."""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skillwright.bank import BankStore
from skillwright.core import ConfigError

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "benchmarks" / "rl_study.py"


@pytest.fixture
def part(monkeypatch):
    """Import a part of the study, as its script does."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return importlib.import_module


def score(solved, of):
    return {"episodes": of, "success_rate": solved / of}


def result(ablation, seed, **tables):
    """Return a result; a table is (solved heat games of 10, solved other games of 10)."""
    kinds = ("pick_heat_then_place_in_recep", "pick_and_place_simple")
    return {
        "arm": ablation,
        "seed": seed,
        "games": 20,
        "made_by": {"commit": "1"},
        "cpu_s": {"practice": 10.0 + seed},
        "caps": {"update": 6, "category": 3},
        "extra": 1,
        "first_growth": {"clean": 4},
        "evolutions": [],
        "validations": [{"iteration": i, "table": {"overall": score(i, 10)}} for i in (0, 5)],
        "test": {
            "tables": {
                name: {
                    "overall": score(sum(solved), 20),
                    "families": {kind: score(n, 10) for kind, n in zip(kinds, solved, strict=True)},
                }
                for name, solved in tables.items()
            }
        },
    }


def evolved(seed, **growth):
    """Return a run of the recovery whose one update added so much by category."""
    one = result("recovery", seed, cold_start=(0, 5), final=(9, 9))
    now = {"clean": 4, **growth}
    added = [f"t{number}" for number in range(sum(growth.values()))]
    step = {"iteration": 5, "action": "accept", "added": added, "refined": [], "retired": []}
    return {**one, "evolutions": [{**step, "refused": 0, "growth": now}]}


def good():
    results = []
    for seed in (0, 1):
        own = {"cold_start": (5, 5), "final": (9, 10 - seed)}
        results += [
            result("main", seed, **own, no_skills=(1, 2), other_scope=(2, 1)),
            result("never_told", seed, final=(2, 2)),
            result("complete", seed, cold_start=(5, 5), final=(9, 9)),
            result("no_evolution", seed, cold_start=(0, 5), final=(2, 9)),
            evolved(seed, heat=4),
        ]
    return results


def test_a_study_that_meets_every_target_is_ok_and_says_how_much(part):
    results = good()
    found = part("study.summary").summary(results, [(one["arm"], one["seed"]) for one in results])
    assert found["ok"]
    assert found["figures"]["after_grpo"]["seeds"] == [0.95, 0.9]
    assert found["figures"]["after_grpo"]["games"] == 40
    assert found["figures"]["gain_over_sft"]["mean"] == pytest.approx(0.425)
    assert found["figures"]["recovery_gain"]["mean"] == pytest.approx(0.7)
    assert found["task_types"]["main"]["final"]["heat"]["mean"] == pytest.approx(0.9)


def test_a_run_that_is_not_there_is_named_and_the_study_is_not_ok(part):
    summary = part("study.summary").summary
    results = good()
    wanted = [(one["arm"], one["seed"]) for one in results]
    found = summary(results[:-1], wanted)
    assert found["missing"] == [["recovery", 1]]
    assert not found["ok"]
    found = summary([one for one in results if one["arm"] != "never_told"], [])
    assert found["met"]["trained_without_skills_lower"] is None
    assert not found["ok"]


@pytest.mark.parametrize("growth", [{"heat": 5}, {"heat": 4, "cool": 4}])
def test_a_bank_that_grew_past_its_caps_is_found(part, growth):
    assert not part("study.summary").within_caps(evolved(0, **growth))


def test_every_ablation_has_a_configuration_and_only_its_own_changes(part, tmp_path):
    ablations = part("study.ablations")
    configs = {
        name: ablations.settings_of(ablation, 3, 200, tmp_path, ablations.SHORT)
        for name, ablation in ablations.ABLATIONS.items()
    }
    assert configs["never_told"].bank.inject == "none"
    assert configs["no_evolution"].evolve is None
    assert configs["no_sft"].cold_start is None
    assert configs["recovery"].evolve == configs["complete"].evolve
    starts = {name: Path(configs[name].bank.start).name for name in ("recovery", "no_evolution")}
    assert set(starts.values()) == {"habits-without-heat-s3.sqlite"}
    assert Path(configs["complete"].bank.start).name == "habits-s3.sqlite"
    assert all(config.run.seed == 3 for config in configs.values())


def test_a_bank_of_habits_is_written_once_and_one_of_other_homes_is_refused(part, tmp_path):
    ablations, one_run = part("study.ablations"), part("study.one_run")
    small = ("env.data.homes=2", "env.data.new_homes=8")
    config = ablations.settings_of(ablations.ABLATIONS["recovery"], 0, 12, tmp_path, small)
    one_run.write_habits(config, "heat")
    path = ablations.habits_path(tmp_path, 0, "heat")
    with BankStore.open(path, read_only=True) as store:
        found = {(skill.scope, skill.category) for skill in store.load().active}
    assert {category == "heat" for _, category in found} == {True, False}
    before = path.read_bytes()
    one_run.write_habits(config, "heat")
    assert path.read_bytes() == before
    other = ablations.settings_of(
        ablations.ABLATIONS["recovery"], 0, 12, tmp_path, ("env.data.homes=3", *small[1:])
    )
    with pytest.raises(ConfigError, match="other homes"):
        one_run.write_habits(other, "heat")


def test_seeds_share_no_home_with_each_other_or_with_what_settings_were_chosen_on(part, tmp_path):
    ablations = part("study.ablations")
    # Seeds 0 to 50, with at most 32 homes and 8 new ones.
    met = [set(range(51 * 32)) | set(range(100_000, 100_000 + 51 * 8))]
    for seed in range(5):
        homes = set()
        for ablation in ablations.ABLATIONS.values():
            data = ablations.settings_of(ablation, seed, 200, tmp_path).env.data
            later = 100_000 + data.seed * data.new_homes
            homes |= set(range(data.seed * data.homes, (data.seed + 1) * data.homes))
            homes |= set(range(later, later + data.new_homes))
        met.append(homes)
    assert len(set.union(*met)) == sum(map(len, met))


def test_the_bank_with_a_gap_lacks_one_task_type_in_new_homes_and_nothing_else(part, tmp_path):
    """The homes of training have all habits; those of val and test have a gap."""
    ablations, one_run = part("study.ablations"), part("study.one_run")
    known = {}
    for name in ("complete", "recovery"):
        ablation = ablations.ABLATIONS[name]
        config = ablations.settings_of(ablation, 3, 6, tmp_path, ("env.data.seed=1",))
        one_run.write_habits(config, ablation.lacks)
        with BankStore.open(Path(config.bank.start), read_only=True) as store:
            known[name] = {(one.scope, one.category, one.name) for one in store.load().active}
    missing = known["complete"] - known["recovery"]
    assert known["recovery"] < known["complete"]
    assert {category for _, category, _ in missing} == {"heat"}
    homes = {scope for scope, category, _ in missing}
    assert homes <= {f"household {number}" for number in range(100_008, 100_016)}
    assert not [one for one in known["recovery"] if one[0] in homes and one[1] == "heat"]
    assert {one[0] for one in known["recovery"] if one[1] == "heat"} >= {"household 16"}


def test_the_page_keeps_what_is_above_its_mark_and_holds_every_ablation(part, tmp_path):
    generate = part("generate_rl_study")
    text = generate.page(good(), "Above.\n")
    assert text.startswith("Above.\n" + generate.MARK)
    seeds = len({one["seed"] for one in good()})
    assert f"| the whole recipe | after GRPO | {seeds} | 92% |" in text
    assert "Not run yet" in text  # not every ablation is there
    generate.draw(good(), tmp_path / "figures")
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert drawn == ["rl_study_ablations.svg", "rl_study_curves.svg", "rl_study_growth.svg"]
    assert "nan" not in "".join(path.read_text() for path in (tmp_path / "figures").iterdir())


def command(folder, *ablations):
    found = ["--short", "--jobs", "1", "--root", str(folder), "--ablations", *ablations]
    return [sys.executable, str(STUDY), *found]


@pytest.mark.heavy
def test_the_short_study_can_be_killed_resumes_and_ends_as_if_it_had_not_been(tmp_path):
    pytest.importorskip("torch")
    whole = subprocess.run(
        command(tmp_path / "whole", "main", "recovery"), capture_output=True, text=True, check=True
    )
    assert json.loads(whole.stdout.splitlines()[-1])["ok"]

    killed = command(tmp_path / "killed", "main", "recovery")
    with subprocess.Popen(
        killed, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as study:
        for line in study.stdout:
            if "iteration 2" in line:
                os.killpg(study.pid, signal.SIGKILL)
                break
    assert not (tmp_path / "killed" / "main-s0.json").exists()
    again = subprocess.run(killed, capture_output=True, text=True, check=True)
    figures = [json.loads(text.stdout.splitlines()[-1]) for text in (whole, again)]
    assert figures[0]["ablations"] == figures[1]["ablations"]
    assert figures[0]["growth"] == figures[1]["growth"]

    files = sorted((tmp_path / "killed").glob("*.json"))
    assert [path.name for path in files] == ["main-s0.json", "recovery-s0.json"]
    times = [path.stat().st_mtime_ns for path in files]
    subprocess.run(killed, capture_output=True, check=True)
    assert [path.stat().st_mtime_ns for path in files] == times

    other = subprocess.run([*killed, "--games", "13"], capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert "other settings" in other.stderr
