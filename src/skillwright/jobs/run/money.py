"""The budget of a run, and the prices of its calls.

Work is never stopped midway: an episode or an optimizer's call needs a permit to start. Once the
budget is spent, no permit is given, running work is finished and stored, and the run stops as if
interrupted. The usage is read from the store, so it includes earlier sessions, failed and stopped
episodes.

Running work counts with its usage so far, but at least with the mean cost of its kind; requests at
the limit wait until some work ends. Before any has ended, its cost is unknown, and only few are
started. So the limit is exceeded at most by the excess cost of a few pieces of work.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

from skillwright.bank.embedding.endpoint import endpoint_named
from skillwright.config.env import EnvSection
from skillwright.config.run import BudgetSection, RunConfig
from skillwright.core import ConfigError, Usage
from skillwright.core.errors import BudgetSpent as BudgetSpent
from skillwright.jobs.run.resume import seconds_worked
from skillwright.jobs.run.tasks import is_adapter, side_models
from skillwright.models import ModelConfig
from skillwright.models.prices import Prices, list_prices
from skillwright.runs import RunStore
from skillwright.runs.calls import Bill

_MINUTE_S = 60.0

MAX_UNMEASURED = 4
"""Maximum concurrent pieces of work before the first one of its kind has ended."""

logger = logging.getLogger(__name__)


class _Spent(NamedTuple):
    """Money in US dollars, and tokens."""

    usd: float = 0.0
    tokens: float = 0.0


@dataclass(slots=True, eq=False)
class _Work:
    """Work with a permit, and its usage so far."""

    kind: str
    size: int = 1
    used: Usage = field(default_factory=Usage)


_permit: ContextVar[_Work | None] = ContextVar("permit", default=None)


class Budget:
    """Gives permits to start work until a limit of the run's budget is reached."""

    def __init__(
        self,
        bounds: BudgetSection,
        store: RunStore,
        clock: Callable[[], float] = time.monotonic,
        after: int = 0,
    ) -> None:
        self._bounds = bounds
        self._store = store
        self._clock = clock
        self._started = clock()
        # Only looked up where it matters: a long run has many episodes to look through.
        self._before_s = seconds_worked(store) if bounds.minutes else 0.0
        self._bill = Bill(latest=after)
        self._is_read = False
        self._in_flight: list[_Work] = []
        self._shown: dict[str, list[_Spent]] = {}
        self._one_ended = asyncio.Event()
        self._says_unknown = True

    @asynccontextmanager
    async def permit(self, kind: str = "episode", size: int = 1) -> AsyncIterator[None]:
        """Wait for a permit to start work; the block ends when the work is stored.

        ``size`` is the number of its rollouts, which are begun together or not at all.

        Work inside of other work with a permit needs none.
        """
        if not self._bounds.is_set or _permit.get() is not None:
            yield
            return
        while (reached := self._reached(size)) is not None or self._is_too_early(kind):
            if reached is not None and not self._in_flight:
                # Raised after the other work has ended, whose cost is part of the message.
                raise reached.error()
            await self._one_ended.wait()
        work = _Work(kind, size)
        self._in_flight.append(work)
        token = _permit.set(work)
        try:
            yield
        finally:
            _permit.reset(token)
            self._end(work)

    def note(self, used: Usage) -> None:
        """Add usage of running work that is not yet stored."""
        work = _permit.get()
        if work is not None:
            work.used += used

    def _end(self, work: _Work) -> None:
        self._in_flight.remove(work)
        shown = self._shown.setdefault(work.kind, [])
        shown.append(self._spent_by(work))
        self._is_read = False
        # Current waiters are woken in order; new ones wait for the next release.
        self._one_ended.set()
        self._one_ended = asyncio.Event()

    def _is_too_early(self, kind: str) -> bool:
        counts = self._bounds.usd is not None or self._bounds.tokens is not None
        alike = sum(work.kind == kind for work in self._in_flight)
        return counts and kind not in self._shown and alike >= MAX_UNMEASURED

    def _spent_by(self, work: _Work) -> _Spent:
        used = work.used
        usd = used.cost_usd
        if usd is None:
            usd = used.calls * (self._bill.dearest_usd or 0.0)
        return _Spent(usd, used.input_tokens + used.output_tokens)

    def _reserved(self) -> _Spent:
        """Return the expected cost of running work: its usage, at least the mean of its kind."""
        usd = tokens = 0.0
        for work in self._in_flight:
            used, like = self._spent_by(work), self._usual(work.kind)
            usd += max(used.usd, like.usd)
            tokens += max(used.tokens, like.tokens)
        return _Spent(usd, tokens)

    def _usual(self, kind: str) -> _Spent:
        shown = self._shown.get(kind)
        if not shown:
            return _Spent()
        return _Spent(
            sum(one.usd for one in shown) / len(shown),
            sum(one.tokens for one in shown) / len(shown),
        )

    def _reached(self, size: int = 1) -> "_Reached | None":
        """Return the limit that further work of this size reaches, or ``None``."""
        budget = self._bounds
        if not self._is_read and (budget.usd is not None or budget.tokens is not None):
            self._bill += self._store.bill(self._bill.latest)
            self._is_read = True
            self._say_what_is_unknown()
        reserved, bill = self._reserved(), self._bill
        usd, tokens = bill.usd, bill.tokens
        minutes = (self._before_s + self._clock() - self._started) / _MINUTE_S
        if budget.usd is not None and usd is None:
            return _Reached(
                f"of {budget.usd:g} USD cannot be held: an endpoint did not say what a call used, "
                "and no call's cost is known",
                "--set budget.usd=null --set budget.minutes=60",
            )
        if budget.usd is not None and usd is not None and usd + reserved.usd >= budget.usd:
            why = f"of {budget.usd:g} USD is spent: {usd:.4g} USD"
            return _Reached(why, _larger("usd", budget.usd, usd))
        if budget.tokens is not None and tokens + reserved.tokens >= budget.tokens:
            why = f"of {budget.tokens:,} tokens is spent: {tokens:,} tokens"
            return _Reached(why, _larger("tokens", budget.tokens, tokens))
        if budget.rollouts is not None:
            flying = sum(work.size for work in self._in_flight if work.kind == "episode")
            played = self._played()
            if played + flying + size > budget.rollouts:
                why = f"of {budget.rollouts:,} rollouts is spent: {played:,} rollouts"
                if size > 1:
                    why += f" are played, and the next batch takes {size:,}"
                return _Reached(why, _larger("rollouts", budget.rollouts, played + size - 1))
        if budget.minutes is not None and minutes >= budget.minutes:
            why = f"of {budget.minutes:g} minutes is spent: {_brief_minutes(minutes)} minutes"
            return _Reached(why, _larger("minutes", budget.minutes, minutes))
        return None

    def _played(self) -> int:
        counts = self._store.counts()
        return counts["episodes"] + counts["failures"]

    def rollouts_left(self) -> float | None:
        """Estimate how many more rollouts the budget pays for; ``None`` without a budget.

        Money, tokens and minutes are divided by what a rollout of this run has cost so far, the
        optimizer's calls included.
        """
        bounds = self._bounds
        played = self._played() if bounds.is_set else 0
        if not played:
            return None
        bill = self._store.bill()
        minutes = (self._before_s + self._clock() - self._started) / _MINUTE_S
        used = ((bounds.usd, bill.usd), (bounds.tokens, bill.tokens), (bounds.minutes, minutes))
        left = [played * (bound / spent - 1) for bound, spent in used if bound and spent]
        if bounds.rollouts is not None:
            left.append(bounds.rollouts - played)
        return max(min(left), 0.0) if left else None

    def _say_what_is_unknown(self) -> None:
        bill = self._bill
        if not (self._says_unknown and self._bounds.usd and bill.unknown_calls and bill.usd):
            return
        self._says_unknown = False
        logger.warning(
            "an endpoint did not say what %d calls used; for budget.usd each of them, and of those "
            "to come, counts as much as the dearest known: %.4g USD",
            bill.unknown_calls,
            bill.dearest_usd,
        )


class _Reached(NamedTuple):
    """A reached limit as text, with the options of ``resume`` that raise it."""

    why: str
    larger: str

    def error(self) -> BudgetSpent:
        such_as = "another one" if "null" in self.larger else "a larger one"
        spent = BudgetSpent(
            f"The budget {self.why}. What was in flight was finished, and nothing new was begun. "
            f"Resume with {such_as}, such as {self.larger.replace('--set ', '')}"
        )
        spent.larger = self.larger
        return spent


def _brief_minutes(minutes: float) -> str:
    return f"{minutes:.1f}" if minutes >= 1 else f"{minutes:.2g}"


def _larger(name: str, bound: float, used: float) -> str:
    """Return the option that doubles a limit until it is above the usage."""
    while bound <= used:
        bound *= 2
    text = f"{bound:.6f}".rstrip("0").rstrip(".")
    return f"--set budget.{name}={text}"


_SECTIONS = {"user": "env.config.user_settings", "judge": "env.config.scorer.model"}


@dataclass(frozen=True, slots=True)
class PricedModel:
    """A role's model and the price of its tokens.

    Attributes:
        role: ``target``, ``optimizer``, ``user`` for a simulated user, or ``judge``.
        prices: ``None`` if unknown.
        is_free: Whether its tokens cost nothing.
        reports_cost: Whether its answers state their cost.
    """

    role: str
    model: str
    prices: Prices | None
    is_free: bool = False
    reports_cost: bool = False

    @property
    def is_priced(self) -> bool:
        """Whether the cost of a call will be known."""
        return self.is_free or self.reports_cost or self.prices is not None

    @property
    def section(self) -> str:
        """Path of its settings in the configuration."""
        return _SECTIONS.get(self.role, f"models.{self.role}")

    @property
    def date(self) -> str:
        """Date of the prices, or ``""``."""
        if self.prices is None:
            return ""
        return (self.prices.as_of or "the configuration").partition(",")[0]

    def line(self) -> str:
        """Format the model's prices and their date as one line, or why it has none."""
        if self.is_free:
            return f"{self.role} {self.model}: free"
        if self.prices is None and self.reports_cost:
            return f"{self.role} {self.model}: as the program itself estimates it"
        if self.prices is None:
            return f"{self.role} {self.model}: prices unknown; set {self.section}.prices"
        into, out = self.prices.input_usd_per_mtok, self.prices.output_usd_per_mtok
        age = self.prices.as_of or "as configured"
        return f"{self.role} {self.model}: {into:g} in, {out:g} out, USD per million ({age})"


def priced_models(config: RunConfig, *, trains: bool = True) -> tuple[PricedModel, ...]:
    """Return the models of a run with their prices; an evaluation only calls the target."""
    llms = {"target": config.models.target, "optimizer": config.models.optimizer}
    roles = ("target", "optimizer") if trains else ("target",)
    return tuple(priced_model(role, llms[role]) for role in roles)


def side_llms(env: EnvSection) -> list[PricedModel]:
    """Return the models of a simulated user and a judge, with their prices."""
    return [priced_model(role, llm) for role, llm in side_models(env).items()]


def money_text(cost_usd: float | None, llms: Iterable[PricedModel]) -> str:
    """Format an amount with the date of its prices."""
    amount = "unknown" if cost_usd is None else f"${cost_usd:.2f}"
    dates = ", ".join(sorted({llm.date for llm in llms if llm.date}))
    return f"{amount} (prices of {dates})" if dates and cost_usd is not None else amount


def refuse_unpriced(config: RunConfig, *, trains: bool = True) -> None:
    """Refuse a budget in money if prices of a training or an evaluation are unknown."""
    embedder = config.bank.embedder if config.skill.bank else ""
    judges = [one for one in side_llms(config.env) if one.role == "judge"]
    llms = [*priced_models(config, trains=trains), *judges]
    refuse_unheld(config.budget, llms, embedder)


def refuse_unheld(budget: BudgetSection, llms: Iterable[PricedModel], embedder: str) -> None:
    """Refuse a budget in money if prices are unknown, before any call."""
    if budget.usd is None:
        return
    unheld = f"budget.usd = {budget.usd:g} cannot be held: no prices are known for"
    if unpriced := [llm for llm in llms if not llm.is_priced]:
        raise ConfigError(
            f"{unheld} {_listed(f'{llm.model!r} ({llm.section})' for llm in unpriced)}. "
            f"Set {unpriced[0].section}.prices.input_usd_per_mtok and output_usd_per_mtok, or "
            "bound budget.tokens instead"
        )
    endpoint = endpoint_named(embedder)
    if endpoint is not None:
        base_url, model = endpoint
        if list_prices(model, base_url) is None:
            raise ConfigError(f"{unheld} bank.embedder {embedder!r}; bound budget.tokens instead")


def budget_gaps(config: RunConfig) -> tuple[str, ...]:
    """Describe the costs that a budget does not include, as lines."""
    budget = config.budget
    if (budget.usd is None and budget.tokens is None) or not is_adapter(config.env):
        return ()
    bounds = [f"budget.{name}" for name in ("usd", "tokens") if getattr(budget, name) is not None]
    if config.env.compat is not None:
        return (
            f"{_listed(bounds)} bounds what the adapter {config.env.name!r} asks through "
            f"{config.env.compat}.model; its own requests are not reported to us",
        )
    return (
        f"{_listed(bounds)} bounds the optimizer only: what the adapter {config.env.name!r} spends "
        "on its rollouts is not reported to us. budget.minutes bounds both",
    )


def priced_model(role: str, llm: ModelConfig) -> PricedModel:
    """Return a model with its prices."""
    prices = None if llm.is_free else llm.known_prices
    return PricedModel(role, llm.model, prices, llm.is_free, llm.reports_cost)


def _listed(names: Iterable[str]) -> str:
    return " and ".join(names)
