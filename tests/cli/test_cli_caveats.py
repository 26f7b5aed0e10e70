"""What speaks against a result is said: memorized answers, a proof that test refutes, drift."""

import asyncio
import csv
import random
import re

import pytest

from doors import Coach, look, trained
from skillwright.config.run import validated
from skillwright.core import Completion
from skillwright.jobs.inspect import ExportOptions, export_document, verify_skills
from skillwright.jobs.text import restore


class LooksUp:
    """A model that answers what the skill says of a question, and else a coin toss."""

    identity = "scripted:looks_up"

    def __init__(self):
        self._rng = random.Random(3)

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        text = "\n".join(message["content"] for message in messages)
        asked = re.findall(r"item \w+ \d+ \d+", messages[-1]["content"])[0]
        known = re.search(rf'"{asked}" is (\w+)', text)
        return Completion(known[1] if known else self._rng.choice(["red", "blue"]))


def settings(folder, rows):
    folder.mkdir()
    for split, members in rows.items():
        with (folder / f"{split}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("q", "a"), *members])
    return validated(
        {
            "run": {"name": "memo", "root": str(folder / "runs")},
            "env": {
                "name": "table",
                "config": {"prompt": "{{ q }}", "answer": "a"},
                "data": {"path": str(folder)},
            },
            "models": {
                "target": {"backend": "scripted", "model": "clerk"},
                "optimizer": {"backend": "scripted", "model": "analyst"},
            },
            "train": {"epochs": 1, "batch_size": 20},
            "optimizer": {"use_slow_update": False, "use_meta_skill": False},
        },
        "memo",
    )


def rows_of(rng, count=30):
    return {
        split: [
            (f"item {split} {i} {rng.randrange(10**6)}", rng.choice(["red", "blue"]))
            for i in range(count)
        ]
        for split in ("train", "val", "test")
    }


@pytest.fixture
def rows():
    return rows_of(random.Random(1))


async def test_memorized_answers_are_named_and_the_test_refutes_them(tmp_path, rows):
    memo = "\n".join(f'"{q}" is {a}.' for q, a in rows["val"])
    config = settings(tmp_path / "data", rows)
    path, report = await trained(config, LooksUp(), Coach([[memo]]))
    state = report.state
    assert state.final.accepted
    assert "The skill holds 30 val tasks with the answers" in state.final.reason
    assert state.refuted.startswith("What was proven on val does not hold on test: a gain of +")
    assert state.outcome == "Released: version 1, which does not hold on test"
    with look(path) as store:
        assert restore(config, store).refuted == state.refuted

    options = ExportOptions(tmp_path / "skills", asks_model=False)
    exported = await export_document(report.best_skill, path, 1, options)
    assert exported.facts["refuted"] == state.refuted
    assert state.refuted in exported.notes
    [verified] = await verify_skills(exported.folder)
    assert not verified.holds
    said = {check.name: (check.outcome, check.said) for check in verified.checks}
    assert said["test"] == ("fail", state.refuted)
    assert said["memorized"][0] == "advice"
    assert {name for name, (outcome, _) in said.items() if outcome == "fail"} == {"test"}


def test_a_refuted_run_ends_with_exit_code_1(tmp_path, rows, cli):
    memo = "\n".join(f'"{q}" is {a}.' for q, a in rows["val"])
    config = settings(tmp_path / "data", rows)
    path, _ = asyncio.run(trained(config, LooksUp(), Coach([[memo]])))
    ended = cli("resume", path, code=1)
    said = " ".join((ended.stdout + ended.stderr).split())
    assert "The answer is no: What was proven on val does not hold on test" in said
    assert "skillwright skill export" not in said


class Improves:
    """A model that is right more and more often, whatever the skill says."""

    identity = "scripted:improves"

    def __init__(self, right):
        self._right, self._rng, self._calls = dict(right), random.Random(3), 0

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        asked = re.findall(r"item \w+ \d+ \d+", messages[-1]["content"])[0]
        self._calls += 1
        is_right = self._rng.random() < min(0.95, 0.1 + self._calls / 250)
        return Completion(self._right[asked] if is_right else "green")


async def test_an_endpoint_whose_level_moves_is_said_and_releases_nothing(tmp_path, rows):
    model = Improves(row for split in rows.values() for row in split)
    path, report = await trained(
        settings(tmp_path / "data", rows), model, Coach([["Be quick."], ["Be calm."]])
    )
    assert report.state.drift.startswith("The endpoint's level moved during the run: draws of")
    assert report.state.best_version == 0
    with look(path) as store:
        assert store.events("finished")[-1].payload["drift"] == report.state.drift


async def test_a_skill_that_helps_everywhere_is_neither(tmp_path, rows):
    rule = "\n".join(f'"{q}" is {a}.' for split in rows.values() for q, a in split)
    _, report = await trained(settings(tmp_path / "data", rows), LooksUp(), Coach([[rule]]))
    assert report.state.final.accepted
    assert report.state.refuted == ""
    assert "val tasks with the answers" in report.state.memorized


def test_the_report_says_it_too(tmp_path, rows, cli):
    memo = "\n".join(f'"{q}" is {a}.' for q, a in rows["val"])
    config = settings(tmp_path / "data", rows)
    path, report = asyncio.run(trained(config, LooksUp(), Coach([[memo]])))
    assert report.state.caveats == (report.state.refuted, report.state.memorized)
    cli("report", path)
    page = (path / "report.html").read_text(encoding="utf-8")
    summary = cli("report", path, "--format", "md").stdout
    shown = cli("runs", "show", path).stdout
    for text in (page, summary, shown):
        assert "What was proven on val does not hold on test" in " ".join(text.split())
        assert "30 val tasks with the answers" in " ".join(text.split())
