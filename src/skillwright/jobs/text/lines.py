"""Before a release test, take out lines of the current skill that do not help.

Lines that came in together were judged together. Where the agent's answers vary, each draw of the
current skill leaves out a random part of them (`LineEffects`); lines that are expected to gain
nothing go, if there are enough draws to tell. Adapters and agents that answer alike play whole
skills only. Of equal lines under one heading, one stays.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from random import Random
from typing import TYPE_CHECKING

from skillwright.core import skill_hash
from skillwright.core.seeds import derive_seed
from skillwright.core.skill import split_files
from skillwright.evaluation import release_draws
from skillwright.jobs.kinds import Kind
from skillwright.jobs.run.bench import TextBench, terms_of
from skillwright.jobs.run.progress import StageStarted
from skillwright.jobs.run.resume import write_down
from skillwright.jobs.text.sections import HEADING, ITEM, Section, split_document, without_sections
from skillwright.jobs.text.spending import (
    current_skill,
    line_draws,
    replayed,
    rollouts_for_steps,
    rollouts_left,
    step_cost,
    train_batch,
)
from skillwright.jobs.text.state import LinesRecord, TrainState
from skillwright.jobs.text.wiring import TrainParts

if TYPE_CHECKING:
    from skillwright.evaluation.gates.lines import Bundle


@dataclass(frozen=True, slots=True)
class _Line:
    """A list item or paragraph of a skill.

    Attributes:
        text: Its text, without its mark, white space and the heading that its section may have.
        heading: The heading above it, or "".
    """

    section: Section
    text: str
    heading: str


async def take_out_lines(run: TrainParts, state: TrainState) -> TrainState:
    """Take out lines of the current skill that do not help, and write it down."""
    if any(one.step == state.last_step for one in state.lines):
        return state
    whole, initial = run.store.skill(state.skill_version), run.store.skill(0)
    twice = _repeated(_lines_of(whole), _lines_of(initial))
    text = without_sections(whole, twice) if twice else whole
    judged, bundles = _judged(run, state, _lines_of(text))
    gone, played, gain = list[_Line](), 0, 0.0
    if len(judged) > 1:
        gone, played, gain = await _try_without(run, state, text, judged, bundles)
    if not twice and not played:
        return state
    if twice or gone:
        text = without_sections(text, [one.section for one in gone]).rstrip()
        text += whole[len(whole.rstrip()) :]
    with run.store.transaction(durable=True):
        version = None
        if text.strip() == initial.strip():
            text, version = initial, 0
        elif text != whole:
            version = run.store.add_skill_version(
                text,
                parent=state.skill_version,
                origin=f"lines_step_{state.last_step:04d}",
                step=state.last_step,
            )
        record = LinesRecord(
            step=state.last_step,
            judged=len(judged) if played else 0,
            gone=tuple(one.section.title for one in gone),
            twice=tuple(one.title for one in twice),
            gain=round(gain, 6),
            characters=len(whole) - len(text),
            rollouts=played,
            version=version,
        )
        return write_down(run.store, state, Kind.LINES, record.to_dict())


def _lines_of(text: str) -> list[_Line]:
    """Return the items and paragraphs of a skill's main document, without protected regions."""
    written, end = text.splitlines(), len(split_files(text)[0].splitlines())
    found = []
    for section in split_document(text, by_item=True):
        first = section.first_line - 1
        while HEADING.match(written[first]) or not written[first].strip():
            first += 1
        lines = written[first : section.last_line]
        if section.last_line <= end and not lines[0].startswith("<!--"):
            words = " ".join(ITEM.sub("", "\n".join(lines)).split())
            above = filter(HEADING.match, reversed(written[:first]))
            found.append(_Line(section, words.casefold(), next(above, "").strip().casefold()))
    return found


def _repeated(lines: Sequence[_Line], initial: Sequence[_Line]) -> list[Section]:
    """Return the sections of lines that say the same as an earlier one under their heading."""
    allowed = Counter((one.heading, one.text) for one in initial)
    seen, found = Counter[tuple[str, str]](), list[Section]()
    for one in lines:
        said = one.heading, one.text
        seen[said] += 1
        if seen[said] > max(1, allowed[said]):
            found.append(one.section)
    return found


def _judged(
    run: TrainParts, state: TrainState, lines: Sequence[_Line]
) -> "tuple[list[_Line], list[Bundle]]":
    """Return the lines that came in with others since the last time, and their bundles."""
    from skillwright.evaluation.gates.lines import Bundle

    parents = {one.version: one.parent for one in run.store.skills()}
    known = {one.text: one for one in lines}
    since = max((one.step for one in state.lines if one.judged), default=0)
    judged, bundles = list[_Line](), list[Bundle]()
    for step in state.steps:
        said, version = step.verdict, step.skill_version
        if step.step <= since or not step.accepted or said is None or version is None:
            continue
        parent = parents[version]
        before = {one.text for one in _lines_of(run.store.skill(0 if parent is None else parent))}
        new = {one.text for one in _lines_of(run.store.skill(version))} - before
        left = [known.pop(text) for text in sorted(new) if text in known]
        if len(new) > 1 and left and said.effect is not None and said.interval is not None:
            share, error = len(left) / len(new), (said.interval[1] - said.interval[0]) / 3.92
            judged += left
            bundles.append(Bundle(len(left), share * said.effect, share * error))
    return judged, bundles


async def _try_without(
    run: TrainParts,
    state: TrainState,
    text: str,
    lines: Sequence[_Line],
    bundles: "Sequence[Bundle]",
) -> tuple[list[_Line], int, float]:
    """Return lines to take out, the rollouts played, and the gain that is expected of it."""
    from skillwright.evaluation.gates.lines import LEAST_PRICE, MOST_DRAWS, LineEffects
    from skillwright.evaluation.gates.plan import price_before_test

    known, bench, draws = current_skill(run, state), run.bench, line_draws(run, state)
    if known is None or known.repeats is not False or not isinstance(bench, TextBench):
        return [], 0, 0.0
    val = len(known.task_ids)
    tested = release_draws(run.config.run.seed, state.next_test, state.last_step)
    left = rollouts_left(run, state, replayed(run, draws) + replayed(run, tested))
    room, price = min(MOST_DRAWS, 2 * val), LEAST_PRICE
    if left is not None:
        room = min(room, rollouts_for_steps(run, left) or 0)
        batch = train_batch(run, state, state.last_step + 1)
        price = price_before_test(known, left, step_cost(run, batch, state.last_step))
    effects, expected = LineEffects(bundles, known.belief), known.belief.expected
    random = Random(derive_seed("lines", run.config.run.seed, skill_hash(text)))
    metric, played = run.gate.scores(terms_of(run.config)), 0
    while more := effects.more(price, room - played):
        if not played:
            run.callback.on_event(StageStarted("lines", state.last_step, episodes=more))
        asked = [(random.randrange(val), effects.leave_out(random)) for _ in range(more)]
        sections = [line.section for line in lines]
        texts = [without_sections(text, [*compress(sections, out)]) for _, out in asked]
        tasks = [known.task_ids[at] for at, _ in asked]
        results = await bench.draw_texts(tasks, texts, draws, played)
        scored = [metric.scored(one).reward for one in results]
        effects.add(
            (left_out, float(expected[at]) - reward)
            for (at, left_out), reward in zip(asked, scored, strict=True)
            if reward is not None
        )
        played += more
    if not played:
        return [], 0, 0.0
    goes = effects.gains <= 0
    return list(compress(lines, goes)), played, 0.0 - float(effects.gains[goes].sum())
