"""A policy of one number per command: small enough to know its every gradient."""

import math
import random
from dataclasses import replace

import torch

from skillwright.core import Act
from skillwright.policy import LossReport, Row, Sampled, StepReport, TargetRefused, TokenBatch
from skillwright.policy.backend import check_encoding


class CoinPolicy:
    """Prefers commands by a learned number each, whatever it is shown.

    Attributes:
        seen: Rows of every forward pass.
        rates: Learning rates of the steps.
    """

    encoding = "commands"

    def __init__(self):
        self.likes = torch.zeros(8, dtype=torch.float64, requires_grad=True)
        self.reference = ""
        self.frozen = None
        self.seen = []
        self.rates = []
        self.steps = 0

    @property
    def identity(self):
        return f"coin:{self.steps}:{self.likes.tolist()}"

    def sample(self, contexts, *, temperature):
        sampled = []
        for context in contexts:
            commands = context.metadata["admissible_commands"]
            logprobs = torch.log_softmax(self.likes[: len(commands)].detach() / temperature, 0)
            rng = random.Random(context.seed)
            chosen = rng.choices(range(len(commands)), weights=logprobs.exp().tolist())[0]
            logprob = logprobs[chosen].item()
            row = self._row(context, chosen, logprob, temperature)
            act = Act(commands[chosen], token_ids=(chosen,), logprobs=(logprob,))
            sampled.append(Sampled(act, row))
        return sampled

    def forget(self):
        """It keeps nothing."""

    def target(self, context, text):
        commands = context.metadata["admissible_commands"]
        if text not in commands:
            raise TargetRefused(f"{text!r} is not among the commands")
        row = self._row(context, commands.index(text), 0.0, 1.0)
        return row if len(commands) > 1 else replace(row, loss_mask=(False,))

    def forward_backward(self, rows, loss):
        check_encoding(rows, self.encoding)
        self.seen.append(list(rows))
        logits = torch.log_softmax(self.likes[:5], 0)
        logprobs = torch.stack([logits[row.token_ids[0]] for row in rows])[:, None]
        reference = None
        if loss.needs_reference:
            old = torch.log_softmax(self.frozen[:5], 0)
            reference = torch.stack([old[row.token_ids[0]] for row in rows])[:, None]
        entropy = -(logits.exp() * logits).sum().expand(len(rows), 1)
        total, report = loss(TokenBatch.of(rows, logprobs, reference, entropy))
        total.backward()
        return LossReport() + report

    def optim_step(self, learning_rate):
        gradient = self.likes.grad
        norm = 0.0 if gradient is None else gradient.norm().item()
        self.steps += 1
        self.rates.append(learning_rate)
        if gradient is not None and math.isfinite(norm):
            with torch.no_grad():
                self.likes -= learning_rate * gradient
        self.likes.grad = None
        return StepReport(norm, learning_rate=learning_rate, skipped=not math.isfinite(norm))

    def freeze_reference(self):
        self.frozen = self.likes.detach().clone()
        self.reference = f"frozen at {self.steps}"
        return self.reference

    def state(self):
        return {"likes": self.likes.detach(), "steps": self.steps}

    def load(self, state):
        self.likes = state["likes"].clone().requires_grad_()
        self.steps = state["steps"]

    def _row(self, context, chosen, logprob, temperature):
        return Row(
            context=(context.messages[-1]["content"],),
            token_ids=(chosen,),
            old_logprobs=(logprob,),
            loss_mask=(True,),
            encoding=self.encoding,
            temperature=temperature,
        )
