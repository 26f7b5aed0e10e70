"""Under parity a run ends with the text that SkillOpt's own run of the same file ends with.

What SkillOpt decides is stored beside this file, so that the tests need no package of it; where it
is installed, `make oracle` runs it again and compares.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import parity_runs
import pytest
import yaml
from parity_runs import CASES, SKILL, TOWN, Teacher, write_case

from doors import Walker, look, resumed, trained
from skillwright.config import load_config
from skillwright.core import Completion, Purpose

STORED = json.loads(Path(__file__).with_name("parity_runs.json").read_text(encoding="utf-8"))
STAGES = {Purpose.REFLECT: "analyst", Purpose.RANK: "ranking"}


class Optimizer(Teacher):
    """The same teacher behind our interface; our stages are called as SkillOpt's are."""

    identity = "scripted:teacher"

    def __init__(self, dies_at=None):
        self.dies_at = dies_at

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        if len(messages) == 1:
            return Completion("ready")
        stage = STAGES.get(purpose, purpose.value)
        if stage == self.dies_at:
            raise asyncio.CancelledError
        return Completion(json.dumps(self.answer(stage, messages[-1]["content"])))


async def ours(folder, name, dies_at=None, **evaluation):
    """Run a case here, where asked for killed once; return what was decided."""
    given = [f"env.name={TOWN}", "env.compat=skillopt", f"run.root={folder / 'runs'}"]
    file = write_case(folder, name)
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    values["evaluation"] |= evaluation
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    config = load_config(file, ["run.parity=true", *given])
    optimizer = Optimizer(dies_at)
    optimizer.mode = config.optimizer.skill_update_mode
    if dies_at:
        with pytest.raises(asyncio.CancelledError):
            await trained(config, Walker(), optimizer, skill=SKILL)
        optimizer.dies_at = None
        path = Path(config.run.root, config.run.name)
        report = await resumed(path, Walker(), optimizer)
    else:
        path, report = await trained(config, Walker(), optimizer, skill=SKILL)
    with look(path) as store:
        steps = [event.payload for event in store.events("step")]
    return {
        "best_skill": report.best_skill,
        "actions": [step["action"] for step in steps],
        "scores": [_score(step) for step in steps],
        "reasons": [step["verdict"]["reason"] if step["verdict"] else "" for step in steps],
        "released": (path / "best_skill.md").read_bytes().decode(),
    }


def _score(step):
    verdict = step["verdict"] or step["best_verdict"]
    return verdict and verdict["candidate_score"]


@pytest.mark.parametrize("name", CASES)
async def test_a_parity_run_ends_as_skillopts_own_does(tmp_path, name):
    found, stored = await ours(tmp_path, name), STORED[name]
    assert found["released"] == found["best_skill"] == stored["best_skill"]
    steps = zip(found["actions"], found["scores"], strict=True)
    for (action, score), *theirs in zip(steps, stored["actions"], stored["scores"], strict=True):
        # SkillOpt also plays a candidate that is the current skill, and rejects it as a tie.
        if (action, theirs[0]) != ("skip_no_change", "reject"):
            assert [action, pytest.approx(score)] == theirs


@pytest.mark.parametrize("stage", ["slow_update", "meta_skill", "merge"])
async def test_a_parity_run_that_was_killed_ends_the_same(tmp_path, stage):
    found = await ours(tmp_path, "gated_slow", stage)
    assert found["best_skill"] == STORED["gated_slow"]["best_skill"]


async def test_words_of_a_skill_count_in_the_gate_where_a_file_asks_for_it(tmp_path):
    words = {"use_semantic_density": True, "semantic_density_weight": 0.6}
    found = await ours(tmp_path, "hard", leading_words="right, careful", **words)
    told = [reason for reason in found["reasons"] if "its words add" in reason]
    assert len(told) > len(found["reasons"]) / 2
    assert found["actions"] != STORED["hard"]["actions"]
    for action, reason in zip(found["actions"], found["reasons"], strict=True):
        gain = re.search(r"([+-][\d.]+), and its words add ([+-][\d.]+)", reason)
        if gain is not None:
            assert (sum(map(float, gain.groups())) > 0) is (action != "reject"), reason


def test_the_stored_runs_accept_some_steps_and_reject_others():
    assert STORED.keys() == CASES.keys()
    assert len({run["best_skill"] for run in STORED.values()}) > len(STORED) / 2
    assert {action for run in STORED.values() for action in run["actions"]} == {
        "accept_new_best",
        "force_accept",
        "reject",
    }


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_what_is_stored_is_what_skillopt_decides(tmp_path, name):
    spec = PathFinder.find_spec("skillopt")
    if spec is None:
        pytest.fail("the package skillopt is not installed; run these tests with 'make oracle'")
    ran = subprocess.run(
        [sys.executable, parity_runs.__file__, str(write_case(tmp_path, name))],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert json.loads(ran.stdout.splitlines()[-1]) == STORED[name]
