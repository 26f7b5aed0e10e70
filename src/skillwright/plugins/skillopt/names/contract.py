"""The contract of a benchmark: adapters, loaders, types, the gate, scores and prompts.

Source: SkillOpt (microsoft/SkillOpt).
"""

import importlib
import json
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from skillwright.core import (
    ConfigError,
    Edit,
    EditOp,
    FailureSummaryEntry,
    Patch,
    RawPatch,
    RolloutResult,
    SlowUpdateResult,
    skill_hash,
)
from skillwright.core.found_code import find_code
from skillwright.datasets import BaseDataLoader, BatchSpec, SplitDataLoader
from skillwright.datasets.split import SPLIT_NAMES
from skillwright.envs import EnvAdapter, deregister, register, specs
from skillwright.evaluation import (
    GateAction,
    GateMetric,
    GateResult,
    compute_semantic_density,
    evaluate_gate,
    select_gate_score,
)
from skillwright.evaluation.gates.skillopt_gate import LEADING_WORDS
from skillwright.models.structured import extract_json
from skillwright.plugins.skillopt.session import note_if_any
from skillwright.textopt.optimizer import PROMPT_NAMES
from skillwright.textopt.optimizer import load_prompt as _generic_prompt

# `scripts.train` and `scripts.eval_only`: the registry to which SkillOpt's guide adds adapters.
#
# Source: SkillOpt (microsoft/SkillOpt).


class EnvRegistry(dict[str, Any]):
    """Adapter classes by name; an added class can be named in ``env.name``."""

    def __setitem__(self, name: str, adapter: Any) -> None:
        """Register an adapter class; a later one with the same name replaces it."""
        if name in self:
            deregister(name)
        if isinstance(adapter, type):
            register(name, f"{adapter.__module__}:{adapter.__qualname__}")
        super().__setitem__(name, adapter)

    def __missing__(self, name: str) -> Any:
        """Return the class that is registered with us, or by an installed package."""
        found = specs().get(name)
        if found is None:
            raise KeyError(name)
        return found.find()


_REGISTRY: Final = EnvRegistry()


def _register_builtins() -> None:
    """Do nothing, because installed environments are found by name."""


SCRIPT_NAMES: Final[Mapping[str, Any]] = {
    "_ENV_REGISTRY": _REGISTRY,
    "_register_builtins": _register_builtins,
}
"""The names of `scripts.train` and of `scripts.eval_only`."""


VERSION: Final = "0.2.0"
"""The release whose module paths these are."""


def compute_score(results: Sequence[Any]) -> tuple[float, float]:
    """Return the mean ``hard`` and ``soft`` of rows, dicts or objects; (0, 0) without rows."""
    if not results:
        return 0.0, 0.0
    means = (fmean(float(_of(row, name)) for row in results) for name in ("hard", "soft"))
    hard, soft = means
    return hard, soft


class PromptMissing(ConfigError, FileNotFoundError):
    """There is no such prompt. A `FileNotFoundError` too, as in the original, for callers."""


def load_prompt(name: str, env: str | None = None) -> str:
    """Return the prompt of the environment ``skillopt.envs.<env>``, or else the generic one.

    Raises:
        PromptMissing: There is no such prompt; the results of a rollout that catches this are
            refused.
    """
    folders = _prompt_folders(env) if env else []
    files = [file for folder in folders if (file := folder / f"{name}.md").is_file()]
    if files:
        return files[0].read_text(encoding="utf-8")
    try:
        return _generic_prompt(name)
    except ConfigError as error:
        missing = PromptMissing(_without_prompt(name, env, folders) if env else str(error))
        note_if_any(missing)
        raise missing from error


def _without_prompt(name: str, env: str, folders: Sequence[Path]) -> str:
    files = " or ".join(repr(str(folder / f"{name}.md")) for folder in folders)
    return (
        f"the environment {env!r} has no prompt {name!r}: there is no "
        f"{files or f'package skillopt.envs.{env}'}. A package that pip installed may lack its "
        "prompt files; take them from its repository"
    )


def _prompt_folders(env: str) -> list[Path]:
    """Return the possible folders of an environment's prompts, next to its package."""
    name = f"skillopt.envs.{env}"
    loaded = getattr(sys.modules.get(name), "__path__", None)
    beside = getattr(sys.modules.get("skillopt.envs"), "__path__", ())
    return [Path(one) / "prompts" for one in (loaded or [str(Path(one) / env) for one in beside])]


def _of(row: Any, name: str) -> Any:
    return (row.get(name) if isinstance(row, Mapping) else getattr(row, name, 0.0)) or 0.0


def repaired_json(text: str) -> dict[str, Any] | None:
    """Find the first JSON object in a text; see `skillwright.models.extract_json`.

    Where there is none and the text has exactly one object in braces, the package json_repair mends
    it, if it is installed.
    """
    found = extract_json(text)
    spans = [] if found is not None else brace_objects(text)
    if len(spans) != 1 or not _looks_like_json(spans[0]):
        return found
    try:
        mend = importlib.import_module("json_repair").loads
    except ImportError:
        warnings.warn(
            "a reply is no valid JSON, and json_repair, which might mend it, is not installed",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    mended = mend(spans[0])
    return mended if isinstance(mended, dict) and mended else None


def brace_objects(text: str) -> list[str]:
    """Return the texts in outermost braces, in one pass; braces in double quotes do not count."""
    depth = start = 0
    found: list[str] = []
    for token in _STRING_OR_BRACE.finditer(text):
        if token.group() == "{":
            start = token.start() if depth == 0 else start
            depth += 1
        elif token.group() == "}" and depth:
            depth -= 1
            if depth == 0:
                found.append(text[start : token.end()])
    return found


def bracket_arrays(text: str) -> list[str]:
    """Return the texts in outermost square brackets, as `brace_objects`, but none in an object.

    An opening brace that nothing closes is prose, and hides no array after it.
    """
    tokens = list(_STRING_OR_BRACKET.finditer(text))
    ends: dict[int, int] = {}
    opened: list[int] = []
    for token in tokens:
        if token.group() == "{":
            opened.append(token.start())
        elif token.group() == "}" and opened:
            ends[opened.pop()] = token.end()
    depth = start = after = 0
    found: list[str] = []
    for token in tokens:
        if token.start() < after:
            continue
        if token.group() == "{" and depth == 0:
            after = ends.get(token.start(), 0)
        elif token.group() == "[":
            start = token.start() if depth == 0 else start
            depth += 1
        elif token.group() == "]" and depth:
            depth -= 1
            if depth == 0:
                found.append(text[start : token.end()])
    return found


def only_array(text: str) -> list[Any] | None:
    """Find the JSON array in a text, a fenced one first; ``None`` where several could be meant."""
    fenced = _FENCED.search(text)
    for span in [fenced.group(1)] if fenced else []:
        with suppress(ValueError, RecursionError):
            value = json.loads(span)
            return value if isinstance(value, list) else None
    arrays = []
    for span in bracket_arrays(text):
        with suppress(ValueError, RecursionError):
            arrays.append(json.loads(span))
    return arrays[0] if len(arrays) == 1 else None


def _looks_like_json(span: str) -> bool:
    """Tell whether a text in braces has a quoted first key, or no keys."""
    return span[1:].lstrip()[:1] in ('"', "}")


_STRING_OR_BRACE: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}]', re.DOTALL)
_STRING_OR_BRACKET: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}]', re.DOTALL)
_FENCED: Final = re.compile(r"```json\s*(.*?)```", re.DOTALL)

_READING: Final = "skillwright.plugins.skillopt.config.reading:NAMES"


def _configuration(name: str) -> Any:
    """Return a function of ``skillopt.config``, which is imported on first use."""
    if name in CONFIGURATION:
        return find_code(_READING, "skillopt.config")[name]
    raise AttributeError(f"skillopt.config has no {name!r}")


CONFIGURATION: Final = ("load_config", "flatten_config", "is_structured", "apply_overrides")

TYPES: Final[Mapping[str, Any]] = {
    "BatchSpec": BatchSpec,
    "Edit": Edit,
    "EditOp": EditOp,
    "FailureSummaryEntry": FailureSummaryEntry,
    "GateAction": GateAction,
    "GateResult": GateResult,
    "Patch": Patch,
    "RawPatch": RawPatch,
    "RolloutResult": RolloutResult,
    "SlowUpdateResult": SlowUpdateResult,
}

_LOADERS: Final = {
    "BaseDataLoader": BaseDataLoader,
    "SplitDataLoader": SplitDataLoader,
    "BatchSpec": BatchSpec,
}

_GATE: Final = {
    "GateAction": GateAction,
    "GateMetric": GateMetric,
    "GateResult": GateResult,
    "DEFAULT_LEADING_WORDS": LEADING_WORDS,
    "compute_semantic_density": compute_semantic_density,
    "evaluate_gate": evaluate_gate,
    "select_gate_score": select_gate_score,
}

_UTILS: Final = {
    "compute_score": compute_score,
    "extract_json": repaired_json,
    "extract_json_array": only_array,
    "skill_hash": skill_hash,
}

MODULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "skillopt": {"__version__": VERSION, **TYPES},
    "skillopt.envs": {"EnvAdapter": EnvAdapter},
    "skillopt.envs.base": {"EnvAdapter": EnvAdapter},
    "skillopt.datasets": _LOADERS,
    "skillopt.datasets.base": {**_LOADERS, "SPLIT_NAMES": SPLIT_NAMES},
    "skillopt.types": {**TYPES, "GateMetric": GateMetric},
    "skillopt.evaluation": _GATE,
    "skillopt.evaluation.gate": _GATE,
    "skillopt.config": {"__all__": [*CONFIGURATION], "__getattr__": _configuration},
    "skillopt.utils": _UTILS,
    "skillopt.utils.json_utils": {
        **{name: _UTILS[name] for name in ("extract_json", "extract_json_array")},
        "_top_level_brace_objects": brace_objects,
        "_top_level_bracket_arrays": bracket_arrays,
        "_looks_json_like": _looks_like_json,
    },
    "skillopt.utils.scoring": {name: _UTILS[name] for name in ("compute_score", "skill_hash")},
    "scripts": {},
    "scripts.train": SCRIPT_NAMES,
    "scripts.eval_only": SCRIPT_NAMES,
    "skillopt.prompts": {"load_prompt": load_prompt, "PROMPT_NAMES": PROMPT_NAMES},
}
