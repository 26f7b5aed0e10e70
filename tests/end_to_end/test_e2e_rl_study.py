"""The study of the recipe: its ablations, a short form of one seed, and its summary of results."""

import importlib
import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from skillwright.bank import Bank, BankStore
from skillwright.core import BankSkill, ConfigError, Counterfactual, SkillKind
from skillwright.worlds.alfworld.scripted.wordings import TEACHINGS
from skillwright.worlds.scripted.skilltext import Rule

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


def tables(artifacts):
    """Return score tables; an artifact is (solved heat games of 10, solved other games of 10)."""
    kinds = ("pick_heat_then_place_in_recep", "pick_and_place_simple")
    return {
        name: {
            "overall": score(sum(solved), 20),
            "task_types": {kind: score(n, 10) for kind, n in zip(kinds, solved, strict=True)},
        }
        for name, solved in artifacts.items()
    }


def result(part, ablation, seed, **artifacts):
    """Return a result, the same in new homes and in those of training."""
    ablations, one_run = part("study.ablations"), part("study.one_run")
    config = ablations.settings_of(ablations.ABLATIONS[ablation], seed, 20, Path("runs"))
    own = {name: artifacts[name] for name in ("cold_start", "final") if name in artifacts}
    return {
        "arm": ablation,
        "seed": seed,
        "games": 20,
        "made_by": {"commit": "1"},
        "cpu_s": {"expert": 3.0, "cold start": 2.0, "rollouts": 10.0 + seed, "val": 4.0},
        "caps": {"update": 6, "category": 3},
        "extra": 1,
        "first_growth": {"clean": 4},
        "evolutions": [],
        "demonstrations": {"wins": 80, "rows": 500},
        "validations": [{"iteration": i, "table": {"overall": score(i, 10)}} for i in (0, 5)],
        "test": {"tables": tables(artifacts)},
        "exam": {"training_homes": tables(own), "reworded": tables(own)},
        "config": one_run.settings_kept(config),
    }


def evolved(part, seed, **growth):
    """Return a run of the recovery whose one update added so much by category."""
    one = result(part, "gap_evolving", seed, cold_start=(0, 5), final=(9, 9))
    now = {"clean": 4, **growth}
    added = [f"t{number}" for number in range(sum(growth.values()))]
    step = {"iteration": 5, "action": "accept", "added": added, "refined": [], "retired": []}
    return {**one, "evolutions": [{**step, "refused": 0, "growth": now}]}


def grown(part, seed, *sizes):
    """Return a bank that grew so."""
    updates = [
        {"update": n, "before": before, "after": after, "success": [n, 10], "action": "accept"}
        for n, (before, after) in enumerate(pairwise(sizes), start=1)
    ]
    banks = dict.fromkeys(("gap", "grown", "complete"), (5, 5))
    found = {"homes": 5, "complete": 98, "updates": updates, "tables": tables(banks)}
    one = result(part, "all", seed)
    return {**one, "arm": "growth", "growth": found}


def good(part):
    results = []
    for seed in (0, 1):
        own = {"cold_start": (5, 5), "final": (9, 10 - seed)}
        results += [
            result(part, "all", seed, **own, no_skills=(1, 2), other_scope=(2, 1)),
            result(part, "sft_all", seed, cold_start=(7, 7), final=(7, 7)),
            result(part, "reads_nothing", seed, cold_start=(1, 1), final=(2, 2)),
            result(part, "gap_complete", seed, cold_start=(5, 5), final=(9, 9)),
            result(part, "gap_fixed", seed, cold_start=(0, 5), final=(2, 9)),
            evolved(part, seed, heat=4),
            grown(part, seed, 55, 61, 61, 67),
        ]
    return results


def test_a_study_that_meets_every_target_is_ok_and_says_how_much(part):
    results = good(part)
    found = part("study.summary").summary(results, [(one["arm"], one["seed"]) for one in results])
    assert found["ok"]
    assert found["figures"]["after_grpo"]["seeds"] == [0.95, 0.9]
    assert found["figures"]["after_grpo"]["games"] == 40
    assert found["figures"]["gain_over_sft"]["mean"] == pytest.approx(0.425)
    assert found["figures"]["recovery_gain"]["mean"] == pytest.approx(0.7)
    assert found["task_types"]["all"]["final"]["heat"]["mean"] == pytest.approx(0.9)
    assert found["cpu_s"]["all"]["learning"] == pytest.approx(15.5)


def test_the_gain_of_grpo_is_over_the_better_of_two_that_only_imitate(part):
    scale = part("study.summary").summary(good(part), [])["scale"]
    (one,) = scale
    assert one["name"] == "all"
    assert one["sft"]["mean"] == pytest.approx(0.5)
    assert one["longer"]["mean"] == pytest.approx(0.7)
    assert one["gain"]["seeds"] == pytest.approx([0.25, 0.2])
    lacking = [one for one in good(part) if one["arm"] != "sft_all"]
    (one,) = part("study.summary").summary(lacking, [])["scale"]
    assert one["gain"] is None


def test_a_run_that_is_not_there_is_named_and_the_study_is_not_ok(part):
    summary = part("study.summary").summary
    results = good(part)
    wanted = [(one["arm"], one["seed"]) for one in results]
    found = summary(results[:-1], wanted)
    assert found["missing"] == [["growth", 1]]
    assert not found["ok"]
    found = summary([one for one in results if one["arm"] != "reads_nothing"], [])
    assert found["met"]["reads_nothing_lower"] is None
    assert not found["ok"]


@pytest.mark.parametrize("sizes", [(55, 55), (54, 60), (55, 80, 101)])
def test_a_bank_grows_from_55_skills_to_more_and_at_most_100(part, sizes):
    assert part("study.summary").summary([grown(part, 0, *sizes)], [])["met"]["grows"] is False


@pytest.mark.parametrize("growth", [{"heat": 5}, {"heat": 4, "cool": 4}])
def test_a_bank_that_grew_past_its_caps_is_found(part, growth):
    assert not part("study.summary").within_caps(evolved(part, 0, **growth))


def test_every_ablation_has_a_configuration_and_only_its_own_changes(part, tmp_path):
    ablations = part("study.ablations")
    configs = {
        name: ablations.settings_of(ablation, 3, 200, tmp_path, ablations.SHORT)
        for name, ablation in ablations.ABLATIONS.items()
    }
    assert configs["reads_nothing"].bank.inject == "none"
    assert configs["reads_facts"].bank.inject == "facts"
    assert configs["gap_fixed"].evolve is None
    assert configs["no_sft"].cold_start is None
    assert configs["sft_n100"].grpo.iterations == 0
    assert configs["gap_evolving"].evolve == configs["gap_complete"].evolve
    reading = [one for one in ablations.ABLATIONS.values() if ablations.READING in one.tables]
    assert len(reading) == 7
    for one in reading:
        config = ablations.settings_of(one, 0, 200, tmp_path)
        assert config.cold_start.expert_reads == "skills"
        assert config.cold_start.tasks is None
    starts = {Path(configs[name].bank.start).name for name in ("gap_evolving", "gap_fixed")}
    assert starts == {"habits-without-heat-s3.sqlite"}
    assert Path(configs["gap_complete"].bank.start).name == "habits-s3.sqlite"
    assert all(config.run.seed == 3 for config in configs.values())


def test_rows_of_one_table_share_their_settings(part):
    ablations = part("study.ablations")
    results = good(part)
    ablations.refuse_mixed_settings(results)
    for index, one in enumerate(results):
        if one["arm"] == "reads_nothing":
            grpo = {**one["config"]["grpo"], "iterations": 40}
            results[index] = {**one, "config": {**one["config"], "grpo": grpo}}
    with pytest.raises(ConfigError, match=r"reads_nothing-s0.*grpo\.iterations is 30 and 40"):
        ablations.refuse_mixed_settings(results)


def test_a_result_of_before_a_key_was_there_is_taken_and_one_of_other_settings_is_refused(
    part, tmp_path
):
    ablations, one_run = part("study.ablations"), part("study.one_run")
    config = ablations.settings_of(ablations.ABLATIONS["all"], 0, 20, tmp_path)
    older = json.loads(json.dumps(one_run.settings_kept(config)))
    del older["policy"]["width"]
    path = tmp_path / "all-s0.json"
    path.write_text(json.dumps({"settings": "another", "config": older}))
    assert one_run.result_of(path, config)["config"] == older
    older["grpo"]["iterations"] += 1
    path.write_text(json.dumps({"settings": "another", "config": older}))
    with pytest.raises(ConfigError, match="other settings"):
        one_run.result_of(path, config)


def test_the_kept_results_are_of_the_settings_of_now_so_the_study_is_continued(part, tmp_path):
    ablations, one_run = part("study.ablations"), part("study.one_run")
    kept = sorted((ROOT / "benchmarks" / "rl_study_results").glob("*-s*.json"))
    assert kept
    for path in kept:
        name, _, seed = path.stem.rpartition("-s")
        one = ablations.ABLATIONS[ablations.MAIN if name == ablations.GROWTH else name]
        assert one_run.result_of(path, ablations.settings_of(one, int(seed), 200, tmp_path))


def test_the_scale_on_the_page_is_that_of_the_settings(part, tmp_path):
    ablations, generate = part("study.ablations"), part("generate_rl_study")
    for name, episodes in generate.EPISODES.items():
        config = ablations.settings_of(ablations.ABLATIONS[name], 0, 200, tmp_path)
        assert episodes == (config.cold_start.tasks or config.env.data.train)


def test_a_bank_of_habits_is_written_once_and_one_of_other_homes_is_refused(part, tmp_path):
    ablations, one_run = part("study.ablations"), part("study.one_run")
    small = ("env.data.homes=2", "env.data.new_homes=8")
    ablation = ablations.ABLATIONS["gap_evolving"]
    config = ablations.settings_of(ablation, 0, 12, tmp_path, small)
    one_run.write_habits(config, "heat")
    path = ablations.habits_path(tmp_path, 0, "heat")
    with BankStore.open(path, read_only=True) as store:
        found = {(skill.scope, skill.category) for skill in store.load().active}
    assert {category == "heat" for _, category in found} == {True, False}
    before = path.read_bytes()
    one_run.write_habits(config, "heat")
    assert path.read_bytes() == before
    other = ablations.settings_of(ablation, 0, 12, tmp_path, ("env.data.homes=3", *small[1:]))
    with pytest.raises(ConfigError, match="other homes"):
        one_run.write_habits(other, "heat")


def test_seeds_share_no_home_with_each_other_or_with_what_settings_were_chosen_on(part, tmp_path):
    ablations = part("study.ablations")
    # Seeds 0 to 50, with at most 48 homes and 8 new ones; and those whose test was opened before.
    met = [set(range(51 * 48)) | set(range(100_000, 100_000 + 51 * 8))]
    for first, homes in ((201, 16), (301, 16), (401, 32), (601, 32)):
        met.append(set(range(first * homes, (first + 5) * homes)))
    met.append(set(range(100_000 + 301 * 8, 100_000 + 306 * 8)))
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
    for name in ("gap_complete", "gap_evolving"):
        ablation = ablations.ABLATIONS[name]
        config = ablations.settings_of(ablation, 3, 6, tmp_path, ("env.data.seed=1",))
        one_run.write_habits(config, ablation.lacks)
        with BankStore.open(Path(config.bank.start), read_only=True) as store:
            known[name] = {(one.scope, one.category, one.name) for one in store.load().active}
    missing = known["gap_complete"] - known["gap_evolving"]
    assert known["gap_evolving"] < known["gap_complete"]
    assert {category for _, category, _ in missing} == {"heat"}
    homes = {scope for scope, category, _ in missing}
    assert homes <= {f"household {number}" for number in range(100_008, 100_016)}
    assert not [one for one in known["gap_evolving"] if one[0] in homes and one[1] == "heat"]
    assert [one for one in known["gap_evolving"] if one[1] == "heat"]


def test_a_planted_gap_leaves_55_skills_of_at_most_100(part):
    growth = part("study.growth")
    homes = [7, 8, 9]
    drafts = [
        BankSkill(
            f"g{n:03}", f"Rule {n}", f"Rule {n} holds everywhere.", "always", SkillKind.GENERAL
        )
        for n in range(10)
    ] + [
        BankSkill(
            f"t{home}{n:02}",
            f"Place {n}",
            f"In this home's kitchen, every cup is kept on shelf {n}.",
            "here",
            SkillKind.TASK_SPECIFIC,
            scope=f"household {home}",
        )
        for home in homes
        for n in range(40)
    ]
    bank = Bank(1, tuple(drafts))
    planted = growth.plant(bank, homes, seed=0)
    assert planted.homes == (7, 8)
    assert (len(planted.complete.active), len(planted.gap.active)) == (90, 55)
    assert {one.id for one in planted.gap.skills} < {one.id for one in planted.complete.skills}
    assert sum(not one.scope for one in planted.gap.skills) == 10
    assert planted == growth.plant(bank, homes, seed=0)
    assert planted.gap != growth.plant(bank, homes, seed=1).gap
    with pytest.raises(ConfigError, match="begin with 55"):
        growth.plant(bank, homes[:1], seed=0)


def test_a_bank_in_other_words_keeps_its_ids_and_lessons(part):
    exam = part("study.exam")
    teaching = TEACHINGS[Rule.HEAT_FIRST]
    said = teaching.lesson([])
    failure = Counterfactual(
        said["failure_point"], said["flawed_reasoning"], said["corrective_action"]
    )
    texts = [said[name] for name in ("name", "principle", "applicability")]
    lesson = BankSkill("l001", *texts, SkillKind.LESSON, category="heat", counterfactual=failure)
    (other,) = exam.in_other_words(Bank(1, (lesson,))).skills
    assert (other.id, other.kind, other.category) == ("l001", SkillKind.LESSON, "heat")
    assert other.principle != lesson.principle
    assert other.counterfactual.failure_point != failure.failure_point


def opened(part, results, folder):
    """Write down that the test of each result was opened, and return the folder."""
    for one in results:
        name = part("study.ablations").run_name(one["arm"], one["seed"])
        part("measuring.books").note_opening(folder, name, one["made_by"])
    return folder


def test_the_page_keeps_what_is_above_its_mark_and_holds_every_ablation(part, tmp_path):
    pytest.importorskip("matplotlib")
    generate = part("generate_rl_study")
    text = generate.page(good(part), "Above.\n", opened(part, good(part), tmp_path))
    assert text.startswith("Above.\n" + generate.MARK)
    assert "| skills | 2 | 80 | 50% (35% to 65%) | 92% (61% to 100%) |" in text
    assert "Not run yet: `n900`, `sft_n900`" in text
    assert "GRPO pays with all" in text or "interval includes zero" in text
    generate.draw(good(part), tmp_path / "figures")
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    names = ("curves", "growth", "reading", "scale")
    assert drawn == [f"rl_study_{name}.svg" for name in names]
    texts = [path.read_text() for path in (tmp_path / "figures").iterdir()]
    assert "nan" not in "".join(texts).lower()
    generate.draw(good(part), tmp_path / "again")
    assert texts == [
        (tmp_path / "again" / name).read_text()
        for name in [path.name for path in (tmp_path / "figures").iterdir()]
    ]


def test_the_page_says_how_long_the_memories_are_and_is_made_without_them_too(part, tmp_path):
    pytest.importorskip("matplotlib")
    generate = part("generate_rl_study")
    folder = opened(part, good(part), tmp_path)
    assert "tokens on average" not in generate.page(good(part), "", folder)
    read = result(part, "reads_memories", 0, cold_start=(3, 3), final=(6, 4))
    read["tokens"] = {"memories": 350.6, "skills": 358.2}
    text = generate.page([*good(part), read], "", opened(part, [read], folder))
    assert "\n| memories like Mem0's, equally long" in text
    assert "memories have 351 tokens on average, the skills in\ntheir place 358." in text


def test_one_result_is_enough_for_a_page(part, tmp_path):
    pytest.importorskip("matplotlib")
    generate = part("generate_rl_study")
    for one in good(part)[:7]:
        text = generate.page([one], "", opened(part, [one], tmp_path))
        assert "not measured" in text
        generate.draw([one], tmp_path)


def command(folder, *ablations):
    found = ["--short", "--jobs", "1", "--root", str(folder), "--ablations", *ablations]
    return [sys.executable, str(STUDY), *found]


@pytest.mark.heavy
def test_the_short_study_can_be_killed_resumes_and_ends_as_if_it_had_not_been(tmp_path):
    pytest.importorskip("torch")
    whole = subprocess.run(
        command(tmp_path / "whole", "all", "gap_evolving"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(whole.stdout.splitlines()[-1])["ok"]

    killed = command(tmp_path / "killed", "all", "gap_evolving")
    with subprocess.Popen(
        killed, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as study:
        for line in study.stdout:
            if "iteration 2" in line:
                os.killpg(study.pid, signal.SIGKILL)
                break
    assert not (tmp_path / "killed" / "all-s0.json").exists()
    again = subprocess.run(killed, capture_output=True, text=True, check=True)
    figures = [json.loads(text.stdout.splitlines()[-1]) for text in (whole, again)]
    assert figures[0]["ablations"] == figures[1]["ablations"]
    assert figures[0]["growth"] == figures[1]["growth"]

    files = sorted((tmp_path / "killed").glob("*.json"))
    assert [path.name for path in files] == ["all-s0.json", "gap_evolving-s0.json"]
    times = [path.stat().st_mtime_ns for path in files]
    subprocess.run(killed, capture_output=True, check=True)
    assert [path.stat().st_mtime_ns for path in files] == times

    other = subprocess.run([*killed, "--games", "13"], capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert "other settings" in other.stderr
