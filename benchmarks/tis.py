"""Truncated importance sampling on and off, under a sampler whose probabilities are off by noise.

No engine runs here: the sampler is the policy with Gaussian noise on its logits, as rounding or an
older kernel gives. The policy is a table of logits, one row per position of an answer; a position
pays where its token is the wanted one, so that the true gradient is known. Rows go through the
product's own `update`, with the loss of `policy.recipe: grpo` without KL.

    .venv/bin/python benchmarks/tis.py

*Gap* is the mean |log p of the policy - log p of the sampler| per token, in nats; vLLM 0.23 was
0.0075 off in bfloat16 (`grpo_step.py --vllm`). *Direction* is the cosine between the mean of many
gradients and the true one, *noise* the spread of single gradients to the length of their mean.
*Solved* is the chance that a token is right after training, mean over seeds with Student's
interval, under noise that stays (``fixed``) and noise that is drawn anew for each step (``fresh``).
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

import torch
from torch.nn.functional import log_softmax

from skillwright.evaluation import mean_interval
from skillwright.policy import (
    AdvantageSettings,
    GrpoObjective,
    GrpoSettings,
    LossReport,
    Row,
    StepReport,
    TokenBatch,
    group_advantages,
    update,
)

POSITIONS, TOKENS, GROUP, GROUPS = 8, 16, 8, 4
RATE = 8.0
CAPS = {"off": None, "cap 2": 2.0, "no cap": 1e9}
NOISE = (0.0, 0.01, 0.1, 0.3, 1.0)
SETTINGS = {
    name: GrpoSettings(
        objective=GrpoObjective(
            dual_clip=None, kl_weight=0.0, average="sequences", tis_cap=cap, watch_entropy=False
        )
    )
    for name, cap in CAPS.items()
}


@dataclass
class Table:
    """A policy of independent tokens, with the verbs of a `PolicyBackend` that `update` uses."""

    logits: torch.Tensor
    reference = ""

    def forward_backward(self, rows: list[Row], loss: object) -> LossReport:
        """Add the gradient of the loss."""
        ids = torch.tensor([row.token_ids for row in rows])
        logprobs = log_softmax(self.logits, -1)[torch.arange(POSITIONS), ids]
        total, report = loss(TokenBatch.of(rows, logprobs))  # type: ignore[operator]
        total.backward()
        return report

    def optim_step(self, learning_rate: float) -> StepReport:
        """Step along the gradient."""
        with torch.no_grad():
            self.logits -= learning_rate * self.logits.grad
        norm = float(self.logits.grad.norm())
        self.logits.grad = None
        return StepReport(norm)

    def solved(self, wanted: torch.Tensor) -> torch.Tensor:
        """Return the chance that a token is right."""
        return torch.softmax(self.logits, -1)[torch.arange(POSITIONS), wanted].mean()


def rollouts(table: Table, noise: torch.Tensor, wanted: torch.Tensor, draws: torch.Generator):
    """Sample groups under noisy logits; return rows with advantages."""
    theirs, own = (log_softmax(one, -1).detach() for one in (table.logits + noise, table.logits))
    rows = []
    for group in range(GROUPS):
        ids = torch.multinomial(theirs.exp(), GROUP, replacement=True, generator=draws).T
        rewards = (ids == wanted).double().mean(1).tolist()
        for said, advantage in zip(
            ids, group_advantages(rewards, AdvantageSettings()), strict=True
        ):
            at = torch.arange(POSITIONS), said
            rows.append(
                Row(
                    context=None,
                    token_ids=tuple(said.tolist()),
                    old_logprobs=tuple(own[at].tolist()),
                    loss_mask=(True,) * POSITIONS,
                    encoding="table",
                    advantage=advantage,
                    group=str(group),
                    sampler_logprobs=tuple(theirs[at].tolist()),
                )
            )
    return rows


def start(seed: int, sigma: float) -> tuple[Table, torch.Tensor, torch.Tensor, torch.Generator]:
    """Return a policy, the noise of its sampler, the wanted tokens, and a source of numbers."""
    draws = torch.Generator().manual_seed(seed)

    def normal() -> torch.Tensor:
        return torch.randn(POSITIONS, TOKENS, generator=draws, dtype=torch.float64)

    table = Table(normal().requires_grad_())
    wanted = torch.randint(TOKENS, (POSITIONS,), generator=draws)
    return table, sigma * normal(), wanted, draws


def gradients(sigma: float, name: str, seeds: int, batches: int) -> dict[str, float]:
    """Compare gradients with the true one, at the weights that training begins with."""
    found = []
    for seed in range(seeds):
        table, noise, wanted, draws = start(seed, sigma)
        table.solved(wanted).backward()
        true, table.logits.grad = table.logits.grad.flatten(), None
        several, gaps, capped = [], [], []
        for _ in range(batches):
            rows = rollouts(table, noise, wanted, draws)
            report = update(table, rows, SETTINGS[name], seed=0, learning_rate=1.0).total()
            # A step of rate 1 is the gradient; take it back.
            several.append(_undone(table, seed, sigma))
            gaps.append(report.sampler_gap)
            capped.append(report.capped_share)
        mean = torch.stack(several).mean(0)
        spread = fmean(float((one - mean).norm()) for one in several) / float(mean.norm())
        cosine = torch.cosine_similarity(mean, true, 0)
        found.append((float(cosine), spread, fmean(gaps), fmean(capped)))
    names = ("direction", "noise", "gap", "capped")
    return {
        name: round(fmean(one), 4)
        for name, one in zip(names, zip(*found, strict=True), strict=True)
    }


def _undone(table: Table, seed: int, sigma: float) -> torch.Tensor:
    first = start(seed, sigma)[0].logits.detach()
    step = (table.logits.detach() - first).flatten()
    with torch.no_grad():
        table.logits.copy_(first)
    return step


def training(
    sigma: float, name: str, seeds: int, steps: int, *, is_fresh: bool
) -> dict[str, object]:
    """Train, and measure the chance of a right token."""
    solved = []
    for seed in range(seeds):
        table, noise, wanted, draws = start(seed, sigma)
        for _ in range(steps):
            if is_fresh:
                noise = sigma * torch.randn(noise.shape, generator=draws, dtype=torch.float64)
            rows = rollouts(table, noise, wanted, draws)
            update(table, rows, SETTINGS[name], seed=0, learning_rate=RATE)
        solved.append(table.solved(wanted).item())
    interval = mean_interval(solved) or ()
    return {"solved": round(fmean(solved), 4), "interval": [round(one, 4) for one in interval]}


def lines(seeds: int, batches: int, steps: int) -> Iterator[dict[str, object]]:
    """Yield a line per noise and setting."""
    for sigma in NOISE:
        for name in CAPS:
            yield {
                "sigma": sigma,
                "tis": name,
                **gradients(sigma, name, min(seeds, 8), batches),
                "fixed": training(sigma, name, seeds, steps, is_fresh=False),
                "fresh": training(sigma, name, seeds, steps, is_fresh=True),
            }
            if not sigma:
                break  # all are the same


def main() -> int:
    """Measure, and print a line per setting and a JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--batches", type=int, default=100, help="gradients per seed")
    parser.add_argument("--steps", type=int, default=80, help="updates of a training")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for line in lines(asked.seeds, asked.batches, asked.steps):
        found.append(line)
        print(json.dumps(line), flush=True)
    # Where the sampler is off by a nat, the correction must point nearer to the true gradient.
    worst = {line["tis"]: line["direction"] for line in found if line["sigma"] == NOISE[-1]}
    print(json.dumps({"lines": found, "ok": worst["cap 2"] > worst["off"]}))
    return 0 if worst["cap 2"] > worst["off"] else 1


if __name__ == "__main__":
    sys.exit(main())
