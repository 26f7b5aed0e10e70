"""The table of differences from SkillOpt: true of the schema, taken in parity, said by runs."""

import asyncio
import json
import re
from pathlib import Path

import pytest
import yaml

from doors import ALL_RULES, Coach, Walker, doors_config, look, trained
from skillwright.config import RunConfig, dump_config, load_config, mode_of
from skillwright.config.run import (
    EvaluationSection,
    OptimizerSection,
    RunSection,
    validated,
)
from skillwright.config.yaml_files import key_paths
from skillwright.core import ConfigError
from skillwright.evaluation import OpenGate, PairedGate, StrictGate
from skillwright.jobs.text import step_settings
from skillwright.plugins.skillopt.parity import DIFFERENCES, KEPT_OUT
from skillwright.plugins.skillopt.parity_report import parity_settings
from skillwright.textopt import BudgetControl, RankFallback

MIGRATING = Path(__file__).resolve().parents[3] / "docs" / "migrating_from_skillopt.md"
MODELS = {
    "target": {"backend": "scripted", "model": "household"},
    "optimizer": {"backend": "scripted", "model": "analyst"},
}


HIDDEN = {
    "evaluation.gate.fresh_draws",
    "evaluation.inherit_scores",
    "gradient.success_threshold",
    "gradient.analyst_budget",
    "optimizer.none_means_fixed",
    "optimizer.rank_fallback",
    "optimizer.repair_anchors",
    "optimizer.replies_as_written",
    "optimizer.insert_after_fallback",
    "optimizer.memory_across_epochs",
    "optimizer.skill_aware.gated",
}


def config(parity=True, run=None, **sections) -> RunConfig:
    run = run or {"parity": parity}
    return validated({"models": MODELS, "run": run, **sections}, "run.yaml")


def values(built):
    return {one.difference.key: one.value for one in parity_settings(built)}


def test_every_row_is_a_key_with_the_default_that_it_claims():
    known = {place.path for place in key_paths(RunConfig)}
    for row in DIFFERENCES:
        assert row.key in known or row.key in HIDDEN
    strict = config(False, evaluation={"gate": {"kind": "strict"}}, optimizer={"skill_aware": {}})
    ours = {row.key: row.ours for row in DIFFERENCES}
    assert values(strict) == {**ours, "evaluation.gate.kind": "strict"}
    assert config(False).evaluation.gate.kind == ours["evaluation.gate.kind"]
    assert all(row.ours != row.original for row in DIFFERENCES)


def test_parity_takes_every_default_of_the_original():
    built = config(optimizer={"skill_aware": {}})
    assert values(built) == {row.key: row.original for row in DIFFERENCES}
    assert built.evaluation.gate == StrictGate(fresh_draws=False)
    assert config().optimizer.skill_aware is None


def test_an_open_gate_in_parity_says_where_it_stands():
    built = config(evaluation={"gate": {"kind": "open"}})
    listed = [one for one in parity_settings(built) if not one.is_original]
    assert [one.difference.key for one in listed] == ["evaluation.gate.kind"]
    ours = config(False, evaluation={"gate": {"kind": "open"}})
    keys = [one.difference.key for one in parity_settings(ours) if not one.is_original]
    assert keys.count("evaluation.gate.fresh_draws") == 1


def test_parity_reaches_what_makes_proposals():
    made = step_settings(config(optimizer={"lr_control_mode": "none"}))
    assert (made.control, made.rank_fallback) == (BudgetControl.FIXED, RankFallback.ORDER)
    assert made.analyst_budget == 4
    ours = step_settings(config(False, optimizer={"lr_control_mode": "none"}))
    assert (ours.control, ours.rank_fallback) == (BudgetControl.NONE, RankFallback.SUPPORT)


def test_a_key_that_is_given_holds_in_parity():
    given = {"optimizer": {"repair_anchors": True}, "gradient": {"success_threshold": 0.5}}
    built = config(**given)
    assert (built.optimizer.repair_anchors, built.gradient.success_threshold) == (True, 0.5)
    assert built.optimizer.insert_after_fallback is True


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        ({"kind": "paired", "draws": 2}, PairedGate(draws=2)),
        ({"kind": "strict", "margin": 0.1}, StrictGate(margin=0.1, fresh_draws=False)),
        ({"metric": "soft"}, StrictGate(metric="soft", fresh_draws=False)),
        ({"fresh_draws": True}, StrictGate()),
        ({"kind": "open"}, OpenGate(fresh_draws=False)),
        ({"kind": "open", "fresh_draws": True}, OpenGate()),
        (StrictGate(margin=0.1), StrictGate(margin=0.1, fresh_draws=False)),
        (OpenGate(metric="soft"), OpenGate(metric="soft", fresh_draws=False)),
        (PairedGate(draws=2), PairedGate(draws=2)),
    ],
)
def test_a_gate_of_another_kind_takes_nothing_from_the_strict_one(gate, expected):
    assert config(evaluation={"gate": gate}).evaluation.gate == expected


def test_sections_that_were_built_in_python_take_the_rest_from_parity_too():
    built = config(
        run=RunSection(parity=True),
        optimizer=OptimizerSection(repair_anchors=True, skill_aware={}),
        evaluation=EvaluationSection(alpha=0.1),
    )
    overridden = {one.difference.key for one in parity_settings(built) if not one.is_original}
    assert overridden == {"optimizer.repair_anchors"}
    assert (built.evaluation.alpha, built.optimizer.skill_aware.gated) == (0.1, False)


def test_a_wrong_key_is_refused_in_parity_too():
    with pytest.raises(ConfigError, match="Did you mean 'use_meta_skill'"):
        config(optimizer={"use_meta_skil": True})
    with pytest.raises(ConfigError, match=r"run\.parity: Input should be a valid boolean"):
        config(parity="yes")


def test_a_stored_configuration_of_a_parity_run_is_read_back_the_same():
    built = config(optimizer={"repair_anchors": True}, evaluation={"gate": {"kind": "paired"}})
    assert validated(yaml.safe_load(dump_config(built)), "again") == built


def test_a_file_of_skillopts_takes_what_it_does_not_say_from_parity(tmp_path):
    path = tmp_path / "theirs.yaml"
    path.write_text(
        "model: {backend: openai_chat}\nenv: {name: alfworld}\n"
        "optimizer: {slow_update_gate_with_selection: true}\n",
        encoding="utf-8",
    )
    plain, parity = load_config(path), load_config(path, ["run.parity=true"])
    assert plain.optimizer.repair_anchors is True
    assert parity.optimizer.repair_anchors is False
    assert parity.evaluation.gate == StrictGate(fresh_draws=False)
    assert parity.optimizer.gate_slow_update is True


def test_the_mode_is_said_with_what_differs():
    line, *listed = mode_of(config(False)).lines
    assert line.startswith("default mode: 13 settings differ from SkillOpt's")
    assert "evaluation.gate.kind explore (there strict)" in listed[0]
    assert max(map(len, listed)) <= 76
    (line,) = mode_of(config()).lines
    assert line.startswith("parity mode: SkillOpt's defaults (14 settings)")
    assert line.endswith(" 0 overridden")
    line, listed = mode_of(config(optimizer={"repair_anchors": True})).lines
    assert line.endswith(" 1 overridden")
    assert listed == "  optimizer.repair_anchors true (there false)"


def test_a_run_says_its_mode_at_its_start_and_keeps_it(tmp_path):
    facts = []

    class Listener:
        def on_event(self, event):
            facts.extend(getattr(event, "facts", ()))

    built = doors_config(tmp_path, run={"name": "p", "root": str(tmp_path), "parity": True})
    path, _ = asyncio.run(trained(built, Walker(), Coach([[ALL_RULES]]), callback=Listener()))
    assert mode_of(built).lines[0] in facts
    with look(path) as store:
        made = store.events("made")[0].payload
    assert (made["mode"], made["differs_from_skillopt"]) == ("parity", {})
    assert made["kept_out"] == [row.there for row in KEPT_OUT]
    json.dumps(made)


def test_the_page_on_migrating_shows_the_table():
    text = MIGRATING.read_text(encoding="utf-8")
    for row in DIFFERENCES:
        assert re.search(rf"^\| `{re.escape(row.key)}` \|.*\| {re.escape(row.why)} \|$", text, re.M)
    for there, here in KEPT_OUT:
        assert f"| {there} | {here} |" in text
