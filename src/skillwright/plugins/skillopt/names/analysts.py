"""`skillopt.gradient`: analysts and merges of raw patches, for adapters that call them directly.

A run merges by `skillwright.textopt.aggregate`, which counts the support of an edit. These
functions use the documented formats: a patch is a plain dict, with the support that the model
reports.

Source: SkillOpt (microsoft/SkillOpt), minibatch reflection, hierarchical merge and ranking.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any, Final

from skillwright.core import ConfigError, ReflectRequest
from skillwright.core.fence import json_block
from skillwright.models.structured import extract_json
from skillwright.plugins.skillopt.names.documents import MODULES as _DOCUMENTS
from skillwright.plugins.skillopt.names.documents import get_payload_items, payload_key
from skillwright.plugins.skillopt.names.model import DEFAULT_TOKENS, chat_optimizer
from skillwright.plugins.skillopt.session import present_session
from skillwright.textopt import parse_update_mode
from skillwright.textopt.optimizer import budget_section, load_prompt, skill_section, user_message
from skillwright.textopt.proposal import item_form

Patch = dict[str, Any]

_log = logging.getLogger(__name__)


def run_minibatch_reflect(  # noqa: PLR0913 - what adapters pass by name
    results: Sequence[dict[str, Any]],
    skill_content: str,
    prediction_dir: str | Path,
    patches_dir: str | Path | None = None,
    *,
    workers: int = 16,
    failure_only: bool = False,
    minibatch_size: int = 8,
    edit_budget: int = 4,
    random_seed: int | None = None,
    error_system: str | None = None,
    success_system: str | None = None,
    step_buffer_context: str = "",
    meta_skill_context: str = "",
    update_mode: str = "patch",
    skill_aware_reflection: bool | None = None,
    skill_aware_appendix_source: str | None = None,
    **kwargs: Any,
) -> list[dict[str, Any] | None]:
    """Run our analysts on minibatches of rollouts; see `EnvAdapter.reflect`.

    Update mode and skill-aware reflection are the run's; arguments for them are ignored.
    """
    given = {"analyst_error": error_system, "analyst_success": success_system}
    reflector = present_session().reflector
    if reflector is None:
        raise ConfigError("run_minibatch_reflect needs the analysts of a training run")
    request = ReflectRequest(
        results=results,
        skill=skill_content,
        prediction_dir=Path(prediction_dir),
        seed=random_seed,
        step_buffer_context=step_buffer_context,
        meta_skill_context=meta_skill_context,
        minibatch_size=minibatch_size,
        edit_budget=edit_budget,
        failure_only=failure_only,
        analyst_workers=int(kwargs.get("analyst_workers") or workers),
        patches_dir=Path(patches_dir) if patches_dir else None,
        prompts=tuple((name, text) for name, text in given.items() if text),
    )
    return reflector.reflect(request)


def run_error_analyst_minibatch(
    skill_content: str,
    items: Sequence[dict[str, Any]],
    prediction_dir: str | Path,
    edit_budget: int = 4,
    *,
    skill_aware_reflection: bool = False,
    **kwargs: Any,
) -> Patch | None:
    """Run one analyst on failures; return ``None`` without a usable reply.

    Update mode and skill-aware reflection are the run's; arguments for them are ignored.
    """
    lost = [{**row, "hard": 0} for row in items]
    return _one_analyst(skill_content, lost, prediction_dir, edit_budget, "error_system", kwargs)


def run_success_analyst_minibatch(
    skill_content: str,
    items: Sequence[dict[str, Any]],
    prediction_dir: str | Path,
    edit_budget: int = 4,
    *,
    skill_aware_reflection: bool = False,
    **kwargs: Any,
) -> Patch | None:
    """Run one analyst on successes; see `run_error_analyst_minibatch`."""
    solved = [{**row, "hard": row.get("hard") or 1} for row in items]
    return _one_analyst(
        skill_content, solved, prediction_dir, edit_budget, "success_system", kwargs
    )


def _one_analyst(
    skill: str,
    rows: Sequence[dict[str, Any]],
    prediction_dir: str | Path,
    edit_budget: int,
    prompt: str,
    given: Mapping[str, Any],
) -> Patch | None:
    earlier = str(given.get("step_buffer_context") or given.get("rejection_context") or "")
    memory = str(given.get("trajectory_memory_context") or "")
    prompts: dict[str, Any] = {prompt: given.get("system_prompt")}
    patches = run_minibatch_reflect(
        rows,
        skill,
        prediction_dir,
        minibatch_size=max(1, len(rows)),
        edit_budget=edit_budget,
        step_buffer_context="\n".join(part for part in (earlier, memory) if part),
        meta_skill_context=str(given.get("meta_skill_context") or ""),
        **prompts,
    )
    return next((patch for patch in patches if patch is not None), None)


def fmt_trajectory(conversation: Sequence[Any], max_chars: int | None = None) -> str:
    """Format a conversation as labeled lines; as in the original, ``max_chars`` has no effect."""
    return "\n".join(line for turn in conversation for line in _lines(turn))


def _lines(turn: Any) -> Iterator[str]:
    """Yield the labeled lines of one turn: a text, a tool call, an action or a message."""
    if not isinstance(turn, Mapping):
        yield f"[agent] {_said(turn)}"
    elif turn.get("type") == "tool_call":
        yield f"[action] {_said(turn.get('cmd'))}"
        yield f"[obs]    {_said(turn.get('obs'))}"
    elif "action" in turn and "env_feedback" in turn:
        step = turn.get("step", "?")
        if turn.get("reasoning"):
            yield f"[step {step} think] {_said(turn['reasoning'])}"
        yield f"[step {step} action] {_said(turn['action'])}"
        yield f"[step {step} obs]    {_said(turn['env_feedback'])}"
    else:
        role = turn.get("role", "agent")
        label = "verification" if role == "system" else role
        yield f"[{label}] {_said(turn.get('content'))}"


def _said(value: Any) -> str:
    return "" if value is None else str(value)


def merge_patches(
    skill_content: str,
    failure_patches: Sequence[Patch],
    success_patches: Sequence[Patch] = (),
    batch_size: int = 8,
    workers: int = 16,
    update_mode: str = "patch",
    **kwargs: Any,
) -> Patch:
    """Merge failures, then successes, then both into one patch; failures come first."""
    key, mode = payload_key(update_mode), {"update_mode": update_mode, **kwargs}
    sides = [
        _hierarchical_merge(skill_content, of, f"merge_{name}", batch_size, workers, **mode)
        for name, of in (("failure", failure_patches), ("success", success_patches))
    ]
    failure, success = sides
    if not success.get(key):
        return failure
    if not failure.get(key):
        return success
    return _merge_batch(skill_content, sides, "merge_final", None, **mode)


def _hierarchical_merge(
    skill_content: str,
    patches: Sequence[Patch],
    prompt: str = "merge_failure",
    batch_size: int = 8,
    workers: int = 16,
    **kwargs: Any,
) -> Patch:
    """Merge patches chunk by chunk, level by level, until one is left."""
    left, level, size = list(patches), 0, max(2, batch_size)
    if not left:
        return {"reasoning": "no patches", payload_key(kwargs.get("update_mode", "patch")): []}
    while len(left) > 1:
        level += 1
        chunks = [left[start : start + size] for start in range(0, len(left), size)]
        with ThreadPoolExecutor(max(1, min(workers, len(chunks)))) as pool:
            works = [
                pool.submit(
                    copy_context().run, _one_chunk, skill_content, chunk, prompt, level, kwargs
                )
                for chunk in chunks
            ]
            left = [work.result() for work in works]
    return left[0]


def _one_chunk(
    skill: str, chunk: Sequence[Patch], prompt: str, level: int, kwargs: Mapping[str, Any]
) -> Patch:
    return chunk[0] if len(chunk) == 1 else _merge_batch(skill, chunk, prompt, level, **kwargs)


def _merge_batch(
    skill_content: str,
    patches: Sequence[Patch],
    prompt: str = "merge_failure",
    level: int | None = 1,
    *,
    update_mode: str = "patch",
    meta_skill_context: str = "",
    **kwargs: Any,
) -> Patch:
    """Merge patches by one call; concatenate their items if it fails.

    The warning does not include the error's text, which may contain secrets.
    """
    mode = parse_update_mode(update_mode)
    suffix = item_form(mode).suffix
    user = user_message(
        skill_section(skill_content),
        ("Optimizer notes", meta_skill_context),
        ("Merge level", str(level or "final")),
        ("Patches", json_block(list(patches))),
    )
    merged: Any = None
    try:
        system = load_prompt(f"{prompt}{suffix}")
        merged = extract_json(chat_optimizer(system, user, DEFAULT_TOKENS, stage="merge")[0])
    except Exception:  # noqa: BLE001 - any error: the patches are kept
        merged = None
    items = None if merged is None else merged.get(mode.payload_key)
    if isinstance(items, list) and all(isinstance(item, dict) for item in items):
        on_level = {} if level is None else {"merge_level": level}
        return {**merged, mode.payload_key: [{**item, **on_level} for item in items]}
    _log.warning("a merge call gave nothing usable; its patches are put one after the other")
    return _concatenated(patches, level, update_mode)


def _concatenated(patches: Sequence[Patch], level: int | None, update_mode: str) -> Patch:
    items = [dict(item) for patch in patches for item in get_payload_items(patch, update_mode)]
    if level is not None:
        for item in items:
            item.setdefault("merge_level", level)
    return {"reasoning": "merge failed; concatenated", payload_key(update_mode): items}


def rank_and_select(
    skill_content: str,
    patch: Patch,
    max_edits: int,
    meta_skill_context: str = "",
    update_mode: str = "patch",
    **kwargs: Any,
) -> Patch:
    """Truncate a patch to its most valuable items, or to its first ones if ranking fails.

    Returns:
        The patch, with ``ranking_details`` if a model was called.
    """
    key, items = payload_key(update_mode), get_payload_items(patch, update_mode)
    if len(items) <= max_edits:
        return patch
    form = item_form(parse_update_mode(update_mode))
    shown = [{"index": index, **item} for index, item in enumerate(items)]
    user = user_message(
        skill_section(skill_content),
        ("Optimizer notes", meta_skill_context),
        budget_section("Select", max_edits, form.noun),
        (form.noun.capitalize(), json_block(shown)),
    )
    chosen: list[int] = []
    reply: dict[str, Any] = {}
    try:
        system = load_prompt(f"ranking{form.suffix}")
        said = chat_optimizer(system, user, DEFAULT_TOKENS, stage="ranking")[0]
        reply = extract_json(said) or {}
        chosen = _valid(reply.get("selected_indices"), len(items))[:max_edits]
    except Exception:  # noqa: BLE001 - as documented: keep the first items
        _log.warning("ranking failed; the first %d items are taken", max_edits)
    indices = chosen or list(range(max_edits))
    details = {
        "selected_indices": indices,
        "reasoning": str(reply.get("reasoning", "")),
        "fallback": not chosen,
    }
    return {**patch, key: [items[index] for index in indices], "ranking_details": details}


def _valid(indices: Any, count: int) -> list[int]:
    """Return the distinct valid indices, in the order given."""
    if not isinstance(indices, list):
        return []
    valid = (i for i in indices if type(i) is int and 0 <= i < count)
    return list(dict.fromkeys(valid))


_AGGREGATE: Final = {
    "merge_patches": merge_patches,
    "_merge_batch": _merge_batch,
    "_hierarchical_merge": _hierarchical_merge,
}
_REFLECT: Final = {
    "run_minibatch_reflect": run_minibatch_reflect,
    "run_error_analyst_minibatch": run_error_analyst_minibatch,
    "run_success_analyst_minibatch": run_success_analyst_minibatch,
    "fmt_trajectory": fmt_trajectory,
}

MODULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "skillopt.gradient": {**_REFLECT, "merge_patches": merge_patches},
    "skillopt.gradient.reflect": _REFLECT,
    "skillopt.gradient.aggregate": _AGGREGATE,
    "skillopt.optimizer": {
        **{n: thing for names in _DOCUMENTS.values() for n, thing in names.items()},
        "rank_and_select": rank_and_select,
    },
    "skillopt.optimizer.clip": {"rank_and_select": rank_and_select},
    "skillopt.optimizer.select": {"rank_and_select": rank_and_select},
}
