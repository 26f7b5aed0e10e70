"""Tasks in the format of tau2-bench: what maps is played, and what does not is refused with why."""

import pytest

from skillwright.core import DataError
from skillwright.worlds.tau_bench import open_store
from tau_airline import BOOKING, airline_env, write_airline
from tau_store import tool_call

SCENARIO = {
    "persona": "A patient traveler.",
    "instructions": {
        "task_instructions": "Do not give your card's number.",
        "domain": "airline",
        "reason_for_call": "You want to fly to Denver on May 20.",
        "known_info": "You are Ann Ash. Your user id is ann.",
        "unknown_info": "You do not know the flight's number.",
    },
}
BOOK = {"action_id": "0_0", "name": "book_reservation", "arguments": BOOKING, "info": None}
LOOK = {"action_id": "0_1", "name": "list_all_airports", "arguments": {}, "info": None}


def tau2(*actions, **other):
    criteria = {
        "actions": list(actions),
        "communicate_info": ["1,00"],
        "nl_assertions": ["The agent is polite."],
        "reward_basis": ["DB", "COMMUNICATE"],
    }
    criteria |= {name: other.pop(name) for name in criteria.keys() & other.keys()}
    criteria |= {"env_assertions": other.pop("env_assertions", None)}
    return {
        "id": "0",
        "description": {"purpose": "A booking.", "relevant_policies": None, "notes": None},
        "user_scenario": SCENARIO,
        "initial_state": None,
        "evaluation_criteria": criteria,
        "annotations": None,
        **other,
    }


def asserts(name):
    return {"env_type": "assistant", "func_name": name, "arguments": {}, "assert_value": True}


def read(folder, *entries):
    return open_store(write_airline(folder, tasks_test=list(entries)), "airline").tasks("test")


def test_actions_texts_and_scenario_become_a_task(tmp_path):
    (task,) = read(tmp_path, tau2(LOOK, BOOK))
    assert task.user_id == "ann"
    assert [one.name for one in task.actions] == ["list_all_airports", "book_reservation"]
    assert task.actions[1].kwargs == BOOKING
    assert task.outputs == ["1,00"]
    assert task.instruction == (
        "Who you are: A patient traveler.\n\nYou want to fly to Denver on May 20.\n\n"
        "You are Ann Ash. Your user id is ann.\n\nYou do not know the flight's number.\n\n"
        "Do not give your card's number."
    )


def test_it_is_played_and_paid_as_any_other(tmp_path):
    read(tmp_path, tau2(BOOK, communicate_info=["100"]))
    rewards = []
    for turns in ([tool_call("book_reservation", **BOOKING), "It is $100."], ["It is $100."]):
        env = airline_env(tmp_path)
        env.init([])
        rewards.append([env.step(turn)["reward"] for turn in turns][-1])
    assert rewards == [1.0, 0.0]


def test_what_is_not_paid_for_there_is_not_asked_for_here(tmp_path):
    (task,) = read(tmp_path, tau2(BOOK, reward_basis=["DB"]))
    assert task.outputs == []  # and its assertions decide nothing
    (task,) = read(tmp_path / "b", tau2(BOOK, reward_basis=None))
    assert task.outputs == ["1,00"]  # its default


@pytest.mark.parametrize("none", [None, []])
def test_a_judged_part_without_assertions_counts_one(tmp_path, none):
    (task,) = read(tmp_path, tau2(BOOK, reward_basis=["DB", "NL_ASSERTION"], nl_assertions=none))
    assert (task.outputs, [one.name for one in task.actions]) == ([], ["book_reservation"])


def test_a_text_and_nothing_to_do_are_a_scenario_too(tmp_path):
    told = {"persona": None, "instructions": "You only want to talk."}
    (task,) = read(tmp_path, tau2(user_scenario=told, id="talk-7", actions=None))
    assert task.instruction == "You only want to talk."
    assert (task.user_id, task.actions) == ("talk-7", [])


def test_both_formats_may_be_in_one_file(tmp_path):
    plain = {"user_id": "bob", "instruction": "Hi.", "actions": [], "outputs": []}
    assert [one.user_id for one in read(tmp_path, tau2(BOOK), plain)] == ["ann", "bob"]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"reward_basis": ["DB", "MOOD"]}, "depends on MOOD"),
        (
            {"env_assertions": [asserts("is_happy")], "reward_basis": ["ENV_ASSERTION"]},
            "it calls is_happy, which is no function of domain airline",
        ),
        ({"initial_state": {"initialization_actions": [asserts("begin")]}}, "it calls begin"),
        ({"initial_state": {"initialization_data": {"x": 1}}}, "begins with initialization_data"),
        ({"initial_state": {"message_history": [{}]}}, "begins with message_history"),
        ({"user_tools": ["toggle_data"]}, "its user has tools"),
        ({"actions": [{**BOOK, "requestor": "user"}]}, "its user calls book_reservation"),
        ({"actions": [{**BOOK, "name": "get_flight_status"}]}, "calls get_flight_status"),
    ],
)
def test_what_does_not_map_is_refused_with_the_task_and_the_reason(tmp_path, other, told):
    with pytest.raises(DataError, match=rf"task 1 \(id '0'\).*does not map: .*{told}"):
        read(tmp_path, tau2(BOOK), tau2(BOOK, **other))


def test_every_reason_is_told_at_once(tmp_path):
    odd = tau2(BOOK, reward_basis=["MOOD"], user_tools=["x"])
    with pytest.raises(DataError, match=r"depends on MOOD.*its user has tools"):
        read(tmp_path, odd)


@pytest.mark.parametrize(
    "damage",
    [
        {"evaluation_criteria": []},
        {"evaluation_criteria": {"actions": [{}]}},
        {"evaluation_criteria": {"actions": 5}},
        {"evaluation_criteria": {"reward_basis": 5}},
        {"evaluation_criteria": {"communicate_info": [1]}},
        {"evaluation_criteria": {"actions": [{"name": "think", "arguments": "x"}]}},
        {"user_scenario": None},
        {"user_scenario": {"instructions": None}},
        {"initial_state": [1]},
    ],
)
def test_a_damaged_task_is_told(tmp_path, damage):
    with pytest.raises(DataError, match="task 0"):
        read(tmp_path, {**tau2(BOOK), **damage})
