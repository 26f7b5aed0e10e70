"""Save the policy of a run as files for other programs, with a model card."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skillwright.bank import Bank, BankStore
from skillwright.config.rl import HfPolicyConfig, RlConfig
from skillwright.core import ConfigError
from skillwright.core.jsonio import dumps
from skillwright.core.waits import waiting
from skillwright.evaluation import Score, Verdict, gain_text
from skillwright.jobs.kinds import MADE
from skillwright.jobs.run.resume import TASKS
from skillwright.jobs.weights.launch import rl_has_scripted_models
from skillwright.jobs.weights.starting_weights import RunWeights, run_weights
from skillwright.jobs.weights.state import Form, RlState, Which, weights_name
from skillwright.jobs.weights.wiring import PolicyMaker
from skillwright.rollout.prompt import SKILL_HEADING
from skillwright.runs import RunFolder, RunStore
from skillwright.version import __version__

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


_LEARNED = ("steps", "batch_rows", "learning_rate", "demonstrations", "without_skills")
_REWARDED = ("iterations", "tasks_per_iteration", "group_size", "learning_rate", "temperature")


def model_card(
    found: RunWeights, policy: HfPolicyConfig, store: RunStore, bank: Bank, form: str
) -> str:
    """Return the model card of a run's weights; ``form`` describes the files in the folder."""
    config, state = found.config, found.state
    name = f"{config.run.name}, {weights_name(found.iteration)}"
    parts = [
        _front_matter(policy),
        f"# {name}\n",
        f"{form} Trained by Skillwright {_trained_by(store)}, saved by {__version__}.\n",
        *_scripted(config),
        _table({"what": ""}, _facts(found, policy, store, bank)),
        "## Proof\n",
        *_proof(found),
        *_tested(state),
        "## Settings\n",
        _table({"key": "value"}, _settings(config)),
        *_use(config),
    ]
    return "\n".join(parts)


def _front_matter(policy: HfPolicyConfig) -> str:
    base = f"base_model: {dumps(policy.model)}\n"
    return f"---\nlibrary_name: transformers\n{base}tags: [skillwright]\n---\n"


def _trained_by(store: RunStore) -> str:
    made = store.events(MADE)
    return str(made[0].payload["provenance"]["version"]) if made else "(version unknown)"


def _scripted(config: RlConfig) -> list[str]:
    if not rl_has_scripted_models(config):
        return []
    return [
        "**A scripted model took part in its training** (as expert, teacher or player of base "
        "trajectories), which knows the environment that it is for: scores say how the method "
        "works, and nothing about a language model in that role.\n"
    ]


def _facts(
    found: RunWeights, policy: HfPolicyConfig, store: RunStore, bank: Bank
) -> Iterator[tuple[str, str]]:
    config, state = found.config, found.state
    yield "base model", f"`{policy.model}`"
    if policy.start:
        yield "began with", f"`{policy.start}`"
    yield "trained", _trained(policy)
    yield "weights", f"`{found.identity or 'not recorded'}`"
    yield "data", f"environment `{config.env.name}` ({config.env.data.kind})"
    events = store.events(TASKS)
    for split, facts in (events[-1].payload if events else {}).items():
        yield f"{split} tasks", f"{facts['tasks']}, content `{str(facts['content'])[:16]}`"
    cold = (state.cold_start or {}).get("coverage")
    if cold and found.iteration >= 0:
        learned = f"{cold['rows']} answers of {cold['wins']} solved episodes"
        yield "demonstrations", f"{learned} (of {cold['episodes']})"
    yield "skill bank", f"version {bank.version}, {len(bank.active)} skills, `{bank.digest[:16]}`"
    yield "seed", str(config.run.seed)


def _trained(policy: HfPolicyConfig) -> str:
    if policy.lora is None:
        return "all weights"
    return f"LoRA adapter, rank {policy.lora.rank}, alpha {policy.lora.alpha}"


def _proof(found: RunWeights) -> Iterator[str]:
    state, verdict = found.state, found.state.release
    if verdict is None:
        yield "No release test was made of these weights.\n"
        return
    about = f"Release test, {weights_name(state.baseline)} against the selected weights"
    yield f"{about}: **{verdict.decision.value}**. {verdict.reason}\n"
    yield f"{_effect(verdict)}\n"
    if found.iteration == state.baseline:
        yield "These are the weights that the others were tested against.\n"


def _effect(verdict: Verdict) -> str:
    if verdict.effect is None:
        return "No effect was measured."
    return f"Gain of {gain_text(verdict.effect, verdict.interval)} over {verdict.pairs} pairs."


def _tested(state: RlState) -> Iterator[str]:
    if state.test is None:
        yield "The sealed test was not opened.\n"
        return
    yield "Sealed test, opened once, share of tasks solved with its 95% interval:\n"
    rows = ((name.replace("_", " "), _rate(one.overall)) for name, one in state.test.tables.items())
    yield _table({"weights and skills": "solved"}, rows)


def _rate(score: Score) -> str:
    if score.success_rate is None or score.interval is None:
        return "not scored"
    low, high = score.interval
    return f"{score.success_rate:.1%} ({low:.1%} to {high:.1%}), {score.tasks} tasks"


def _settings(config: RlConfig) -> Iterator[tuple[str, str]]:
    if config.cold_start is not None:
        yield from _chosen("cold_start", config.cold_start.model_dump(), _LEARNED)
    if config.grpo.iterations:
        yield from _chosen("grpo", config.grpo.model_dump(), _REWARDED)
    else:
        yield "grpo.iterations", "0"
    yield "bank.inject", config.bank.inject
    template = getattr(config.policy, "template", None)
    if template:
        yield "policy.template", f"`{dumps(template)}`"


def _use(config: RlConfig) -> list[str]:
    if config.bank.inject == "none":
        return []
    return [
        "## Use\n",
        f"Its prompts hold what `bank.inject: {config.bank.inject}` retrieves for a task, under "
        f"`{SKILL_HEADING}` in the system message; without it the policy scores as `no skills` "
        "above, where that was tested.\n",
    ]


def _chosen(
    section: str, values: Mapping[str, Any], names: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    for name in names:
        if values[name] not in (None, ""):
            yield f"{section}.{name}", str(values[name])


def _table(head: Mapping[str, str], rows: Iterator[tuple[str, str]]) -> str:
    ((left, right),) = head.items()
    lines = [f"| {left} | {right} |", "|---|---|"]
    lines += [f"| {name} | {value.replace('|', '/')} |" for name, value in rows]
    return "\n".join(lines) + "\n"
