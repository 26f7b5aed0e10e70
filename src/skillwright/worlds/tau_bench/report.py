"""The additions to tau-bench's success rate, and whether it compares with published figures."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from rich.markup import escape

from skillwright.core import EpisodeResult, FailureCause, StopReason
from skillwright.envs.about import EnvReport, Evaluation
from skillwright.worlds.tau_bench.config import read_config
from skillwright.worlds.tau_bench.facts import (
    CUT,
    ORIGINAL_TURNS,
    comparability,
    configured_store,
    departures,
    is_free,
    is_no_op,
    left_out,
)
from skillwright.worlds.tau_bench.tau_core.domain import CORRECTED
from skillwright.worlds.tau_bench.tau_core.store import Store, is_original

_OF_SCORED: Final = {
    "truncated": "ran out of turns",
    "parse_error": "had a call that could not be parsed",
    "tool_error": "had a tool answer with an error",
}
_OF_ALL: Final = {
    "user_failure": "failed because of the simulated user",
    "failure": "failed for any fault of the infrastructure",
}
_ALWAYS: Final = frozenset({"truncated", "parse_error"})
_ORIGINS: Final = {
    "built-in": "the built-in store, whose scores compare with no published ones",
    "fetched": "as fetched by `skillwright data tau-bench`",
}


def identity(env_config: object | None) -> dict[str, Any]:
    """Return the settings that an episode depends on."""
    return {"comparability": _without_origin(comparability(env_config))}


def report(
    env_config: object | None, results: Sequence[EpisodeResult], played: Evaluation
) -> EnvReport:
    """Return the facts that `lines` formats, by these names.

    ``settings``: all that a score depends on besides the agent. ``data_origin``: how the data was
    found. ``free_tasks``: tasks that hanging up at once solves. ``rates``: shares of the scored
    episodes (of all episodes: ``user_failure``, ``failure``). ``failures_as_losses``: the success
    rate if every failure counts as 0. ``departures``: differences from the settings of tau-bench's
    published figures.
    """
    store, settings = configured_store(env_config), comparability(env_config)
    splits = sorted({str(result.spec.task.extras["task_split"]) for result in results})
    free = frozenset(result.task_id for result in results if _is(is_free, store, result))
    suspect = _suspect_labels(store, results)
    wrong = {one for one, of in suspect.items() if of["wrong"]}
    facts = {
        "settings": _without_origin(settings)
        | {
            "played": {
                "split": played.split,
                "data_splits": splits,
                "trials": played.trials,
                "max_turns": played.max_turns,
            }
        },
        "data_origin": settings["data"]["origin"],
        "free_tasks": sorted(free),
        "rates": _rates(results),
        "failures_as_losses": _share(results, lambda one: one.is_success(played.success_threshold)),
        "departures": [*departures(env_config), *_of_run(played, splits, results, store)],
        "judge": _judge(env_config, store, splits, results),
        "suspect_labels": suspect,
        "losses": _losses(results, played, wrong),
    }
    subsets = {
        "no_op": frozenset(one.task_id for one in results if _is(is_no_op, store, one)),
        "without_free": frozenset(one.task_id for one in results) - free,
    }
    if wrong:
        played_tasks = frozenset(one.task_id for one in results)
        subsets |= {"as_labeled": played_tasks, "without_wrong": played_tasks - wrong}
    return EnvReport(facts, subsets)


def _judge(
    env_config: object | None, store: Store, splits: Sequence[str], results: Sequence[EpisodeResult]
) -> dict[str, Any]:
    config = read_config(env_config)
    out = [f"{split}-{at:03d}" for split in splits for at in left_out(store, split, config)]
    scored = [one for one in results if one.reward is not None]
    share = _share(scored, lambda one: one.metrics.get("judged", 0) > 0)
    return {"votes": config.judge_votes, "share": share, "left_out": out}


def _suspect_labels(store: Store, results: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Return tasks with refused gold actions or a corrected label, and whether it is wrong."""
    corrected = CORRECTED.get(store.domain.name, ()) if is_original(store) else ()
    found = {}
    for result in results:
        split, at = (result.spec.task.extras[name] for name in ("task_split", "task_index"))
        refused = store.gold(str(split), int(at)).refused
        is_corrected = split in ("test", "base") and int(at) in corrected
        if refused or is_corrected:
            wrong = is_corrected or any(writes for writes, _ in refused)
            found[result.task_id] = {"wrong": wrong, "refused": [of for _, of in refused]}
    return found


_OF_USER: Final = {
    "user_ended_early": "ended early",
    "user_leaks": "revealed its instruction",
    "user_role_swaps": "spoke as the agent",
    "user_inventions": "made facts up",
    "user_off_role": "left its role, says the judge",
}


def _losses(
    results: Sequence[EpisodeResult], played: Evaluation, wrong: set[str]
) -> dict[str, int]:
    """Count lost episodes by a wrong label, else by signs of the user, else as the agent's."""
    counts: Counter[str] = Counter()
    for one in results:
        if one.reward is not None and not one.is_success(played.success_threshold):
            signs = [name for name in _OF_USER if one.metrics.get(name, 0) > 0]
            whose = "label" if one.task_id in wrong else "user" if signs else "agent"
            counts.update([whose, *(signs if whose == "user" else ())])
    return dict(counts)


def _of_run(
    played: Evaluation, splits: Sequence[str], results: Sequence[EpisodeResult], store: Store
) -> Iterator[str]:
    if store.domain.is_tau3:
        return
    if played.max_turns != ORIGINAL_TURNS:
        yield f"max_turns is {played.max_turns}, and there {ORIGINAL_TURNS}"
    if played.history_turns is not None:
        yield f"history_turns is {played.history_turns}, and its agent remembers all"
    if cut := {str(result.spec.task.extras.get(CUT, "")) for result in results} - {""}:
        yield f"tasks of {cut.pop()} were cut off to train on"
    tasks = {result.task_id for result in results}
    if splits != ["test"]:
        yield f"the tasks are of {', '.join(splits) or 'no split'}, and there of test"
    elif len(tasks) != (every := len(store.tasks("test"))):
        yield f"{len(tasks)} of the {every} test tasks were played"


def lines(facts: Mapping[str, Any], scores: Mapping[str, str]) -> Iterator[str]:
    """Format the report's facts and comparisons."""
    free = len(facts["free_tasks"])
    yield f"tasks that want nothing changed: {scores['no_op']}"
    tasks = f"{free:,} task" if free == 1 else f"{free:,} tasks"
    yield f"without {tasks} that hanging up wins: {scores['without_free']}"
    rates, origin = facts["rates"], facts["data_origin"]
    if rates["failure"] and facts["failures_as_losses"] is not None:
        yield f"failures counted as losses: [bold]{facts['failures_as_losses']:.1%}[/]"
    for whose, names in (("scored", _OF_SCORED), ("all", _OF_ALL)):
        said = [
            f"{rate:.1%} {names[name]}"
            for name, rate in rates.items()
            if name in names and rate is not None and (rate > 0 or name in _ALWAYS)
        ]
        if said:
            yield f"of {whose} episodes: {', '.join(said)}"
    yield from _on_judge_and_labels(facts, scores)
    yield f"data: {_ORIGINS.get(origin, f'of {escape(origin)}')}"
    yield from published(facts)
    yield "comparable with scores under the same settings:"
    for name, value in _flat(facts["settings"]):
        yield f"  [dim]{escape(name)}[/] {escape(json.dumps(value))}"


def _on_judge_and_labels(facts: Mapping[str, Any], scores: Mapping[str, str]) -> Iterator[str]:
    judge, losses = facts.get("judge") or {}, facts.get("losses") or {}
    if judge.get("share") is not None and judge["votes"]:
        share = f"{judge['share']:.1%} of scored episodes"
        yield f"decided by the judge ({judge['votes']} votes a sentence): {share}"
    if names := judge.get("left_out"):
        yield f"left out without a judge (env.config.judge_votes): {len(names)}: {', '.join(names)}"
    agent, user, label = (losses.get(whose, 0) for whose in ("agent", "user", "label"))
    if lost := agent + user + label:
        signs = ", ".join(f"{losses[name]} {of}" for name, of in _OF_USER.items() if name in losses)
        by_user = f"{user} simulated user{f' ({signs})' if signs else ''}"
        yield f"{lost} lost episodes by cause: {agent} agent, {by_user}, {label} label"
    suspect = facts.get("suspect_labels") or {}
    if refused := sorted(name for name, of in suspect.items() if of["refused"]):
        yield f"gold does not replay in {len(refused)} tasks: {', '.join(refused)}"
    if wrong := sorted(name for name, of in suspect.items() if of["wrong"]):
        yield f"wrong labels (a write is refused, or tau2-bench corrected it): {', '.join(wrong)}"
        yield f"  as labeled: {scores['as_labeled']}"
        yield f"  without wrong labels: {scores['without_wrong']}"


def published(facts: Mapping[str, Any]) -> Iterator[str]:
    """State whether the score compares with tau-bench's published figures, and if not, why."""
    departed = facts["departures"]
    if not departed:
        user = escape(str(facts["settings"]["user"]["model"]))
        yield (
            "comparable with published figures of tau-bench's tool-calling agent whose user was "
            f"played by {user}"
        )
        return
    yield "not comparable with tau-bench's published figures:"
    for why in departed:
        yield f"  {escape(why)}"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _without_origin(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Drop how the data was found: its location does not change it."""
    data = {name: value for name, value in settings["data"].items() if name != "origin"}
    return {**settings, "data": data}


def _is(question: Callable[[Store, str, int], bool], store: Store, result: EpisodeResult) -> bool:
    extras = result.spec.task.extras
    return question(store, str(extras["task_split"]), int(extras["task_index"]))


def _rates(results: Sequence[EpisodeResult]) -> dict[str, float | None]:
    scored = [result for result in results if result.reward is not None]
    return {
        "truncated": _share(scored, lambda one: one.stop_reason is StopReason.MAX_TURNS),
        "parse_error": _share(scored, lambda one: one.metrics.get("parse_errors", 0) > 0),
        "tool_error": _share(scored, lambda one: one.metrics.get("tool_errors", 0) > 0),
        "user_failure": _share(results, _lost_its_user),
        "failure": _share(results, lambda one: one.failure is not None),
    }


def _lost_its_user(result: EpisodeResult) -> bool:
    return result.failure is not None and result.failure.cause is FailureCause.USER


def _share(
    results: Sequence[EpisodeResult], claim: Callable[[EpisodeResult], bool]
) -> float | None:
    return sum(map(claim, results)) / len(results) if results else None
