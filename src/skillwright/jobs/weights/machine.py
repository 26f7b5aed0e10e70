"""Estimate the memory and time that the policy's weights need, before they are loaded."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from skillwright.config.rl import ENGINE_SHARE, HfPolicyConfig, RlConfig
from skillwright.core import ConfigError
from skillwright.jobs.run.estimate import Assumptions
from skillwright.jobs.run.policy_needs import TRUSTED, Demand, Need, Shape, find_shape, needed
from skillwright.jobs.weights.tasks import RlTasks


@dataclass(frozen=True, slots=True)
class Lengths:
    """Expected lengths of an episode, in tokens.

    Attributes:
        opening: Tokens of the first prompt, including skills.
        turns: Number of turns.
        turn: Tokens that a turn adds to the next prompt.
        answer: Tokens of an answer.
        history: Most turns in a prompt.
    """

    opening: int
    turns: int
    turn: int
    answer: int
    history: int

    @classmethod
    def of(cls, config: RlConfig, opening: int, turns: int) -> "Lengths":
        """Estimate the lengths; ``opening`` is the measured first prompt without skills."""
        assumed, policy = Assumptions(turns), config.policy
        skills = min(SKILL_TOKENS, config.bank.max_tokens) if config.bank.inject != "none" else 0
        most = policy.max_new_tokens if isinstance(policy, HfPolicyConfig) else 1
        history = config.rollout.history_turns or turns
        answer = min(assumed.action_tokens, most)
        added = answer + assumed.observation_tokens
        return cls(opening + skills, turns, added, answer, history)

    @property
    def longest(self) -> int:
        """Tokens of the last turn's row."""
        return self.opening + min(self.turns - 1, self.history) * self.turn + self.answer

    @property
    def usual(self) -> int:
        """Mean tokens of a turn's row."""
        before = sum(min(turn, self.history) for turn in range(self.turns)) / self.turns
        return round(self.opening + before * self.turn + self.answer)

    @property
    def episode(self) -> int:
        """Tokens of a whole episode."""
        return self.opening + self.turns * self.turn


@dataclass(frozen=True, slots=True)
class Work:
    """The tokens of a whole run.

    Attributes:
        sampled: Tokens of answers.
        read: Tokens of prompts, without cached ones.
        passes: Decoding steps, each for a batch of episodes.
        trained: Tokens of rows, times their epochs.
    """

    sampled: int
    read: int
    passes: int
    trained: int


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine to train on.

    Attributes:
        memory: Free bytes; ``None`` where unknown.
        flops: Operations per second that training reaches.
        bandwidth: Bytes per second at which weights are read to sample a token.
        pass_s: Least seconds of a pass through all layers.
        basis: The source of these figures.
        bfloat16_gain: Speed of bfloat16 relative to float32; 1 where it is not used.
    """

    name: str
    memory: int | None
    cuda: bool
    flops: float
    bandwidth: float
    pass_s: float
    basis: str
    bfloat16_gain: float = 1.0


@dataclass(frozen=True, slots=True)
class OnMachine:
    """The needs of the weights on one machine.

    Attributes:
        seconds: Time of sampling and training.
        fits: Whether the memory suffices; ``None`` where it is too close to tell, or unknown.
        changes: Settings with which it suffices.
    """

    machine: Machine
    demand: Demand
    need: Need
    seconds: float
    fits: bool | None
    changes: tuple[str, ...]

    def line(self) -> str:
        """Format as one line for the terminal."""
        need, way = self.need, "bfloat16" if self.demand.low else "float32"
        parts = {
            "weights": need.weights + need.master,
            "moments": need.moments,
            "reference": need.reference,
            "gradients": need.gradients,
            "activations": need.activations,
            "logits": need.logits,
        }
        listed = ", ".join(f"{name} {_gb(size)}" for name, size in parts.items() if size)
        free = self.machine.memory
        room = "" if free is None else f" of {_gb(free)} GB"
        return (
            f"{self.machine.name} ({way}): training {_gb(need.training)} GB ({listed}), sampling "
            f"{_gb(need.sampling)} GB (keys and values {_gb(need.cache)}){room}: {self.verdict}; "
            f"about {_duration(self.seconds)}"
        )

    @property
    def verdict(self) -> str:
        """Whether it fits, or the settings with which it would."""
        if self.fits:
            return "it fits"
        if self.fits is None and self.machine.memory is None:
            return "how much is free is not known"
        said = "it is close" if self.fits is None else "it does not fit"
        if not self.changes:
            return f"{said}, whatever is lowered; take a smaller model"
        return f"{said}; with {', '.join(self.changes)} it does"


@dataclass(frozen=True, slots=True)
class PolicyEstimate:
    """The needs of a language model's weights; this machine is the first of ``machines``."""

    model: str
    shape: Shape
    work: Work
    machines: tuple[OnMachine, ...]

    def lines(self) -> list[str]:
        """Format as lines for the terminal."""
        source = f", by {self.shape.source}" if self.shape.source else ""
        return [
            f"{self.model} has {self.shape.weights / 1e9:.2f} billion weights{source}",
            f"{self.work.read:,} tokens of prompts are read, {self.work.sampled:,} sampled and "
            f"{self.work.trained:,} trained on",
            *(one.line() for one in self.machines),
            *(f"speed of {one.machine.name}: {one.machine.basis}" for one in self.machines),
            f"activations and keys are within a factor of {TRUSTED:g}; nothing is loaded for this",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as a JSON object."""
        return {
            "model": self.model,
            "weights": self.shape.weights,
            "work": asdict(self.work),
            "machines": [
                {
                    "name": one.machine.name,
                    "memory": one.machine.memory,
                    "training": one.need.training,
                    "sampling": one.need.sampling,
                    "parts": asdict(one.need),
                    "fits": one.fits,
                    "changes": list(one.changes),
                    "seconds": round(one.seconds),
                }
                for one in self.machines
            ],
        }


def estimate_policy(
    config: RlConfig, tasks: RlTasks, lengths: Lengths, episodes: int
) -> PolicyEstimate | str | None:
    """Estimate the needs of the weights here, and on a large GPU.

    Returns:
        The estimate; the reason why there is none; or ``None`` for a command scorer.
    """
    policy = config.policy
    if not isinstance(policy, HfPolicyConfig):
        return None
    try:
        shape = _shape(policy)
    except ConfigError as error:
        return str(error)
    work = _work(config, lengths, episodes)
    here = this_machine(policy.device, policy.precision)
    machines = [here] if here.cuda else [here, LARGE_GPU]
    return PolicyEstimate(
        policy.model,
        shape,
        work,
        tuple(_on(machine, shape, config, tasks, lengths, work) for machine in machines),
    )


SKILL_TOKENS: Final = 500
"""Tokens of the skills in a prompt, if ``bank.max_tokens`` allows it."""
LARGE_GPU: Final = Machine(
    "a GPU of 80 GB",
    81_559 * 2**20,
    cuda=True,
    flops=0.4 * 989e12,
    bandwidth=0.6 * 3.35e12,
    pass_s=0.03,
    basis="stated, not measured: an H100 of 81,559 MiB, 989 TFLOP/s in bfloat16 and 3.35 TB/s by "
    "its maker, of which training reaches 40% and sampling 60%; 30 ms for all layers at least",
)


def refuse_too_large(config: RlConfig, tasks: RlTasks, lengths: Lengths) -> str:
    """Return the memory that a training needs, in words, and refuse one that cannot fit.

    Raises:
        ConfigError: The memory cannot suffice; the message names the settings that help most.
    """
    policy = config.policy
    assert isinstance(policy, HfPolicyConfig)
    try:
        shape = _shape(policy)
    except ConfigError as error:
        return f"not estimated: {error}"
    machine = _beside_engine(this_machine(policy.device), config)
    demand = _demand(config, tasks, lengths, machine)
    need = needed(shape, demand)
    said = f"{_gb(need.peak)} GB"
    if machine.memory is None:
        return f"about {said} at the peak; how much is free is not known"
    if _least(need) <= machine.memory:
        return f"about {said} at the peak, {_gb(machine.memory)} GB are free"
    # Name the settings that save most; leave out those that change nothing.
    saved = {
        name: _least(need) - _least(needed(shape, changed))
        for name, change in _CHANGES.items()
        if (changed := change(demand, lengths)) != demand
    }
    names = sorted(saved, key=lambda name: -saved[name])[:3]
    raise ConfigError(
        f"training {policy.model} as configured takes about {said}, and {machine.name} has "
        f"{_gb(machine.memory)} GB free. Set {', or '.join(names)}"
    )


def _shape(policy: HfPolicyConfig) -> Shape:
    """Return the model's shape; the weights to start from may be the only files here."""
    try:
        return find_shape(policy.model)
    except ConfigError:
        if not (Path(policy.start).expanduser() / "config.json").is_file():
            raise
        return find_shape(policy.start)


def this_machine(device: str, precision: str = "auto") -> Machine:
    """Describe this machine: its GPU if the policy would use one, else its processors."""
    has_torch = find_spec("torch") is not None
    if device != "cpu" and has_torch:
        import torch

        if torch.cuda.is_available():
            free, _ = torch.cuda.mem_get_info()
            name = f"this machine's {torch.cuda.get_device_name()}"
            return replace(LARGE_GPU, name=name, memory=free)
    flops, bandwidth = _measured()
    gain = _bfloat16_gain() if precision == "bfloat16" and has_torch else 1.0
    return Machine(
        "this machine",
        free_memory(),
        cuda=False,
        flops=0.5 * flops * gain,
        bandwidth=bandwidth,
        pass_s=0.0,
        basis=f"measured now: a product of matrices at {flops * gain / 1e9:,.1f} GFLOP/s, of which "
        f"training reaches about a half, and memory read at {bandwidth / 1e9:,.1f} GB/s"
        + (f"; {_SLOW}" if gain < 1 else ""),
        bfloat16_gain=gain,
    )


def _beside_engine(machine: Machine, config: RlConfig) -> Machine:
    """Return a machine without the memory of a separate sampling engine."""
    if getattr(config.policy, "sampler", "own") == "own" or machine.memory is None:
        return machine
    return replace(machine, memory=round(machine.memory * (1 - ENGINE_SHARE)))


_SLOW: Final = (
    "training in bfloat16 takes about 20 times as long as in float32 on this processor, so set "
    "policy.precision: float32"
)


def slow_precision(config: RlConfig) -> str:
    """Return a warning if the policy's precision is slow on this machine, else ``""``."""
    policy = config.policy
    if not isinstance(policy, HfPolicyConfig) or policy.precision != "bfloat16":
        return ""
    return _SLOW if this_machine(policy.device, policy.precision).bfloat16_gain < 1 else ""


def free_memory() -> int | None:
    """Return the free bytes of memory, or ``None`` where unknown."""
    found: list[int] = []
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
    except OSError:  # no Linux
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    group = Path("/sys/fs/cgroup")
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            bound = int((group / most).read_text("ascii"))
            found.append(max(bound - int((group / used).read_text("ascii")), 0))
        except (OSError, ValueError):  # no such group, or no limit
            continue
    return min(found, default=None)


def _measured() -> tuple[float, float]:
    """Measure operations and bytes per second, in about a tenth of a second."""
    one = np.ones((768, 768), dtype=np.float32)
    much = np.ones(1 << 24, dtype=np.float32)
    product_s = min(_seconds(lambda: one @ one) for _ in range(4))
    read_s = min(_seconds(much.sum) for _ in range(3))
    return 2 * 768**3 / product_s, much.nbytes / read_s


_WITHOUT_BFLOAT16: Final = 1 / 20
"""Measured with torch 2.13 on an EPYC with AVX2 alone: forward 1/7, backward 1/5 and 1/45."""


def _bfloat16_gain() -> float:
    """Return the speed of bfloat16 relative to float32; 1 if supported or unknown."""
    import torch

    known = torch.cpu.get_capabilities()
    has = any(known.get(name) for name in ("avx512_bf16", "amx_bf16"))
    return _WITHOUT_BFLOAT16 if known.get("architecture") == "x86_64" and not has else 1.0


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return max(time.perf_counter() - started, 1e-9)


def _demand(config: RlConfig, tasks: RlTasks, lengths: Lengths, machine: Machine) -> Demand:
    policy, grpo = config.policy, config.grpo
    assert isinstance(policy, HfPolicyConfig)
    groups = min(grpo.tasks_per_iteration, len(tasks.training)) if grpo.iterations else 0
    at_once = groups * grpo.group_size
    trajectories = grpo.rows == "trajectories" and grpo.iterations > 0
    longest = lengths.episode if trajectories else lengths.longest
    usual = lengths.episode if trajectories else lengths.usual
    rows = at_once if trajectories else at_once * lengths.turns
    rows = min(rows, grpo.minibatch_rows or rows) if grpo.iterations else 1
    if config.cold_start is not None:
        rows = max(rows, config.cold_start.batch_rows)
    tokens = min(max(policy.micro_tokens, longest), rows * usual)
    answers = lengths.turns * lengths.answer if trajectories else lengths.answer
    sampled = min(config.rollout.max_concurrent, max(at_once, len(tasks.val)))
    prompts = max(groups, len(tasks.val))
    low = policy.precision == "bfloat16" or (policy.precision == "auto" and machine.cuda)
    return Demand(
        low=low,
        rank=None if policy.lora is None else policy.lora.rank,
        lean=policy.optimizer == "adamw8bit",
        checkpointing=policy.gradient_checkpointing,
        reference=config.recipe.kl_weight > 0 and grpo.iterations > 0,
        tokens=tokens,
        chosen=max(1, tokens * answers // usual),
        passes=-(-rows * usual // tokens),
        sampled=sampled,
        context=min(lengths.longest, policy.context_tokens or lengths.longest),
        read=min(_SAMPLED_AT_ONCE, sampled, prompts) * lengths.opening,
        cuda=machine.cuda,
    )


def _fewer_tokens(demand: Demand, lengths: Lengths) -> Demand:
    tokens = min(demand.tokens, max(_FEW_TOKENS, lengths.longest))
    passes = -(-demand.passes * demand.tokens // tokens)
    chosen = max(1, demand.chosen * tokens // demand.tokens)
    return replace(demand, tokens=tokens, chosen=chosen, passes=passes)


_SAMPLED_AT_ONCE: Final = 128  # `HfSettings.sample_rows`
_FEW_TOKENS: Final = 2048
_FEW_ROWS: Final = 16
_CHANGES: Final[dict[str, Callable[[Demand, Lengths], Demand]]] = {
    "policy.gradient_checkpointing=true": lambda one, _: replace(one, checkpointing=True),
    f"policy.micro_tokens={_FEW_TOKENS}": _fewer_tokens,
    f"rollout.max_concurrent={_FEW_ROWS}": lambda one, lengths: replace(
        one, sampled=min(one.sampled, _FEW_ROWS), read=min(one.read, _FEW_ROWS * lengths.opening)
    ),
    "policy.optimizer=adamw8bit": lambda one, _: replace(one, lean=True),
    "grpo.kl_weight=0": lambda one, _: replace(one, reference=False),
    "policy.lora={}": lambda one, _: replace(one, rank=one.rank or 16),
}
"""Settings that save memory; the first only cost speed, the last change what is learned."""


def _on(
    machine: Machine, shape: Shape, config: RlConfig, tasks: RlTasks, lengths: Lengths, work: Work
) -> OnMachine:
    machine = _beside_engine(machine, config)
    demand = _demand(config, tasks, lengths, machine)
    need = needed(shape, demand)
    seconds = _time(machine, shape, demand, need, work)
    fits = _fits(need, machine.memory)
    changes = () if fits else tuple(_helping(machine, shape, demand, lengths))
    return OnMachine(machine, demand, need, seconds, fits, changes)


def _helping(machine: Machine, shape: Shape, demand: Demand, lengths: Lengths) -> Iterator[str]:
    """Yield the settings that together make it fit; none if nothing does."""
    taken: dict[str, Demand] = {}
    for name, change in _CHANGES.items():
        changed = change(demand, lengths)
        if needed(shape, changed).peak < needed(shape, demand).peak:
            taken[name] = demand = changed
            if _fits(needed(shape, demand), machine.memory):
                yield from taken
                return


def _exact(need: Need) -> int:
    return need.lasting + need.gradients if need.grows else need.lasting


def _least(need: Need) -> int:
    """Return the least bytes: lasting memory is exact, the rest within a factor."""
    sure = _exact(need)
    return round(sure + (need.peak - sure) / TRUSTED) if need.peak > sure else need.peak


def _fits(need: Need, free: int | None) -> bool | None:
    if free is None:
        return None
    sure = _exact(need)
    if sure + max(need.peak - sure, 0) * TRUSTED <= free:
        return True
    return False if _least(need) > free else None


def _work(config: RlConfig, lengths: Lengths, episodes: int) -> Work:
    """Estimate the tokens of a run from its number of episodes and their lengths."""
    grpo, cold = config.grpo, config.cold_start
    at_once = grpo.tasks_per_iteration * grpo.group_size
    trajectories = grpo.rows == "trajectories"
    learned = lengths.episode if trajectories else lengths.turns * lengths.usual
    trained = grpo.iterations * at_once * learned * grpo.epochs
    if cold is not None:
        trained += cold.steps * cold.batch_rows * lengths.usual
    rounds = -(-episodes // max(1, min(config.rollout.max_concurrent, at_once)))
    return Work(
        sampled=episodes * lengths.turns * lengths.answer,
        read=episodes * lengths.episode,
        passes=rounds * lengths.turns * (lengths.answer + 1),
        trained=trained,
    )


def _time(machine: Machine, shape: Shape, demand: Demand, need: Need, work: Work) -> float:
    """Estimate seconds, bound by operations or by memory reads."""
    per_token = 6 if demand.rank is None else 4  # forward, and gradients of inputs and weights
    per_token += 2 * demand.checkpointing + 2 * demand.reference
    training = per_token * shape.weights * work.trained / machine.flops
    reading = 2 * shape.weights * work.read / machine.flops
    written = 2 * shape.weights * work.sampled / machine.flops
    pass_s = max((need.weights + need.cache / 2) / machine.bandwidth, machine.pass_s)
    return training + reading + max(written, work.passes * pass_s)


def _gb(size: int) -> str:
    return f"{size / 1e9:,.1f}" if size >= 5e7 else f"{size / 1e9:,.2f}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:,.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 100 else f"{hours / 24:,.0f} days"
