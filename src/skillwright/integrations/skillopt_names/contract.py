"""The contract of a benchmark: adapters, loaders, types, the gate, scores and prompts.

Source: SkillOpt (microsoft/SkillOpt).
"""

import importlib
import re
import warnings
from collections.abc import Mapping, Sequence
from importlib import resources
from statistics import fmean
from typing import Any, Final

from skillwright.core import (
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
from skillwright.envs import EnvAdapter
from skillwright.evaluation import (
    GateAction,
    GateMetric,
    GateResult,
    compute_semantic_density,
    evaluate_gate,
    select_gate_score,
)
from skillwright.evaluation.gates.strict_rule import LEADING_WORDS
from skillwright.models.structured import extract_json, extract_json_array
from skillwright.textopt.prompts import PROMPT_NAMES
from skillwright.textopt.prompts import load_prompt as _generic_prompt

VERSION: Final = "0.2.0"
"""The release whose module paths these are."""


def compute_score(results: Sequence[Any]) -> tuple[float, float]:
    """Return the mean ``hard`` and ``soft`` of rows, dicts or objects; (0, 0) without rows."""
    if not results:
        return 0.0, 0.0
    means = (fmean(float(_of(row, name)) for row in results) for name in ("hard", "soft"))
    hard, soft = means
    return hard, soft


def load_prompt(name: str, env: str | None = None) -> str:
    """Return a prompt: that of an environment ``skillopt.envs.<env>``, else the generic one.

    Raises:
        ConfigError: There is no such prompt.
    """
    own: Mapping[str, str] = {}
    if env:
        own = {name: _own_prompt(name, env)}
    return _generic_prompt(name, own)


def _own_prompt(name: str, env: str) -> str:
    try:
        package = importlib.import_module(f"skillopt.envs.{env}")
        file = resources.files(package) / "prompts" / f"{name}.md"
    except (ImportError, TypeError):
        return ""
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _of(row: Any, name: str) -> Any:
    return (row.get(name) if isinstance(row, Mapping) else getattr(row, name, 0.0)) or 0.0


def repaired_json(text: str) -> dict[str, Any] | None:
    """Find the first JSON object in a text; see `skillwright.models.extract_json`.

    Where there is none and the text has exactly one object in braces, the package json_repair mends
    it, if it is installed.
    """
    found = extract_json(text)
    lone = None if found is not None else _lone_object(text)
    if lone is None:
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
    mended = mend(lone)
    return mended if isinstance(mended, dict) else None


def _lone_object(text: str) -> str | None:
    """Return what stands in outer braces, where there is exactly one such place; in one pass."""
    depth = start = 0
    found: list[str] = []
    for brace in re.finditer(r"[{}]", text):
        if brace.group() == "{":
            start = brace.start() if depth == 0 else start
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                found.append(text[start : brace.end()])
    return found[0] if len(found) == 1 and depth == 0 else None


_READING: Final = "skillwright.jobs.skillopt_reading:NAMES"


def _configuration(name: str) -> Any:
    """Return what reads configurations: it belongs to the jobs, which this room cannot import."""
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
    "extract_json_array": extract_json_array,
    "skill_hash": skill_hash,
}

MODULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "skillopt": {"__version__": VERSION, **TYPES},
    "skillopt.envs": {"EnvAdapter": EnvAdapter},
    "skillopt.envs.base": {"EnvAdapter": EnvAdapter},
    "skillopt.datasets": _LOADERS,
    "skillopt.datasets.base": _LOADERS,
    "skillopt.types": {**TYPES, "GateMetric": GateMetric},
    "skillopt.evaluation": _GATE,
    "skillopt.evaluation.gate": _GATE,
    "skillopt.config": {"__all__": [*CONFIGURATION], "__getattr__": _configuration},
    "skillopt.utils": _UTILS,
    "skillopt.utils.json_utils": {
        name: _UTILS[name] for name in ("extract_json", "extract_json_array")
    },
    "skillopt.utils.scoring": {name: _UTILS[name] for name in ("compute_score", "skill_hash")},
    "skillopt.prompts": {"load_prompt": load_prompt, "PROMPT_NAMES": PROMPT_NAMES},
}
