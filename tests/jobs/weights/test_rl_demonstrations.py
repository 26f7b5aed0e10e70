"""Demonstrations that are there already: another run's successes, and chats in a file."""

import json

import pytest

from hf_world import hf_config, write_tiny
from policy.tiny_models import tiny_model, tiny_tokenizer
from rl_world import ObedientMaker, lanes_config, recipe, rule
from skillwright.config import validated_rl
from skillwright.core import ConfigError, DataError, PlainSkill
from skillwright.jobs.weights import find_rl_tasks, supervised
from skillwright.jobs.weights.demonstrations import (
    as_read,
    chat_rows,
    check_chats,
    episodes_of_run,
)
from skillwright.jobs.weights.preflight import preflight_rl
from skillwright.policy.hf import HfPolicy, HfSettings
from skillwright.rollout.prompt import skill_in


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A run whose expert and policy have solved some tasks, and its configuration."""
    import asyncio

    config = lanes_config(tmp_path_factory.mktemp("played"))
    path, _ = asyncio.run(recipe(config, maker=ObedientMaker(config)))
    return path, config


def test_only_successes_on_tasks_to_train_on_are_learned_from(played):
    path, config = played
    tasks = find_rl_tasks(config).training
    found = episodes_of_run(str(path), config.run.root, tasks, 1.0)
    assert found
    assert {one.reward for one in found} == {1.0}
    assert {one.task_id for one in found} <= {task.id for task in tasks}
    assert not {one.task_id for one in found} & {task.id for task in find_rl_tasks(config).val}


def test_this_run_reads_its_own_skills_in_the_place_of_those_of_then(played):
    path, config = played
    found = episodes_of_run(str(path), config.run.root, find_rl_tasks(config).training, 1.0)
    given = {skill_in(one.trajectory.turns[0].prompt) for one in found}
    assert any(rule("attic") in text for text in given)
    read = as_read(found, PlainSkill("Knock first."))
    prompts = [turn.prompt for one in read for turn in one.trajectory.turns]
    assert {skill_in(prompt) for prompt in prompts} == {"Knock first."}
    assert not any(rule("attic") in prompt[0]["content"] for prompt in prompts)
    bare = as_read(read, PlainSkill(""))
    assert {one.trajectory.turns[0].prompt[0]["content"] for one in bare} == {"Choose a door."}


async def test_a_policy_is_trained_on_what_another_run_solved_without_an_expert(played, tmp_path):
    path, config = played
    settings = config.model_dump(mode="json")
    settings["run"] = {"name": "again", "root": str(tmp_path)}
    settings["models"]["expert"] = None
    settings["cold_start"]["demonstrations"] = str(path)
    again = supervised(validated_rl(settings, "again"))
    await preflight_rl(again)
    _, report = await recipe(again)
    coverage = report.state.cold_start["coverage"]
    assert coverage["wins"] == coverage["episodes"] > 0


def test_a_run_that_solved_nothing_of_these_tasks_is_refused(played):
    path, config = played
    with pytest.raises(ConfigError, match="solved none of the 0 tasks"):
        episodes_of_run(str(path), config.run.root, [], 1.0)
    with pytest.raises(ConfigError, match=r"neither a \.jsonl file nor a run"):
        episodes_of_run("nowhere", config.run.root, [], 1.0)


# Chats.


def write_chats(path, *chats):
    path.write_text("\n".join(json.dumps(one) for one in chats) + "\n", encoding="utf-8")
    return path


def chat(*contents, **weights):
    roles = ["user", "assistant"] * len(contents)
    messages = [{"role": role, "content": one} for role, one in zip(roles, contents, strict=False)]
    for at, weight in weights.items():
        messages[int(at.removeprefix("at"))]["weight"] = weight
    return {"messages": messages}


def test_each_answer_of_a_chat_is_a_row_and_one_of_no_weight_is_only_read(tmp_path):
    policy = HfPolicy(tiny_model(), tiny_tokenizer(), HfSettings(max_new_tokens=8, device="cpu"))
    path = write_chats(
        tmp_path / "chats.jsonl",
        chat("go to shelf", "take mug", "and now", "look at it"),
        chat("go", "wrong", "again", "right", at1=0),
    )
    rows, coverage = chat_rows(policy, path)
    tokenizer = policy.speech.tokenizer
    learned = [tokenizer.decode(row.token_ids[:-1]) for row in rows]
    assert learned == ["take mug", "look at it", "right"]
    assert [row.turn for row in rows] == [0, 1, 1]
    assert [row.episode for row in rows] == ["chats.jsonl:1", "chats.jsonl:1", "chats.jsonl:2"]
    assert "wrong" in tokenizer.decode(rows[2].context.prompt_ids)
    assert all(all(row.loss_mask) for row in rows)
    assert (coverage.episodes, coverage.rows) == (2, 3)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "chats.jsonl:2: not a line of JSON"),
        ('{"messages": []}', "chats.jsonl:2: a chat is an object with a list of 'messages'"),
        ("[1]", "chats.jsonl:2: a chat is an object"),
        ('{"messages": [{"role": "bot", "content": ""}]}', "message 1: a message has a 'role'"),
        ('{"messages": [{"role": "user", "content": 3}]}', "message 1: its 'content' is no text"),
        ('{"messages": [{"role": "user", "content": "x"}]}', "no message of the assistant"),
        ('{"messages": [{"role": "assistant", "content": "x"}]}', "does not begin with the"),
    ],
)
def test_a_line_that_is_no_chat_is_named(tmp_path, line, says):
    path = tmp_path / "chats.jsonl"
    path.write_text(json.dumps(chat("go", "take mug")) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=says):
        check_chats(path)


def test_a_file_of_chats_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"chats\.jsonl' cannot be read: No such file"):
        check_chats(tmp_path / "chats.jsonl")


def test_a_scorer_cannot_learn_from_chats(tmp_path):
    with pytest.raises(ConfigError, match="chats hold none"):
        lanes_config(tmp_path, cold_start={"demonstrations": "chats.jsonl"})


async def test_a_language_model_is_trained_on_chats_alone(tmp_path):
    lines = [
        {
            "messages": [
                {"role": "system", "content": "Choose a door."},
                {"role": "user", "content": f"It is quiet.\n\nYou are in the {room}."},
                {"role": "assistant", "content": f"take door {door}"},
            ]
        }
        for room, door in (("attic", 4), ("cellar", 2), ("hall", 1))
    ]
    path = write_chats(tmp_path / "chats.jsonl", *lines)
    config = hf_config(
        tmp_path,
        write_tiny(tmp_path / "base"),
        cold_start={"demonstrations": str(path), "batch_rows": 3},
        models={"expert": None, "teacher": None},
    )
    _, report = await recipe(supervised(config))
    first, last = report.state.cold_start["surprise"]
    assert last < first / 5
    assert report.test.tables["final"].overall.success_rate == 1.0
