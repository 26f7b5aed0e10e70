"""A run continues with the settings that it began with."""

import json
import sqlite3

import pytest
import yaml

from doors import doors_config, look
from rl_world import lanes_config
from skillwright.core import ConfigError
from skillwright.jobs import EvalPlan, open_run, open_study, start_run, start_study
from skillwright.jobs.weights import open_rl, start_rl


def edit(path, change):
    """Change what is in a run's configuration, as a person does with an editor."""
    file = path / "config.yaml"
    values = yaml.safe_load(file.read_text("utf-8"))
    change(values)
    file.write_text(yaml.safe_dump(values), encoding="utf-8")


def begun(tmp_path, **sections):
    with start_run(doors_config(tmp_path, **sections), "") as run:
        return run.folder.path


def more_epochs(values):
    values["train"]["epochs"] = 7


def test_an_edited_setting_is_refused_by_name_with_what_it_was(tmp_path):
    path = begun(tmp_path)
    edit(path, more_epochs)
    with pytest.raises(ConfigError, match=r"was edited after the run began") as caught:
        open_run(path)
    assert "train.epochs was 1, and is 7 now" in str(caught.value)
    assert "start a new run" in str(caught.value)
    edit(path, lambda values: values["train"].update(epochs=1))
    open_run(path).close()


def test_every_changed_added_and_removed_key_is_named(tmp_path):
    path = begun(tmp_path)

    def change(values):
        values["run"]["seed"] = 5
        values["env"]["config"] = {"new": "x" * 200}
        del values["rollout"]["give_up_after"]

    edit(path, change)
    with pytest.raises(ConfigError) as caught:
        open_run(path)
    lines = str(caught.value).splitlines()[1:]
    assert lines[0].startswith('env.config.new was not there, and is "xxx')
    assert len(lines[0]) < 140
    assert lines[1:] == [
        "rollout.give_up_after was 20, and is not there now",
        "run.seed was 42, and is 5 now",
    ]


def test_the_budget_may_be_edited_or_set(tmp_path):
    path = begun(tmp_path)
    edit(path, lambda values: values.update(budget={"minutes": 5.0}))
    with open_run(path) as run:
        assert run.config.budget.minutes == 5
    with open_run(path, overrides=["budget.minutes=9"]) as run:
        assert run.config.budget.minutes == 9


def test_comments_and_the_order_of_keys_are_no_settings(tmp_path):
    path = begun(tmp_path)
    edit(path, lambda values: values.update(run=values.pop("run")))
    with (path / "config.yaml").open("a", encoding="utf-8") as file:
        file.write("# mine\n")
    open_run(path).close()


def test_an_evaluation_a_recipe_and_a_study_are_held_to_their_settings(tmp_path):
    with start_run(doors_config(tmp_path), "", EvalPlan("val", 2)) as run:
        evaluation = run.folder.path
    with start_rl(lanes_config(tmp_path / "lanes")) as recipe:
        lanes = recipe.folder.path
    with start_study(doors_config(tmp_path / "study"), "", 2) as study:
        seed = study.run_path(43)
    edit(lanes, lambda values: values["grpo"].update(group_size=2))
    edit(evaluation, more_epochs)
    edit(seed, more_epochs)
    with pytest.raises(ConfigError, match=r"grpo\.group_size was 4, and is 2 now"):
        open_rl(lanes)
    with pytest.raises(ConfigError, match=r"train\.epochs was 1"):
        open_run(evaluation)
    open_study(seed.parent).close()  # each of its runs says so when it is its turn
    with pytest.raises(ConfigError, match=r"train\.epochs was 1"):
        open_run(seed)


def test_a_secret_that_was_not_stored_is_put_back(tmp_path):
    path = begun(tmp_path, env={"config": {"password": "hunter2secret"}})
    with look(path) as store:
        assert "hunter2secret" not in json.dumps(store.events()[0].payload)
    edit(path, lambda values: values["env"]["config"].update(password="hunter2secret"))
    open_run(path).close()


def test_a_key_that_is_left_out_of_what_is_stored_may_be_given(tmp_path):
    endpoint = {"backend": "openai_chat", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    path = begun(tmp_path, models={"target": {**endpoint, "api_key": "sk-not-stored"}})
    edit(path, lambda values: values["models"]["target"].update(api_key="sk-not-stored"))
    open_run(path).close()


def test_a_run_from_before_settings_were_kept_is_resumed(tmp_path):
    path = begun(tmp_path)
    connection = sqlite3.connect(path / "run.sqlite")
    (payload,) = connection.execute("SELECT payload FROM events WHERE kind = 'made'").fetchone()
    facts = json.loads(payload)
    del facts["settings"]
    connection.execute("UPDATE events SET payload = ? WHERE kind = 'made'", (json.dumps(facts),))
    connection.commit()
    connection.close()
    edit(path, more_epochs)
    open_run(path).close()
