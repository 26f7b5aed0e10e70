"""What the rest of the specification marks as ours, about adapters, reminders and seeds."""

import json
import math
from pathlib import Path

import pytest
from spec_worlds import Elder, change_item, world

from doors import ALL_RULES, ALL_WRONG, ROOMS, Coach, Walker, doors_config, llms, look, trained
from skillwright.config.run import validated
from skillwright.core import ContractError, RolloutResult
from skillwright.core.concurrency import together
from skillwright.datasets import SplitDataLoader
from skillwright.envs import EnvAdapter
from skillwright.jobs.run import NullCallback
from skillwright.jobs.text import run_training, start_run
from skillwright.textopt import load_prompt


class DoorsAdapter(EnvAdapter):
    """The doors as somebody else's benchmark; an item may say how to ``spoil`` its row."""

    def __init__(self, split_dir=""):
        self.loader = SplitDataLoader(split_dir=split_dir, split_mode="split_dir")

    def setup(self, cfg):
        super().setup(cfg)
        self.loader.setup(cfg)

    def get_dataloader(self):
        return self.loader

    def build_train_env(self, batch_size, seed, **kwargs):
        return self.loader.build_train_batch(batch_size, seed).payload

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return self.loader.build_eval_batch(env_num, split, seed).payload

    def build_env_from_batch(self, batch, **kwargs):
        return list(batch.payload)

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = []
        for item in env_manager:
            if item.get("silent") is None:
                folder = Path(out_dir) / "predictions" / item["id"]
                folder.mkdir(parents=True, exist_ok=True)
                said = [{"role": "user", "content": item["room"]}]
                (folder / "conversation.json").write_text(json.dumps(said), encoding="utf-8")
            won = float(f"In the {item['room']} take door {ROOMS[item['room']]}." in skill_content)
            row = {"id": item["id"], "hard": won, "soft": won, "room": item["room"]}
            rows.append(
                row | {name: SPOILT[value] for name, value in item.get("spoil", {}).items()}
            )
        return [row for row in rows if row["room"] != "nowhere"]

    def get_task_types(self):
        return list(ROOMS)


SPOILT = {"nan": math.nan, "none": None, "much": 1.2, "gone": "nowhere"}


def adapter_config(folder):
    doors_config(folder)  # writes the tasks
    settings = {
        "run": {"name": "doors", "root": str(folder / "runs")},
        "env": {
            "name": f"{__file__}:DoorsAdapter",
            "config": {"split_dir": str(folder / "tasks")},
            "data": {"kind": "adapter"},
        },
        "models": {
            "target": {"backend": "scripted", "model": "household"},
            "optimizer": {"backend": "scripted", "model": "analyst"},
        },
        "train": {"epochs": 1, "batch_size": 6},
        "gradient": {"minibatch_size": 3},
    }
    return validated(settings, "doors")


async def adapted(config, coach):
    with start_run(config, "") as run:
        path = run.folder.path
        return path, await run_training(run, NullCallback(), llms(Walker(), coach))


async def test_8_02_an_adapter_trains_like_a_world_of_our_own(tmp_path):
    _, report = await adapted(adapter_config(tmp_path), Coach([[ALL_RULES], [ALL_WRONG]]))
    assert [step.action for step in report.state.steps] == ["accept", "reject"]
    assert report.best_skill == f"{ALL_RULES}\n"
    rates = {name: table.overall.success_rate for name, table in report.test.tables.items()}
    assert (rates["initial"], rates["best"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    "spoil", [{"hard": "nan"}, {"soft": "much"}, {"hard": "none"}, {"room": "gone"}]
)
async def test_2_05_a_row_that_is_no_score_is_marked_and_never_a_zero(tmp_path, spoil):
    config = adapter_config(tmp_path)
    change_item(tmp_path / "tasks" / "val", 3, spoil=spoil)
    path, report = await adapted(config, Coach([]))
    score = report.state.baseline.overall
    assert (score.failures, score.episodes) == (1, 23)
    with look(path) as store:
        failed = {episode.task_id for episode in store.episodes() if episode.failure}
    assert failed == {"val-03"}


async def test_1_03_every_row_that_no_analyst_saw_is_reported(tmp_path):
    config = adapter_config(tmp_path)
    for number in range(12):
        change_item(tmp_path / "tasks" / "train", number, silent=number == 4 or None)
    path, _ = await adapted(config, Coach([]))
    with look(path) as store:
        skipped = [row for e in store.events("step") for row in e.payload.get("skipped", ())]
    assert [row["id"] for row in skipped] == ["train-04"]
    assert "conversation" in skipped[0]["reason"]


def test_2_05_extras_are_kept_and_a_row_without_a_number_is_a_clear_error():
    row = RolloutResult.from_dict({"id": 7, "hard": 1, "soft": 0.5, "extras": {"a": 1}, "b": 2})
    assert (row.id, row.extras) == ("7", {"a": 1, "b": 2})
    with pytest.raises(ContractError, match="rollout row '7': hard is None, not a number"):
        RolloutResult.from_dict({"id": 7, "hard": None, "soft": 0.5})


class Reminding(Elder):
    """Also has a reminder for the agent, where it is asked to tell slips from gaps."""

    async def complete(self, messages, **asked):
        self.is_asked = "appendix_notes" in messages[0]["content"]
        return await super().complete(messages, **asked)

    def _answer(self, user):
        answer = super()._answer(user)
        return answer | ({"appendix_notes": ["Read the sign."]} if self.is_asked else {})


async def test_1_12_skill_awareness_is_a_matter_of_the_run_and_not_of_the_process(tmp_path):
    async def run(name, **optimizer):
        (tmp_path / name).mkdir()
        coach = Reminding([[ALL_RULES], []])
        config = doors_config(tmp_path / name, optimizer=optimizer)
        _, report = await trained(config, Walker(), coach)
        return report.best_skill

    aware, plain = await together([run("aware", skill_aware={}), run("plain")])
    assert "<!-- APPENDIX_START -->" in aware
    assert "- Read the sign." in aware
    assert plain == f"{ALL_RULES}\n"


async def test_1_05_regions_are_put_back_where_a_rewrite_drops_them(tmp_path):
    class Careless(Elder):
        def _answer(self, user):
            answer = super()._answer(user)
            if "patch" not in answer:
                return answer
            skills = [{"new_skill": e["content"]} for e in answer["patch"]["edits"]]
            return {"patch": {"skill_candidates": skills}}

    region = "<!-- SLOW_UPDATE_START -->\nLook twice.\n<!-- SLOW_UPDATE_END -->\n"
    config = doors_config(tmp_path, optimizer={"skill_update_mode": "full_rewrite_minibatch"})
    one_analyst = {"minibatch_size": 40, "failure_only": True}
    config = config.model_copy(update={"gradient": config.gradient.model_copy(update=one_analyst)})
    _, report = await trained(
        config, Walker(), Careless([[ALL_RULES], []]), skill=f"{ALL_WRONG}\n\n{region}"
    )
    assert report.state.steps[0].action == "accept"
    assert ALL_RULES in report.best_skill
    assert report.best_skill.endswith(region)


def test_1_03_every_prompt_of_the_documented_names_is_there():
    modes = ("", "_rewrite", "_full_rewrite")
    several = ("analyst_error", "analyst_success", "merge_failure", "merge_success", "merge_final")
    names = [f"{name}{mode}" for name in several for mode in modes]
    names += ["ranking", "ranking_rewrite", "rewrite_skill", "lr_autonomous", "slow_update"]
    assert all(load_prompt(name).strip() for name in (*names, "meta_skill"))
    assert len({*names, "meta_skill"}) == 21


async def test_1_06_no_control_means_no_cap(tmp_path):
    config = doors_config(tmp_path, optimizer={"lr_control_mode": "none", "learning_rate": 2})
    plan = [[f"Rule {number}." for number in range(6)], []]
    path, _ = await trained(config, Walker(), Coach(plan))
    with look(path) as store:
        applied = [edit for edit in store.edits(1) if edit.status.startswith("applied")]
    assert len(applied) == 6


async def test_1_08_an_environment_fault_of_a_task_never_reaches_an_analyst(tmp_path):
    config = doors_config(tmp_path, env=world(tmp_path, "Jammed"), rollout={"retries": 0})
    change_item(tmp_path / "tasks" / "train", 3, jams=True)
    coach = Elder([])
    path, _ = await trained(config, Walker(), coach)
    assert coach.asked('id="train-02"')
    assert not coach.asked('id="train-03"')
    with look(path) as store:
        skipped = [row for e in store.events("step") for row in e.payload.get("skipped", ())]
    assert [row["id"] for row in skipped] == ["train-03"]
