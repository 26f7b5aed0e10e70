"""What an analyst reads of a customer's call: calls, results and the customer apart."""

from doors import look
from skillwright.jobs.text import EvalPlan
from skillwright.textopt import read_episodes
from tau3_store import tau3_data
from tau_models import Clerk, shop, tau_config, tau_evaluated
from tau_store import CANCEL, OPENING, tool_call


async def transcript(tmp_path, *turns):
    config = tau_config(tmp_path, shop(tmp_path / "shop", count=1), user_replies=[OPENING, "Yes."])
    path, _ = await tau_evaluated(config, EvalPlan("test", 1), Clerk("Bye.", list(turns)))
    with look(path) as store:
        (episode,) = [store.load_episode(one.id) for one in store.episodes()]
    return read_episodes([episode]).rows[0]


async def test_tool_calls_results_and_the_user_stand_apart(tmp_path):
    told = await transcript(
        tmp_path, "<think>Ask first.</think>Shall I?", tool_call(CANCEL[0], **CANCEL[1])
    )
    assert told.opening == OPENING
    kinds = [(line.turn, line.kind) for line in told.lines]
    assert kinds == [
        (0, "reasoning"),
        (0, "agent to user"),
        (0, "user"),
        (1, "tool call"),
        (1, "tool result"),
        (2, "agent to user"),
        (2, "user"),
        (2, "verification"),
    ]
    texts = {line.kind: line.text for line in told.lines if line.turn < 2}
    assert texts["reasoning"] == "Ask first."
    assert texts["agent to user"] == "Shall I?"
    assert texts["user"] == "Yes."
    assert texts["tool call"].startswith('cancel_pending_order {"order_id": "#W1"')
    assert texts["tool result"].startswith('{"order_id": "#W1"')


async def test_what_was_wrong_in_the_end_is_told(tmp_path):
    told = await transcript(tmp_path)
    (verification,) = [line for line in told.lines if line.kind == "verification"]
    assert "orders/#W1" in verification.text
    assert "cancel_reason" in verification.text


async def test_what_could_not_be_parsed_is_an_action_and_its_error(tmp_path):
    told = await transcript(tmp_path, "<tool_call>{")
    assert told.lines[0].kind == "action"
    assert told.lines[1].kind == "result"
    assert "could not parse" in told.lines[1].text


async def test_the_users_own_tool_calls_are_shown_with_their_results(tmp_path):
    replies = [OPENING, tool_call("toggle_roaming"), "It is on."]
    data = tau3_data(tmp_path, "telecom")
    config = tau_config(tmp_path, data, domain="tau3_telecom", user_replies=replies)
    path, _ = await tau_evaluated(config, EvalPlan("test", 1), Clerk("Switch roaming on."))
    with look(path) as store:
        stored = [store.load_episode(one.id) for one in store.episodes()]
    lines = read_episodes(stored).rows[0].lines
    assert [line.kind for line in lines[:4]] == [
        "agent to user",
        "tool call of the user",
        "its result",
        "user",
    ]
    assert "toggle_roaming" in lines[1].text
    assert lines[2].text.startswith("Data Roaming is now ON.")
