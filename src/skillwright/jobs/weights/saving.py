"""Save the policy of a run as files for other programs."""

from dataclasses import dataclass
from pathlib import Path

from skillwright.bank import BankStore
from skillwright.config.rl import HfPolicyConfig
from skillwright.core import ConfigError
from skillwright.core.waits import waiting
from skillwright.jobs.weights.model_card import model_card
from skillwright.jobs.weights.starting_weights import run_weights
from skillwright.jobs.weights.state import Form, Which, weights_name
from skillwright.jobs.weights.wiring import PolicyMaker
from skillwright.runs import RunFolder, RunStore

_SAID = {
    "merged": "All weights, as safetensors in float32.",
    "adapter": "A LoRA adapter, which goes over the base model.",
    "q8_0": "`model.gguf`: all weights as GGUF, matrices in 8 bits (Q8_0).",
    "f16": "`model.gguf`: all weights as GGUF, matrices in float16.",
    "f32": "`model.gguf`: all weights as GGUF, in float32.",
}


@dataclass(frozen=True, slots=True)
class SavedPolicy:
    """A saved policy; ``size`` is in bytes, ``identity`` the digest of the weights."""

    path: Path
    run: str
    weights: str
    identity: str
    size: int


def save_run_policy(
    run: str | Path,
    target: Path,
    *,
    root: str | Path = "runs",
    which: Which = "released",
    form: Form = "merged",
) -> SavedPolicy:
    """Save the policy of a finished run in a new folder, with its model card.

    Raises:
        ConfigError: The folder exists, the run has no such weights, or they cannot be written in
            this form.
        RunError: There is no such run, or the folder cannot be written.
    """
    if target.exists():
        raise ConfigError(f"{str(target)!r} exists, and nothing is overwritten; name another")
    found = run_weights(run, root, which)
    policy = found.config.policy
    if not isinstance(policy, HfPolicyConfig):
        raise ConfigError(
            f"run {str(found.path)!r} trained a command scorer, which no other program can open; "
            f"another run begins with it by:  --set policy.start={found.path}"
        )
    # In float32, because fewer bits would round away what was learned.
    here = {"device": "cpu", "precision": "float32", "sampler": "own"}
    exact = policy.model_copy(update=here)
    maker = PolicyMaker(found.config.model_copy(update={"policy": exact}))
    learned = maker.make(found.state.policy or {})
    found.put_into(learned)

    from skillwright.policy.hf import HfPolicy, gguf_source, save_folder, save_gguf

    if not isinstance(learned, HfPolicy):
        raise ConfigError("only a language model can be saved")
    with RunStore.open(RunFolder.look(found.path).store_path, read_only=True) as store:
        with BankStore.open(found.path / "bank" / "bank.sqlite", read_only=True) as banks:
            bank = banks.load(found.bank_version)
        card = model_card(found, policy, store, bank, _SAID[form])
    with waiting(f"writing {target}"):
        if form == "merged" or form == "adapter":
            save_folder(learned, target, card, adapter=form == "adapter")
        else:
            original = gguf_source(policy.model)
            if original is None:
                raise ConfigError(
                    f"policy.model {policy.model!r} is no GGUF file, whose vocabulary and settings "
                    "a new one would need; save a folder, and convert it with "
                    "convert_hf_to_gguf.py of llama.cpp"
                )
            save_gguf(learned, original, target, form, card)
    size = sum(file.stat().st_size for file in target.iterdir())
    return SavedPolicy(
        target, found.path.name, weights_name(found.iteration), learned.identity, size
    )
