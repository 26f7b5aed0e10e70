"""A fault in an adapter's analysts, rows or texts costs no step, and ends no run wrongly."""

import asyncio
import decimal
import fractions
import sys
from typing import ClassVar

import pytest

from doors import ALL_RULES, Coach, Walker, look, resumed, trained
from skillwright.config.run import validated
from skillwright.core import ModelError, ModelRefused
from skillwright.envs import EnvAdapter
from skillwright.rollout import EngineDown
from somebodys import (
    CALLS,
    Chosen,
    Documented,
    Seeded,
    adapter_config,
    adapter_settings,
    rollouts,
)

PAIRED = {"gate": {"kind": "paired", "draws": 3}}


class Lonely(Chosen):
    """Its analysts meet what its class attribute holds, as long as there is something."""

    faults: ClassVar[list[Exception | None]] = []

    def reflect(self, results, skill_content, out_dir, **kwargs):
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault
        return super().reflect(results, skill_content, out_dir, **kwargs)


@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (ModelRefused("401: the key is wrong"), ModelRefused),
        (ModelError("503: down"), EngineDown),
        (TimeoutError("no answer"), EngineDown),
        (ConnectionResetError("gone"), EngineDown),
    ],
)
async def test_own_analysts_without_an_endpoint_cost_no_step(tmp_path, monkeypatch, fault, raised):
    monkeypatch.setattr(Lonely, "faults", [fault])
    with pytest.raises(raised, match=str(fault)):
        await trained(adapter_config(tmp_path, Lonely), Walker(), Coach([]))
    path = tmp_path / "runs" / "doors"
    with look(path) as store:
        assert not store.events("step")
    played = rollouts()
    report = await resumed(path, Walker(), Coach([]))
    assert report.state.steps[0].action == "accept"
    assert report.state.final.accepted
    assert rollouts().count("steps/step_0001/rollout") == played.count("steps/step_0001/rollout")


@pytest.mark.parametrize(("fine_at", "stops"), [(None, True), (2, False)])
async def test_own_analysts_that_fail_again_and_again_stop_the_run(
    tmp_path, monkeypatch, fine_at, stops
):
    faults = [None if at == fine_at else KeyError("insight") for at in range(4)]
    monkeypatch.setattr(Lonely, "faults", faults)
    config = adapter_config(tmp_path, Lonely, train={"epochs": 2})
    if stops:
        with pytest.raises(EngineDown, match=r"raised KeyError: 'insight'\. That is 3 times"):
            await trained(config, Walker(), Coach([]))
    else:
        _, report = await trained(config, Walker(), Coach([]))
        assert [s.action for s in report.state.steps].count("skip_analyst_faults") == 3


class Odd(Chosen):
    """Returns rows that no JSON can carry; our analysts read them."""

    reflect = EnvAdapter.reflect

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = super().rollout(env_manager, skill_content, out_dir, **kwargs)
        for row in rows:
            row["hard"] = decimal.Decimal(row["hard"])
            row["soft"] = fractions.Fraction(row["soft"])
            row["n_turns"] = None
            row["fail_reason"] = ValueError("locked")
            row["spreadsheet_preview"] = {1: float("nan")}
            row["target_system_prompt"] = b"Be brief."
        return rows

    def attach_reference_context(self, results, items):
        return [{**row, "reference_text": type(row["fail_reason"]).__name__} for row in results]


async def test_a_value_that_is_not_json_costs_nothing(tmp_path):
    coach = Coach([[ALL_RULES]])
    path, report = await trained(adapter_config(tmp_path, Odd), Walker(), coach)
    assert report.state.steps[0].action == "accept"
    assert report.state.final.accepted
    with look(path) as store:
        assert not [e for e in store.episodes() if e.failure]
        assert "skipped" not in store.events("step")[0].payload
    shown = coach.calls[0][0]
    assert "I guess." in shown
    for fact in ("locked", '{"1": null}', "Be brief."):
        assert fact in shown


async def test_what_analysts_are_shown_does_not_depend_on_a_kill(tmp_path):
    shown = []
    for number, dies in enumerate([False, True]):
        coach = Coach([[ALL_RULES]])
        folder = tmp_path / str(number)
        folder.mkdir()
        config = adapter_config(folder, Odd)
        if dies:
            with pytest.raises(asyncio.CancelledError):
                await trained(config, Walker(), Coach([], on_call=cancel))
            CALLS.clear()
            await resumed(folder / "runs" / "doors", Walker(), coach)
            assert "steps/step_0001/rollout" not in rollouts()
        else:
            await trained(config, Walker(), coach)
        shown.append([said for said, _ in coach.calls])
    assert shown[0] == shown[1]


def cancel(number):
    raise asyncio.CancelledError


class Brittle(Seeded):
    """Cannot read a text with an open brace."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        return super().rollout(env_manager, skill_content.format(), out_dir, **kwargs)


async def test_many_draws_of_a_text_that_breaks_the_adapter_stop_nothing(tmp_path):
    plan = [[f"{{ Be number {number}."] for number in range(4)]
    config = adapter_config(tmp_path, Brittle, train={"epochs": 2}, evaluation=PAIRED)
    _, report = await trained(config, Walker(), Coach(plan))
    assert [step.action for step in report.state.steps] == ["undecided"] * 4
    lost = [folder for folder in rollouts() if folder.endswith("draw_02")]
    assert lost  # the gate did take several draws


class Choosy(Seeded):
    """Leaves rows out, others under every skill; only its rollouts say what is in a split."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = super().rollout(env_manager, skill_content, out_dir, **kwargs)
        left_out = 2 if ALL_RULES in skill_content else 5
        return rows[:left_out] + rows[left_out + 1 :]


async def test_the_first_text_says_which_test_tasks_there_are(tmp_path):
    strict = {"gate": {"kind": "strict"}}
    config = adapter_config(tmp_path, Choosy, evaluation=strict)
    path, report = await trained(config, Walker(), Coach([[ALL_RULES], []]))
    assert report.state.steps[0].action == "accept_new_best"
    with look(path) as store:
        orders = [e.payload for e in store.events("adapter_batch") if e.payload["whole"] == "test"]
    first, second = orders
    assert second["ids"] == first["ids"]
    assert (first["failed"], second["failed"]) == ([], ["valid_unseen-2"])


class Jammed(Chosen):
    """Has one val item that never gives a row; our analysts read the others."""

    reflect = EnvAdapter.reflect

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = super().rollout(env_manager, skill_content, out_dir, **kwargs)
        return [row for row in rows if row["id"] != "val-03"]


async def test_an_item_that_never_gives_a_row_is_lost_each_time_and_stops_nothing(tmp_path):
    config = adapter_config(tmp_path, Jammed, train={"epochs": 3})
    idle = [[f"Be number {number}."] for number in range(5)]
    path, report = await trained(config, Walker(), Coach([*idle, [ALL_RULES]]))
    *others, last = report.state.steps
    assert [one.action for one in others] == ["reject"] * 5
    for one in others:
        assert one.verdict.effect == pytest.approx(0.0, abs=0.01)  # all else ties
        assert one.verdict.pairs > 10
        assert one.verdict.lost <= 1
    assert any(one.verdict.lost for one in others)
    assert (last.action, report.best_skill) == ("accept", report.final_skill)
    assert ALL_RULES in report.best_skill
    with look(path) as store:
        assert {e.task_id for e in store.episodes() if e.failure} == {"val-03"}


class Knotted(Odd):
    """Returns rows that hold themselves, an open file and code."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = Chosen.rollout(self, env_manager, skill_content, out_dir, **kwargs)
        for row in rows:
            row |= {"knot": rows, "log": sys.stderr, "call": lambda: 1, "blob": {b"x", b"y"}}
        return rows

    def attach_reference_context(self, results, items):
        return [{**row, "reference_text": "a knot"} for row in results]


@pytest.mark.parametrize("compat", [None, "skillopt"])
async def test_a_row_that_holds_itself_loses_no_batch(tmp_path, compat):
    settings = adapter_settings(tmp_path, Knotted)
    settings["env"]["compat"] = compat
    path, report = await trained(validated(settings, "adapter"), Walker(), Coach([[ALL_RULES]]))
    assert report.state.final.accepted
    with look(path) as store:
        episodes = store.episodes()
        assert not [e for e in episodes if e.failure]
        stored = store.load_episode(episodes[0].id).row
    assert "(a value that holds itself)" in str(stored["knot"])
    assert stored["blob"] == ["b'x'", "b'y'"]


class Careless(Chosen):
    """Changes its items in place, as an adapter does that keeps its notes in them."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = super().rollout(env_manager, skill_content, out_dir, **kwargs)
        for item in env_manager:
            item["id"], item["room"] = "changed", "nowhere"
        return rows


class CarelessAtOnce(Careless, Documented):
    """Asks its own loader for items."""

    build_env_from_batch = EnvAdapter.build_env_from_batch


@pytest.mark.parametrize("adapter", [Careless, CarelessAtOnce])
async def test_an_adapter_that_changes_its_items_gets_copies(tmp_path, adapter):
    path, report = await trained(
        adapter_config(tmp_path, adapter, train={"epochs": 2}), Walker(), Coach([])
    )
    assert report.state.final.accepted
    with look(path) as store:
        assert not [e for e in store.episodes() if e.failure]
        assert "changed" not in {e.task_id for e in store.episodes()}


def yields(answer):
    """Return the ways in which a method may hand out a list."""

    def generator(self, *args, **kwargs):
        yield from answer(self, *args, **kwargs)

    async def awaited(self, *args, **kwargs):
        return answer(self, *args, **kwargs)

    async def stream(self, *args, **kwargs):
        for one in answer(self, *args, **kwargs):
            yield one

    def as_tuple(self, *args, **kwargs):
        return tuple(answer(self, *args, **kwargs))

    def mapped(self, *args, **kwargs):
        return map(dict, filter(None, answer(self, *args, **kwargs)))

    return [generator, awaited, stream, as_tuple, mapped]


@pytest.mark.parametrize("method", ["reflect", "rollout"])
@pytest.mark.parametrize("way", range(5), ids=["generator", "async", "stream", "tuple", "map"])
async def test_a_method_may_hand_out_its_list_piece_by_piece(tmp_path, monkeypatch, method, way):
    monkeypatch.setattr(Pieces, method, yields(getattr(Chosen, method))[way])
    path, report = await trained(adapter_config(tmp_path, Pieces), Walker(), Coach([]))
    assert report.state.steps[0].action == "accept"
    assert report.state.final.accepted
    with look(path) as store:
        assert not [e for e in store.episodes() if e.failure]
    threads = {facts["thread"] for name, facts in CALLS if name == method}
    assert threads == ({"MainThread"} if way in (1, 2) else {"skillwright-Pieces"})


class Pieces(Chosen):
    reflect = Chosen.reflect
    rollout = Chosen.rollout


async def test_a_generator_that_raises_midway_is_a_fault_of_its_step(tmp_path, monkeypatch, caplog):
    def broken(self, *args, **kwargs):
        yield {"patch": {"edits": [{"op": "append", "content": ALL_RULES}]}}
        raise LookupError("the second minibatch is gone")

    monkeypatch.setattr(Pieces, "reflect", broken)
    _, report = await trained(adapter_config(tmp_path, Pieces), Walker(), Coach([]))
    assert report.state.steps[0].action == "skip_analyst_faults"
    assert "reflect failed for s1: LookupError: the second minibatch is gone" in caplog.text
