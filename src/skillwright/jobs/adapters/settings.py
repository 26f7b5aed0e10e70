"""A run's configuration as SkillOpt's adapters know it: one flat dict of documented names.

Secrets are never in it: of the models an adapter gets the names only.

Source: SkillOpt (microsoft/SkillOpt) 0.2, its flat keys.
"""

import re
from pathlib import Path
from typing import Any

from skillwright.config.env import AdapterData, RatioData, SplitDirData
from skillwright.config.run import RunConfig
from skillwright.config.skillopt.keys import KEYS

_ABSENT = object()


def flat_settings(config: RunConfig, out_root: Path) -> dict[str, Any]:
    """Return what `EnvAdapter.setup` is given; the settings in ``env.config`` beat all others."""
    return {
        **_copied(config),
        **_models(config),
        **_data(config),
        "lr_scheduler": (
            "autonomous"
            if config.optimizer.lr_control_mode == "autonomous"
            else config.optimizer.lr_scheduler
        ),
        "use_skill_aware_reflection": config.optimizer.skill_aware is not None,
        "use_gate": config.evaluation.gate.kind != "open",
        **_turns(config.env.given_turns),
        "workers": config.rollout.max_concurrent,
        "env": _short_name(config.env.name),
        **config.env.config,
        "out_root": str(out_root),
    }


def _turns(given: int | None) -> dict[str, int]:
    """Return the bound under both of its names, or neither: then the adapter's default holds."""
    return {} if given is None else {"max_turns": given, "max_steps": given}


def _short_name(name: str) -> str:
    """Return the class of ``path/to/file.py:Class``; loaders name folders by it."""
    return re.sub(r"\W+", "_", name.rpartition(":")[2])


def _copied(config: RunConfig) -> dict[str, Any]:
    """Return the keys that mean the same there and here."""
    found = {
        key.flat: _read(config, key.ours) for key in KEYS if key.copied and key.ours and key.flat
    }
    return {name: value for name, value in found.items() if value is not _ABSENT}


def _read(config: RunConfig, path: str) -> Any:
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name, _ABSENT)
    return value


def _models(config: RunConfig) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for role in ("optimizer", "target"):
        llm = getattr(config.models, role)
        settings |= {f"{role}_model": llm.model, f"{role}_backend": llm.backend}
    effort = getattr(config.models.target, "reasoning_effort", None)
    timeout_s = getattr(config.models.target, "timeout_s", None)
    settings |= {"reasoning_effort": effort or ""}
    return settings | ({"exec_timeout": timeout_s} if timeout_s else {})


def _data(config: RunConfig) -> dict[str, Any]:
    limits = config.evaluation
    settings: dict[str, Any] = {
        "train_size": 0,
        "sel_env_num": limits.val_tasks or 0,
        "test_env_num": limits.test_tasks or 0,
    }
    match config.env.data:
        case AdapterData(train=train, val=val, test=test):
            given = {"train_size": train, "sel_env_num": val, "test_env_num": test}
            settings |= {name: count for name, count in given.items() if count}
        case SplitDirData(path=path):
            settings |= {"split_mode": "split_dir", "split_dir": path}
        case RatioData(path=path, ratio=ratio, seed=seed):
            settings |= {"split_mode": "ratio", "data_path": path}
            settings |= {"split_ratio": ratio, "split_seed": seed}
        case _:
            pass
    return settings
