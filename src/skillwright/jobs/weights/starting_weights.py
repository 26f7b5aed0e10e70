"""Find the weights and the bank of a finished run, or the weights in a saved folder."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillwright.bank import Bank, BankStore
from skillwright.config.load import is_rl_config, load_rl_config
from skillwright.config.rl import HfPolicyConfig, RlConfig
from skillwright.core import ConfigError, RunError
from skillwright.jobs.run.launch import find_run
from skillwright.jobs.weights.state import (
    INTERNALIZED,
    START,
    RlReport,
    RlState,
    Which,
    checkpoint_name,
    restore,
    selected,
)
from skillwright.policy import CheckpointDamaged, PolicyBackend, load_checkpoint
from skillwright.runs import RunFolder, RunStore
from skillwright.runs.folder import CONFIG_NAME

_CONFIG, _ADAPTER = "config.json", "adapter_config.json"


@dataclass(frozen=True, slots=True)
class RunWeights:
    """Weights of a finished run: after an iteration, the cold start (0) or `START`."""

    path: Path
    config: RlConfig
    state: RlState
    iteration: int

    @property
    def checkpoint(self) -> Path:
        """The file of the weights."""
        return self.path / "checkpoints" / checkpoint_name(self.iteration)

    @property
    def identity(self) -> str:
        """The recorded digest of the weights, or ``""``."""
        known, made = self.state.validations.get(self.iteration), self.state.internalized
        if known is not None:
            return known.policy
        if self.iteration == INTERNALIZED and made is not None:
            return made.candidate
        cold = self.state.cold_start if self.iteration == 0 else None
        return str((cold or {}).get("policy", ""))

    @property
    def bank_version(self) -> int:
        """The version of the bank that belongs to the weights."""
        if self.iteration == INTERNALIZED:
            return RlReport(self.state, self.iteration).bank_version
        return self.state.version_after(self.iteration)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The identity of the weights, as JSON values."""
        return {"run": self.path.name, "iteration": self.iteration, "weights": self.identity}

    def put_into(self, policy: PolicyBackend) -> None:
        """Load the weights into a policy that was built as the run built its own.

        Raises:
            ConfigError: The weights do not fit.
        """
        try:
            policy.begin_from(load_checkpoint(self.checkpoint).policy)
        except CheckpointDamaged as error:
            raise ConfigError(
                f"the weights of run {str(self.path)!r} do not fit this policy: {error}. Where its "
                "settings are others on purpose, save the run's policy as a folder (`skillwright "
                "policy save`) and begin with that"
            ) from error


@dataclass(frozen=True, slots=True)
class FolderWeights:
    """Weights in a `save_pretrained` folder; an adapter is a LoRA adapter of ``policy.model``."""

    path: Path
    is_adapter: bool

    @property
    def facts(self) -> Mapping[str, Any]:
        """The identity of the weights, as JSON values."""
        total = hashlib.sha256()
        for file in sorted(self.path.glob("*.safetensors")):
            with file.open("rb") as opened:
                total.update(hashlib.file_digest(opened, "sha256").digest())
        return {"folder": str(self.path), "weights": total.hexdigest()}


def run_weights(
    run: str | Path, root: str | Path = "runs", which: Which = "released"
) -> RunWeights:
    """Find weights of a finished run of the recipe.

    Args:
        run: Its folder, its name below ``root``, or ``latest``.
        root: The folder that holds runs.
        which: ``released`` by the release test, ``final`` (selected), ``cold-start`` or ``start``.

    Raises:
        RunError: There is no such run.
        ConfigError: It trained no weights, is not finished, or did not keep these.
    """
    path = find_run(run, root)
    if not is_rl_config(path / CONFIG_NAME):
        raise ConfigError(f"run {str(path)!r} trained a skill document, and no weights")
    config = load_rl_config(path / CONFIG_NAME)
    with RunStore.open(RunFolder.look(path).store_path, read_only=True) as store:
        state = restore(config, store)
    if not state.finished:
        raise ConfigError(
            f"run {str(path)!r} is not finished, so nothing of it is released; continue it with:  "
            f"skillwright resume {path}"
        )
    final = selected(config, state)
    numbers = {
        "released": RlReport(state, final).released,
        "final": final,
        "cold-start": 0,
        "start": START,
    }
    found = RunWeights(path, config, state, numbers[which])
    if not found.checkpoint.is_file():
        raise ConfigError(
            f"run {str(path)!r} has no {found.checkpoint.name!r} among its checkpoints, which its "
            f"{which} weights would be"
        )
    return found


def released_bank(run: str | Path, root: str | Path = "runs") -> Bank:
    """Return the bank that a finished run of the recipe released.

    Raises:
        RunError: There is no such run.
        ConfigError: It trained no weights, or is not finished.
    """
    found = run_weights(run, root)
    report = RlReport(found.state, selected(found.config, found.state))
    with BankStore.open(found.path / "bank" / "bank.sqlite", read_only=True) as store:
        return store.load(report.bank_version)


def starting_weights(config: RlConfig) -> RunWeights | FolderWeights | None:
    """Find what ``policy.start`` names; ``None`` where it names nothing.

    Raises:
        ConfigError: There is no such run or folder, or it is of another kind of policy.
    """
    name, policy = config.policy.start, config.policy
    if not name:
        return None
    folder = Path(name).expanduser()
    if (folder / _ADAPTER).is_file() or (folder / _CONFIG).is_file():
        if not isinstance(policy, HfPolicyConfig):
            raise ConfigError(
                f"policy.start {name!r} holds a language model, and policy.kind is "
                f"{policy.kind!r}; name a run that trained a {policy.kind}"
            )
        return FolderWeights(folder, (folder / _ADAPTER).is_file())
    try:
        found = run_weights(name, config.run.root)
    except RunError as error:
        raise ConfigError(
            f"policy.start {name!r} is neither a folder of weights ({_CONFIG} or {_ADAPTER}) nor a "
            f"run: {error}"
        ) from error
    if found.config.policy.kind != policy.kind:
        raise ConfigError(
            f"policy.start {name!r} is a run that trained a {found.config.policy.kind}, and "
            f"policy.kind is {policy.kind!r}"
        )
    return found
