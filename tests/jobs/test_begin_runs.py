"""Beginning a run, and finding it again."""

import json
import sqlite3

import pytest

import doors
from doors import Coach, Walker, doors_config, llms, look, trained
from skillwright.core import ConfigError, DataError, RunError, Task
from skillwright.envs import deregister, register
from skillwright.jobs import (
    EvalPlan,
    NullCallback,
    find_run,
    open_run,
    preflight,
    read_initial_skill,
    read_run,
    run_training,
    start_run,
    summarize_runs,
)
from skillwright.jobs.run.opened import make_env
from skillwright.jobs.run.tasks import make_splits
from skillwright.runs import RunFolder


def test_a_second_run_of_a_name_gets_a_number(tmp_path):
    config = doors_config(tmp_path)
    with start_run(config, "") as one, start_run(config, "") as two, start_run(config, "") as three:
        assert [run.folder.name for run in (one, two, three)] == ["doors", "doors-1", "doors-2"]


def test_a_run_knows_its_skill_and_what_it_is_for(tmp_path):
    plan = EvalPlan("val", 3)
    with start_run(doors_config(tmp_path), "Be kind.\n", plan) as run:
        path = run.folder.path
        assert run.resume_command == f"skillwright resume {path}"
    with open_run(path) as run:
        assert run.plan == plan
        assert run.store.skill(0) == "Be kind.\n"
        (made,) = run.store.events("made")
        assert made.payload["provenance"]["version"]
    with start_run(doors_config(tmp_path), "") as run:
        assert run.plan is None


def test_the_command_to_go_on_can_be_pasted_into_a_shell(tmp_path):
    root = tmp_path / "my runs"
    with start_run(doors_config(tmp_path, run={"root": str(root)}), "") as run:
        assert run.resume_command == f"skillwright resume '{root}/doors'"


def test_a_run_that_cannot_begin_leaves_nothing(tmp_path):
    impossible = EvalPlan("test", float("nan"))  # no JSON, so the store refuses it
    with pytest.raises(ValueError, match="Out of range float"):
        start_run(doors_config(tmp_path), "", impossible)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_that_is_interrupted_as_it_is_made_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(*about):
        raise KeyboardInterrupt

    monkeypatch.setattr("skillwright.runs.folder.write_text", interrupt)
    with pytest.raises(KeyboardInterrupt):
        start_run(doors_config(tmp_path), "")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_that_another_process_works_on_cannot_be_opened(tmp_path):
    with start_run(doors_config(tmp_path), "") as run:
        with pytest.raises(RunError, match=r"run 'doors' is in use by process \d+") as caught:
            open_run(run.folder.path)
        assert f"skillwright runs show {run.folder.path}" in str(caught.value)
        assert caught.value.exit_code == 2
    open_run(run.folder.path).close()


def test_a_run_is_found_by_path_or_by_name(tmp_path, monkeypatch):
    with start_run(doors_config(tmp_path), "") as run:
        path = run.folder.path
    assert find_run(path) == path
    assert find_run("doors", tmp_path / "runs") == path
    monkeypatch.chdir(tmp_path)
    assert find_run("doors").resolve() == path
    with pytest.raises(RunError, match=r"no run 'dors' here or in 'runs'. Did you mean 'doors'\?"):
        find_run("dors")


def test_a_run_without_its_store_is_refused_and_none_is_made(tmp_path):
    with start_run(doors_config(tmp_path), "") as run:
        path = run.folder.path
    (path / "run.sqlite").unlink()
    with pytest.raises(RunError, match=r"run\.sqlite"):
        open_run(path)
    assert not (path / "run.sqlite").exists()
    with RunFolder.open(path):  # the lock was let go of
        pass


def test_a_run_that_was_killed_before_it_began_is_refused_with_the_next_move(tmp_path):
    with start_run(doors_config(tmp_path), "") as run:
        path = run.folder.path
    connection = sqlite3.connect(path / "run.sqlite")
    connection.execute("DELETE FROM events")
    connection.commit()
    connection.close()
    with pytest.raises(RunError, match=r"holds no event.*start a new run"):
        open_run(path)


def test_a_run_that_cannot_be_read_does_not_hide_the_others(tmp_path):
    config = doors_config(tmp_path)
    for _ in range(2):
        start_run(config, "").close()
    (tmp_path / "runs" / "doors" / "run.sqlite").write_bytes(b"not a database" * 99)
    well, damaged = summarize_runs(tmp_path / "runs")
    assert (well.name, well.result) == ("doors-1", "not finished")
    assert damaged.name == "doors"
    assert "cannot be read: " in damaged.result
    assert damaged.to_dict()["finished"] is False
    assert summarize_runs(tmp_path / "nowhere") == []


async def test_a_summary_says_where_a_run_stands(tmp_path):
    path, report = await trained(doors_config(tmp_path), Walker(), Coach([["Be quick."], []]))
    summary = read_run(path)
    assert (summary.job, summary.steps, summary.accepted) == ("train", 2, 0)
    assert summary.is_finished
    assert summary.state.steps == report.state.steps
    rate = f"{report.test.tables['initial'].overall.success_rate:.0%}"
    assert summary.result == f"{rate} -> {rate} solved"
    shown = json.loads(json.dumps(summary.to_dict()))
    assert shown["test"] == report.test.to_dict()
    assert shown["episodes"] == len(set(look_keys(path)))


def look_keys(path):
    with look(path) as store:
        return [episode.key for episode in store.episodes()]


@pytest.mark.parametrize(
    ("variable", "key"),
    [("MY_KEY", "sk-a-very-secret-key"), ("NO_MODELS_TOKEN", "canary-0123456789")],
)
async def test_keys_are_kept_out_of_everything_that_is_written(
    tmp_path, monkeypatch, variable, key
):
    monkeypatch.setenv("MY_KEY", "of-the-model-0123")
    monkeypatch.setenv(variable, key)
    endpoint = {"backend": "openai_chat", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
    config = doors_config(
        tmp_path,
        models={"target": {**endpoint, "api_key_env": "MY_KEY"}, "optimizer": endpoint},
    )
    leak = f"Log in with {key}."
    with start_run(config, "") as run:
        await run_training(run, NullCallback(), lambda c, _: Walker() if c.api_key_env == "MY_KEY"
                           else Coach([[leak], [leak]]))  # fmt: skip
        path = run.folder.path
    written = [file for file in path.rglob("*") if file.is_file()]
    assert not [file for file in written if key.encode() in file.read_bytes()]
    with look(path) as store:
        assert "Log in with <redacted>." in store.skill(1)


def test_looking_at_a_data_file_leaves_no_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    items = [{"id": f"t{i}", "room": "hall", "door": 6} for i in range(40)]
    (tmp_path / "all.json").write_text(json.dumps(items))
    data = {"kind": "ratio", "path": "all.json", "ratio": "2:6:2", "seed": 0}
    config = doors_config(tmp_path, env={"data": data})
    splits = make_splits(config)
    sizes = (len(splits.train.tasks), len(splits.val.tasks), len(splits.test))
    assert sizes == (8, 24, 8)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.json", "tasks"]
    other = make_splits(doors_config(tmp_path, env={"data": {**data, "seed": 42}}))
    assert splits.val != other.val  # seed 0 is a seed like any other


async def test_preflight_finds_what_is_wrong_before_anything_is_written(tmp_path):
    def wrong(**sections):
        return doors_config(tmp_path, **sections)

    with pytest.raises(DataError, match=r"Doorz|no attribute"):
        await preflight(wrong(env={"name": f"{__file__}:Doorz"}))
    with pytest.raises(DataError, match="Did you mean 'alfworld'"):
        await preflight(wrong(env={"name": "alfwrld"}))
    with pytest.raises(DataError, match="Missing 'train/' subdirectory"):
        await preflight(wrong(env={"data": {"kind": "split_dir", "path": str(tmp_path / "no")}}))
    assert not (tmp_path / "runs").exists()


async def test_preflight_builds_an_environment_so_that_its_settings_are_checked(tmp_path):
    config = doors_config(
        tmp_path,
        env={"name": "alfworld", "config": {"show_admisible": False}, "data": {"train": 6}},
    )
    with pytest.raises(DataError, match="show_admissible"):
        await preflight(config)


def test_an_environment_gets_the_settings_of_the_configuration_or_of_its_registration(tmp_path):
    register("doors", f"{doors.__file__}:Doors", {"colour": "red"})
    try:
        task = Task("t", "doors")
        plain = doors_config(tmp_path, env={"name": "doors"})
        assert make_env(plain.env)(task).env_config == {"colour": "red"}
        other = doors_config(tmp_path, env={"name": "doors", "config": {"colour": "blue"}})
        assert make_env(other.env)(task).env_config == {"colour": "blue"}
    finally:
        deregister("doors")


async def test_preflight_refuses_a_gate_that_nothing_could_pass(tmp_path):
    config = doors_config(tmp_path, evaluation={"val_tasks": 7})
    with pytest.raises(ConfigError, match=r"cannot prove a gain on 7 val tasks.*at least 8"):
        await preflight(config)
    await preflight(config, EvalPlan("val", 1))  # an evaluation has no gate
    strict = {"val_tasks": 7, "gate": {"kind": "strict"}}
    await preflight(doors_config(tmp_path, evaluation=strict))


def test_the_initial_skill_is_a_file_or_nothing(tmp_path):
    assert read_initial_skill(doors_config(tmp_path)) == ""
    file = tmp_path / "skill.md"
    config = doors_config(tmp_path, skill={"init": str(file)})
    with pytest.raises(DataError, match=r"skill .*cannot be read: there is no such file"):
        read_initial_skill(config)
    file.write_bytes(b"caf\xe9")
    with pytest.raises(DataError, match="is not UTF-8: byte 3 is 0xe9"):
        read_initial_skill(config)


async def test_a_mind_can_be_handed_in(tmp_path):
    with start_run(doors_config(tmp_path), "") as run:
        report = await run_training(run, NullCallback(), llms(Walker(), Coach([])))
    assert len(report.state.steps) == 2


def test_a_secret_setting_that_was_not_stored_is_asked_for_again(tmp_path):
    config = doors_config(tmp_path, env={"config": {"service_token": "abcdefgh12345678"}})
    with start_run(config, "") as run:
        path = run.folder.path
    with pytest.raises(ConfigError, match=r"in place of env\.config\.service_token.*then resume"):
        open_run(path)
