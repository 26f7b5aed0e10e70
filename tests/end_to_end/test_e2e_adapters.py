"""Somebody else's benchmark trains and is evaluated, of either release, unchanged."""

import json

import pytest
from typer.testing import CliRunner

from doors import (
    ALL_RULES,
    ROOMS,
    Coach,
    Walker,
    evaluated,
    look,
    rule,
    trained,
    write_tasks,
)
from skillwright.cli.app import app
from skillwright.jobs.text import EvalPlan
from somebodys import (
    CALLS,
    Awaited,
    Chosen,
    Documented,
    Seeded,
    adapter_config,
    adapter_settings,
    rollouts,
)

LONG = {"epochs": 2}


@pytest.mark.parametrize("adapter", [Documented, Seeded, Awaited])
async def test_adapters_of_every_kind_improve_their_skill(tmp_path, adapter):
    config = adapter_config(tmp_path, adapter, train=LONG)
    path, report = await trained(config, Walker(), Coach([[ALL_RULES]]))
    assert all(rule(room) in report.best_skill for room in ROOMS)
    assert report.test.tables["initial"].overall.success_rate == 0
    assert report.test.tables["best"].overall.success_rate == 1
    assert (path / "best_skill.md").read_text(encoding="utf-8") == report.best_skill
    with look(path) as store:
        assert not [e for e in store.episodes() if e.failure]


async def test_the_documented_life_of_an_adapter(tmp_path):
    path, _ = await trained(adapter_config(tmp_path, Documented), Walker(), Coach([]))
    methods = [method for method, _ in CALLS]
    assert methods[:2] == ["init", "setup"]
    assert methods.count("setup") == 1
    setup = CALLS[1][1]["cfg"]
    assert setup["out_root"] == str((path / "adapter").absolute())
    wanted = {"batch_size": 6, "num_epochs": 1, "seed": 42, "edit_budget": 4, "minibatch_size": 3}
    wanted |= {"analyst_workers": 16, "failure_only": False, "skill_update_mode": "patch"}
    assert setup.items() >= wanted.items()
    assert len({facts["thread"] for _, facts in CALLS}) == 1
    trained_on = [f for m, f in CALLS if m == "rollout" and f["folder"].startswith("steps/")]
    held_out = [f for m, f in CALLS if m == "rollout" and not f["folder"].startswith("steps/")]
    assert all(facts["use_eval_feedback"] is True for facts in trained_on)
    assert not [facts for facts in held_out if "use_eval_feedback" in facts]
    reflected = next(facts for method, facts in CALLS if method == "reflect")
    step = path / "adapter" / "steps" / "step_0001"
    assert reflected["prediction_dir"] == str((step / "rollout" / "predictions").absolute())
    assert reflected["patches_dir"] == str((step / "patches").absolute())
    assert reflected["random_seed"] == 1043
    assert reflected["step_buffer_context"] == reflected["meta_skill_context"] == ""
    assert all(row["reference_text"] == rule(row["room"]) for row in reflected["rows"])


async def test_no_secret_reaches_an_adapter(tmp_path):
    models = {
        role: {"backend": "openai_chat", "model": model, "api_key": "sk-secret-1234567890"}
        for role, model in (("target", "walker"), ("optimizer", "analyst"))
    }
    config = adapter_config(tmp_path, Documented, models=models)
    await trained(config, Walker(), Coach([]))
    told = next(facts["cfg"] for method, facts in CALLS if method == "setup")
    assert told["target_model"] == "walker"
    assert "sk-secret" not in json.dumps(told, default=str)


async def test_micro_batches_have_folders_of_their_own(tmp_path):
    train = {"batch_size": 3, "accumulation": 2}
    await trained(adapter_config(tmp_path, Chosen, train=train), Walker(), Coach([]))
    steps = [folder for folder in rollouts() if folder.startswith("steps/")]
    assert steps == [
        f"steps/step_{step:04d}/batch_{index}/rollout" for step in (1, 2) for index in (0, 1)
    ]
    built = [facts for method, facts in CALLS if method == "build_env_from_batch"]
    assert {facts["out_root"].rpartition("/")[2] for facts in built} == {"adapter"}


async def test_a_gate_with_draws_rolls_the_split_out_again_in_other_folders(tmp_path):
    gate = {"gate": {"kind": "paired", "draws": 2}, "test": False}
    config = adapter_config(tmp_path, Seeded, evaluation=gate)
    await trained(config, Walker(), Coach([[ALL_RULES], []]))
    played = sorted(folder for folder in rollouts() if folder.startswith("selection_eval/"))
    assert len(played) == len(set(played)) == 4
    assert [folder[-7:] for folder in played] == ["draw_00", "draw_01"] * 2


async def test_default_reflect_reads_what_the_adapter_saved_with_its_prompts(tmp_path):
    coach = Coach([[ALL_RULES]])
    path, _ = await trained(adapter_config(tmp_path, Prompted), Walker(), coach)
    assert "It is locked." in coach.calls[0][0]
    with look(path) as store:
        system = store.prompt(store.patches(1)[0].prompt_digest)[0]["content"]
    assert system.startswith("Look at the doors.")


class Prompted(Seeded):
    def get_error_minibatch_prompt(self):
        return "Look at the doors."


async def test_an_own_reflect_may_ask_our_analysts(tmp_path):
    coach = Coach([[ALL_RULES]])
    _, report = await trained(adapter_config(tmp_path, Deferring), Walker(), coach)
    assert report.state.steps[0].action == "accept"
    assert report.state.final.accepted
    assert coach.calls


class Deferring(Seeded):
    def reflect(self, results, skill_content, out_dir, **kwargs):
        return super().reflect(results[:3], skill_content, out_dir, **kwargs)


async def test_look_back_pairs_are_joined_by_id_and_topped_up(tmp_path):
    optimizer = {"slow_update_samples": 4, "longitudinal_pair_policy": "unchanged"}
    config = adapter_config(tmp_path, Chosen, train={"epochs": 3}, optimizer=optimizer)
    path, _ = await trained(config, Walker(), Coach([]))
    with look(path) as store:
        second, third = [e.payload["drawn"] for e in store.events("epoch")][1:]
    # All is learned in the first epoch, so nothing differs, and four pairs are enough.
    assert len(second) == len(third) == 4
    assert {pair["category"] for pair in third} == {"stable_success"}
    back = [folder for folder in rollouts() if "epoch_03" in folder]
    assert back == ["slow_update/epoch_03/rollout_prev", "slow_update/epoch_03/rollout_curr"]


async def test_representative_pairs_come_first(tmp_path):
    config = adapter_config(tmp_path, Choosy, train=LONG)
    path, _ = await trained(config, Walker(), Coach([]))
    with look(path) as store:
        drawn = [pair["id"] for pair in store.events("epoch")[1].payload["drawn"]]
    assert drawn == sorted(drawn, reverse=True)


class Choosy(Chosen):
    def select_representative_items(self, results, items, *, n_failures, n_successes, seed=None):
        return sorted(items, key=lambda item: item["id"], reverse=True)


async def test_confirmation_episodes_are_kept_from_the_gate(tmp_path):
    config = adapter_config(tmp_path, Chosen, evaluation={"confirm_tasks": 6})
    path, _ = await trained(config, Walker(), Coach([]))
    with look(path) as store:
        gated = {e.task_id for e in store.episodes(phase="gate")}
        confirmed = {e.task_id for e in store.episodes(phase="confirm")}
    assert len(gated) == 18
    assert len(confirmed) == 6
    assert gated.isdisjoint(confirmed)


@pytest.mark.parametrize("adapter", [Documented, Seeded, Awaited])
@pytest.mark.parametrize("split", ["train", "val", "test"])
async def test_each_split_is_evaluated_by_itself(tmp_path, adapter, split):
    config = adapter_config(tmp_path, adapter)
    plan = EvalPlan(split, trials=2)
    path, report = await evaluated(config, plan, Walker(), skill=rule("attic"))
    assert report.table.overall.success_rate == pytest.approx(1 / 3)
    assert len(report.pass_k) == 2
    with look(path) as store:
        assert {e.split for e in store.episodes()} == {split}


def test_the_command_line_trains_resumes_and_evaluates_an_adapter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_tasks(tmp_path / "tasks")
    settings = adapter_settings(tmp_path, Documented)
    (tmp_path / "own.yaml").write_text(json.dumps(settings), encoding="utf-8")

    def run(*words):
        result = CliRunner().invoke(app, list(words), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result

    run("train", "own.yaml")
    folder = tmp_path / "runs" / "doors"
    best = folder / "best_skill.md"
    assert rule("hall") in best.read_text(encoding="utf-8")
    done = len(rollouts())
    run("resume", str(folder))
    assert len(rollouts()) == done
    said = run("eval", "own.yaml", "--skill", str(best), "--json")
    assert json.loads(said.stdout)["table"]["overall"]["success_rate"] == 1.0


async def test_what_failed_in_an_evaluation_is_rolled_out_again_when_it_goes_on(tmp_path):
    Shaky.fails = True
    config = adapter_config(tmp_path, Shaky)
    path, report = await evaluated(config, EvalPlan("val", trials=1), Walker())
    assert report.table.overall.failures == 1
    Shaky.fails = False
    from doors import llms
    from skillwright.jobs.run import NullCallback
    from skillwright.jobs.text import open_run, run_evaluation

    with open_run(path) as run:
        again = await run_evaluation(run, run.plan, NullCallback(), llms(Walker()))
    assert again.table.overall.failures == 0
    assert again.table.overall.episodes == 24


class Shaky(Chosen):
    fails = True

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = super().rollout(env_manager, skill_content, out_dir, **kwargs)
        return rows[1:] if self.fails else rows
