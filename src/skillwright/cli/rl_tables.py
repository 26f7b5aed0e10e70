"""Show runs of the recipe, live and finished."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from skillwright.cli.live import Tally, narrate, score_text
from skillwright.cli.tables import gain_lines, own_up, print_indented, split_table
from skillwright.cli.words import clock_text, counted, filled, make_table, print_words
from skillwright.evaluation import Score
from skillwright.jobs.run import StageStarted
from skillwright.jobs.weights import (
    START,
    BankEvolved,
    ColdStartEnded,
    ColdStartStep,
    EvolutionRecord,
    FirstBankMade,
    InternalizedRecord,
    IterationEnded,
    IterationRecord,
    PolicyJudged,
    PolicyStepRecord,
    RlEvent,
    RlState,
    SkillsInternalized,
    Validated,
    weights_name,
)

_MOST_LINES = 12

ITERATION_COLUMNS = (
    "iteration",
    "success",
    "zero var.",
    "turns kept",
    "KL",
    "entropy",
    "clip fraction",
    "grad norm",
    "turns",
)
_LEGEND = (
    "zero var.: groups whose attempts all ended alike, which teach nothing; turns kept: those "
    "learned from; KL: nats per token from the cold start; clip fraction: share of tokens without "
    "gradient; grad norm: before clipping; turns: of an episode"
)
_TESTED = {
    "start": "weights that the run began with, with the first bank",
    "cold_start": "weights before reinforcement learning, with the first bank",
    "cold_start_last_bank": "the same weights with the last bank",
    "final": "the selected weights with the last bank",
    "no_skills": "control: the selected weights without skills",
    "other_scope": "control: the selected weights with the skills of another place",
    "before_internalization": "the released weights without the skills that were distilled",
    "internalized": "the weights that the skills were distilled into, without these skills",
}
"""Labels of the sealed test's sides, by name in the report."""


def show_rl(console: Console, state: RlState, selected: int | None, scripted: bool) -> None:
    """Show the results of the recipe: the bank, training, validation, and the sealed test."""
    for line in _stages(state):
        print_words(console, line, markup=True)
    if state.iterations:
        console.print(iterations_table(state))
        if any(one.extra for one in state.iterations.values()):
            print_indented(console, 2, Text(_sampled_again(state)))
    for line in _decided(state):
        print_indented(console, 2, Text(line))
    if state.validations:
        console.print(validations_table(state, selected))
    for line in _released(state):
        print_words(console, line, markup=True)
    if state.test is not None:
        console.print(split_table(state.test))
        for name in state.test.tables:
            about = f"{name.replace('_', ' ')}: {_TESTED.get(name, 'tested with them')}"
            print_indented(console, 2, Text(about, style="dim"))
        for line in gain_lines(state.test):
            print_indented(console, 2, Text.from_markup(line))
    own_up(console, scripted)


def _released(state: RlState) -> Iterator[str]:
    if state.release is not None:
        begun = weights_name(state.baseline)
        yield (
            f"[bold]release test[/], {begun} against selected: {escape(state.release.reason)} "
            f"Released: {'the selected weights' if state.release.accepted else f'the {begun}'}."
        )
    if state.internalized is not None:
        yield escape(internalized_text(state.internalized))


def _stages(state: RlState) -> Iterator[str]:
    if state.bank is not None:
        yield f"first bank (version {state.bank['version']}): {escape(state.bank['skills'])}"
        ratio = state.bank.get("compression", {}).get("ratios", {}).get("raw")
        if ratio is not None:
            yield f"  {ratio:.1f} times shorter than the trajectories that it was learned from"
    facts = state.cold_start
    if facts is not None and "coverage" in facts:
        coverage = facts["coverage"]
        first, last = facts["surprise"]
        yield (
            f"cold start: {coverage['wins']} of {coverage['episodes']} episodes solved, "
            f"{coverage['rows']} turns learned from, {coverage['skill_blocks']} skill texts, "
            f"cross-entropy {first:.2f} -> {last:.2f} nats"
        )


def _decided(state: RlState) -> Iterator[str]:
    """Format the outcomes of policy steps and bank updates, in order."""
    for number in sorted({*state.policy_steps, *state.evolutions}):
        if step := state.policy_steps.get(number):
            yield policy_step_text(step)
        if record := state.evolutions.get(number):
            yield evolution_text(record)


def iterations_table(state: RlState) -> Table:
    """Return iterations as lines, evenly sampled if there are many."""
    table = make_table(*ITERATION_COLUMNS, right=ITERATION_COLUMNS, title="\nRL rollouts")
    numbers = sorted(state.iterations)
    step = max(1, len(numbers) // _MOST_LINES)
    for number in sorted({*numbers[::step], numbers[-1]}):
        table.add_row(*iteration_cells(state.iterations[number]))
    table.caption = _LEGEND
    return table


def _sampled_again(state: RlState) -> str:
    """Describe the cost of dynamic sampling."""
    done = state.iterations.values()
    groups, extra = sum(one.groups for one in done), sum(one.extra for one in done)
    dropped = sum(one.zero_variance + one.lone for one in done)
    return (
        f"dynamic sampling: {dropped} of {groups} groups thrown away, {extra} extra episodes "
        f"({extra / max(1, sum(one.episodes + one.failures for one in done)):.0%} of all)"
    )


def iteration_cells(one: IterationRecord) -> tuple[str, ...]:
    """Return the values of an iteration for `ITERATION_COLUMNS`."""
    return (
        str(one.iteration),
        f"{one.success:.0%}",
        f"{one.zero_variance_share:.0%}",
        str(one.rows),
        number_text(one.kl, 3),
        number_text(one.entropy, 2),
        f"{one.clip_fraction:.1%}",
        number_text(one.grad_norm, 2),
        f"{one.turns:.1f}",
    )


def validations_table(state: RlState, selected: int | None) -> Table:
    """Return success on val by task type, one line per validation."""
    first = next(iter(state.validations.values()))
    names = (escape(name.replace("_", " ")) for name in first.table.task_types)
    columns = ("iteration", "bank", "all", *names)
    title = "\nVal tasks solved, after an iteration (0: the cold start)"
    table = make_table(*columns, right=columns, title=title)
    for number, one in sorted(state.validations.items()):
        mark = " *" if number == selected else ""
        first_types, types = first.table.task_types, one.table.task_types
        scores = [types.get(name) for name in first_types]
        rates = [
            "-" if score is None or score.success_rate is None else f"{score.success_rate:.0%}"
            for score in scores
        ]
        after = number if number != START else "start"
        table.add_row(f"{after}{mark}", f"v{one.bank_version}", f"{one.success:.0%}", *rates)
    if selected is not None:
        table.caption = "*: the weights that are tested"
    return table


def evolution_text(record: EvolutionRecord) -> str:
    """Format the outcome of a bank update as a line."""
    what = f"evolution after iteration {record.iteration}: "
    match record.action:
        case "accept":
            parts = [
                f"{len(ids)} {name}"
                for name, ids in (
                    ("added", record.added),
                    ("refined", record.refined),
                    ("retired", record.retired),
                )
                if ids
            ]
            what += f"bank v{record.before} -> v{record.version}: {', '.join(parts)}. "
        case "reject" | "undecided":
            what += f"bank stays v{record.version}. "
        case other:
            why = {
                "none_weak": "no category was weak enough",
                "no_proposal": "the teacher proposed nothing usable",
                "nothing_new": "nothing that was proposed is new, or there is no room",
                "teacher_failed": "the teacher failed",
            }
            return what + why.get(other, other)
    return what + (record.verdict.reason if record.verdict else "")


def policy_step_text(record: PolicyStepRecord) -> str:
    """Format the outcome of a policy step as a line."""
    fate = "kept" if record.verdict.accepted else "taken back"
    return (
        f"policy step of iterations {record.since + 1} to {record.iteration}: {fate}. "
        f"{record.verdict.reason}"
    )


def internalized_text(record: InternalizedRecord) -> str:
    """Format the outcome of distilling skills into the weights."""
    what = f"internalize {counted(len(record.skills), 'skill')}: "
    stay = "bank and weights stay as they are"
    why = {
        "no_skill": f"there is none in the bank; {stay}.",
        "no_task": f"no train task gets them, so there is nothing to learn them from; {stay}.",
        "no_success": f"no episode with them was solved, so there is nothing to learn; {stay}.",
    }
    if record.verdict is None:
        return what + why.get(record.action, record.action)
    about, others = record.tasks
    first, last = record.surprise or (0.0, 0.0)
    learned = (
        f"{record.coverage['solved']} of {record.coverage['episodes']} episodes solved on {about} "
        f"tasks that get them and {others} others, cross-entropy {first:.2f} -> {last:.2f} nats. "
    )
    retired = f"retired, bank v{record.before} -> v{record.version}"
    fate = (retired if record.accepted else stay).capitalize()
    return f"{what}{learned}{fate}. {record.verdict.reason}"


def number_text(value: float | None, digits: int) -> str:
    """Format a number with a number of decimals; a dash for None."""
    return "-" if value is None else f"{value:.{digits}f}"


_SHOWN = 10  # iterations
_SUMMED = 5  # iterations whose success by task type is shown together
_MOST_SKILLS = 6
_WIDTH = 78
_WIDE = 72  # columns, for tables
_TALLEST, _NARROW_TALLEST = 15, 22  # lines of the panel without its tables
_FEWEST = 3  # rows of a table
_RECIPE = {
    "base": "base episodes",
    "distill": "teacher",
    "expert": "expert",
    "cold start": "SFT",
    "rollouts": "GRPO",
    "val": "GRPO",
    "evolution split": "evolution",
    "evolve": "evolution",
    "gate": "evolution",
    "policy gate": "GRPO",
    "internalize": "internalize",
    "distillation": "internalize",
    "retirement test": "internalize",
    "release test": "test",
    "test": "test",
}
"""The step of the recipe that a stage is part of."""
_STAGES = {
    "base": "base episodes",
    "distill": "teacher: the first bank",
    "expert": "expert episodes",
    "cold start": "SFT (cold start)",
    "rollouts": "GRPO rollouts",
    "evolution split": "evolution: episodes",
    "evolve": "evolution: teacher",
    "gate": "evolution: gate",
    "policy gate": "policy step: gate",
    "internalize": "episodes with the skills to internalize",
    "distillation": "SFT without these skills",
    "retirement test": "release test without these skills",
    "val": "validation",
}


@dataclass
class RlTally(Tally):
    """State of the display for a run of the recipe."""

    step: ColdStartStep | None = None
    latest: deque[IterationEnded] = field(default_factory=lambda: deque(maxlen=_SHOWN))
    first: Validated | None = None
    last: Validated | None = None
    best: Validated | None = None
    begun: set[str] = field(default_factory=set)

    def add(self, event: RlEvent) -> None:
        """Update the state by one event."""
        match event:
            case ColdStartStep():
                self.step = event
            case IterationEnded():
                self.latest.append(event)
            case Validated():
                self.first, self.last = self.first or event, event
                self.best = event if event.is_best else self.best
            case _:
                super().add(event)

    @property
    def progress(self) -> tuple[int, int]:
        """Progress of the current stage: steps of the cold start, else episodes."""
        if self.stage.stage in ("cold start", "distillation") and self.step is not None:
            return self.step.step + 1, self.step.steps
        return super().progress

    @property
    def title(self) -> str:
        """Name of the current stage."""
        stage = self.stage
        if stage.stage == "rollouts" and 0 < stage.episodes <= self.in_stage:
            return "GRPO update"
        return _STAGES.get(stage.stage, stage.stage)

    def left_s(self, now_s: float) -> float | None:
        """Estimate the seconds left from the latest iterations, or ``None`` before any."""
        if self.run is None or not self.latest:
            return None
        to_come = self.run.steps - self.latest[-1].record.iteration
        counts = [one.record.episodes + one.record.failures for one in self.latest]
        each_s = fmean(one.rollout_s + one.learning_s for one in self.latest)
        episode_s = sum(one.rollout_s for one in self.latest) / max(sum(counts), 1)
        played = self.in_stage if self.stage.stage == "rollouts" and to_come else 0
        rollouts = max(to_come * counts[-1] - played, 0)
        others = max(self.run.episodes - self.fresh - self.reused - rollouts, 0)
        left_s = to_come * each_s + (others - played) * episode_s
        return left_s if left_s > 0 else None

    def where(self) -> list[str]:
        """Return the iteration of the current stage."""
        if self.run is None or not self.stage.step:
            return []
        return [f"iteration {self.stage.step}/{self.run.steps}"]

    def say(self, event: RlEvent) -> list[str]:
        """Format an event as lines of console markup; none for frequent events."""
        match event:
            case StageStarted():
                return self._begin(event)
            case FirstBankMade():
                lines = [f"first bank (version {event.version}): {escape(event.headline)}"]
                return lines + [f"  [yellow]{escape(note)}[/]" for note in event.notes]
            case ColdStartEnded():
                return [
                    f"cold start: {event.wins} of {event.episodes} episodes solved, {event.rows} "
                    f"turns learned from, cross-entropy {event.surprise:.3f} nats"
                ]
            case IterationEnded():
                return self._iteration(event)
            case BankEvolved(record=record):
                color = {"accept": "green", "reject": "red"}.get(record.action, "yellow")
                return [f"[{color}]{escape(evolution_text(record))}[/]"]
            case PolicyJudged(record=step):
                color = "green" if step.verdict.accepted else "red"
                return [f"[{color}]{escape(policy_step_text(step))}[/]"]
            case SkillsInternalized(record=made):
                color = "green" if made.accepted else "yellow"
                return [f"[{color}]{escape(internalized_text(made))}[/]"]
            case Validated():
                best = ", the best so far" if event.is_best else ""
                after = (
                    "at the start"
                    if event.iteration == START
                    else f"after iteration {event.iteration}"
                )
                said = f"val {after}: {score_text(event.score)}{best}"
                types = [
                    f"{_words(name)} {_rate(score)}" for name, score in event.task_types.items()
                ]
                return [said, *(f"  [dim]{escape(line)}[/]" for line in filled(types, _WIDTH - 2))]
            case _:
                return narrate(event)

    def _begin(self, event: StageStarted) -> list[str]:
        """Format the first start of a stage."""
        if event.stage in self.begun:
            return []
        self.begun.add(event.stage)
        count = f": {counted(event.episodes, 'episode')}" if event.episodes else ""
        return [f"[dim]{_STAGES.get(event.stage, event.stage)}{count} ...[/]"]

    def _iteration(self, event: IterationEnded) -> list[str]:
        """Format an iteration as a line, or two on a small terminal."""
        one, left_s = event.record, self.left_s(0.0)
        parts = [
            f"{one.iteration}/{self.run.steps if self.run else 0}",
            f"success {one.success:.0%}",
            f"reward {one.reward:.3f}",
            f"KL {number_text(one.kl, 3)}",
            f"entropy {number_text(one.entropy, 2)}",
            "" if left_s is None else f"about {clock_text(left_s)} left",
            f"zero-variance groups {one.zero_variance_share:.0%}",
            f"clip fraction {one.clip_fraction:.1%}",
            *_sampling(one),
            f"{one.turns:.1f} turns",
            f"{event.episodes_per_s:.1f} episodes/s",
        ]
        first, *others = filled([part for part in parts if part], _WIDTH - 2)
        return [first, *(f"  [dim]{line}[/]" for line in others)]

    def panel(self, now_s: float, width: int, height: int) -> list[RenderableType]:
        """Return the steps of the recipe, learning curves, success by task type, and cost."""
        parts: list[RenderableType] = [Text.from_markup(_steps(self.stage.stage))]
        if self.latest:
            learned = filled(_learned(self.latest[-1]), width)
            parts += [Text(line) for line in learned]
        beside = _TALLEST if width >= _WIDE else _NARROW_TALLEST
        types = _types(self, max(height - beside, _FEWEST), width)
        parts += types
        rest = (
            height - beside - (types[0].row_count if types and isinstance(types[0], Table) else 0)
        )
        if self.latest and rest > _FEWEST and width >= _WIDE:
            parts.append(_table(list(self.latest)[-rest:]))
        parts += [Text(line) for line in filled(self.pace(now_s), width)]
        if self.best is not None:
            text = f"best on val: iteration {self.best.iteration}, {score_text(self.best.score)}"
            parts.append(Text.from_markup(text))
        if self.latest:
            parts.append(Text(_skills(self.latest[-1]), style="dim"))
        return parts


def _steps(stage: str) -> str:
    """List the steps of the recipe, with the current one marked."""
    present = _RECIPE.get(stage, "")
    # Few runs internalize.
    shown = [one for one in _unique_steps() if one != "internalize" or one == present]
    steps = [f"[bold]\\[{one}][/]" if one == present else one for one in shown]
    return f"[dim]recipe:[/] {' > '.join(steps)}"


def _unique_steps() -> list[str]:
    return list(dict.fromkeys(_RECIPE.values()))


def _learned(event: IterationEnded) -> list[str]:
    one = event.record
    return [
        f"iteration {one.iteration}: success {one.success:.0%}",
        f"reward {one.reward:.3f}",
        f"episode length {one.turns:.1f} turns",
        f"KL {number_text(one.kl, 3)}",
        f"entropy {number_text(one.entropy, 2)}",
        f"clip fraction {one.clip_fraction:.1%}",
        f"zero-variance groups {one.zero_variance_share:.0%}",
        f"grad norm {number_text(one.grad_norm, 2)}",
        *_sampling(one),
    ]


def _sampling(one: IterationRecord) -> list[str]:
    """Describe extra episodes, and the difference between an engine and the policy, if any."""
    extra = [f"{one.extra} extra episodes"] if one.extra else []
    gap = f"sampler gap {number_text(one.sampler_gap, 4)} nats, {one.capped:.1%} capped"
    return extra + ([gap] if one.sampler_gap else [])


class _TaskType(NamedTuple):
    """Success of a task type: recent training, val with interval, first val."""

    name: str
    train: str
    val: str
    first: str


def _types(tally: RlTally, most: int, width: int) -> list[RenderableType]:
    """Show success for up to ``most`` task types: a table, or lines on a narrow terminal."""
    rows, left_out = _task_types(tally, most if width >= _WIDE else max(most // 2, _FEWEST))
    more = [f"and {left_out} more"] if left_out else []
    if width < _WIDE:
        lines = [f"{one.name}: val {one.val}, train {one.train}" for one in rows]
        return [Text(line) for line in (*lines, *more)]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    summed = min(len(tally.latest), _SUMMED)
    at = f"val, iteration {tally.last.iteration}" if tally.last else "val"
    table.add_column("solved, by task type")
    for name in (f"train, last {summed}" if summed > 1 else "train", at, "at first"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in rows:
        table.add_row(*map(escape, one))
    for line in more:
        table.add_row(line)
    return [table] if rows else []


def _task_types(tally: RlTally, most: int) -> tuple[list[_TaskType], int]:
    """Return the weakest task types on val, and the number of omitted ones."""
    counts: dict[str, tuple[int, int]] = {}
    for event in list(tally.latest)[-_SUMMED:]:
        for name, (solved, scored) in event.record.task_types.items():
            before = counts.get(name, (0, 0))
            counts[name] = (before[0] + solved, before[1] + scored)
    val = tally.last.task_types if tally.last else {}
    first = tally.first.task_types if tally.first else {}
    names = sorted({*counts, *val})
    weakest = sorted(sorted(names, key=lambda name: _value(val.get(name)))[:most])
    rows = []
    for name in weakest:
        solved, scored = counts.get(name, (0, 0))
        train = f"{solved / scored:.0%}" if scored else "-"
        began = _rate(first.get(name)).partition(" ")[0]
        rows.append(_TaskType(_words(name), train, _rate(val.get(name)), began))
    return rows, len(names) - len(rows)


def _value(score: Score | None) -> float:
    return 1.0 if score is None or score.success_rate is None else score.success_rate


def _rate(score: Score | None) -> str:
    if score is None or score.success_rate is None or score.interval is None:
        return "-"
    low, high = score.interval
    return f"{score.success_rate:.0%} ({low:.0%} to {high:.0%})"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _table(latest: Sequence[IterationEnded]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ITERATION_COLUMNS:
        table.add_column(name, justify="right")
    for event in latest:
        table.add_row(*iteration_cells(event.record))
    return table


def _skills(event: IterationEnded) -> str:
    injected = event.record.injected
    most = sorted(injected, key=lambda name: (-injected[name], name))[:_MOST_SKILLS]
    listed = ", ".join(f"{name} {injected[name]}x" for name in most)
    version = event.record.bank_version
    return f"{event.record.skills:.1f} skills injected of bank v{version}: {listed}"
