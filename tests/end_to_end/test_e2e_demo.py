"""What the demo promises: the skill that it trains works, and harm is kept out by rollouts alone.

Every mind in it is scripted. The figures show that the loop works, not what a model would score.
"""

import asyncio

import pytest

from doors import look
from skillwright.jobs import Unwatched, demo_file, load_config, run_training, start_run
from skillwright.models.scripted.skilltext import read_stances

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    """The folder of one run of the demo, exactly as it is shipped, and its report."""
    root = tmp_path_factory.mktemp("demo")
    with demo_file() as path:
        config = load_config(path, [f"run.root={root}"])

    async def play():
        with start_run(config, "") as run:
            return run.folder.path, await run_training(run, Unwatched())

    return asyncio.run(play())


def test_the_best_skill_wins_where_the_empty_and_the_irrelevant_one_do_not(demo_run):
    _, report = demo_run
    scores = {name: table.overall for name, table in report.test.tables.items()}
    assert scores["best"].tasks >= 100
    assert scores["best"].success_rate >= 0.85
    assert scores["initial"].success_rate < 0.30
    assert scores["placebo"].success_rate < 0.30
    assert all(score.failures == 0 for score in scores.values())
    assert report.test.gains["best"].interval.low > 0.4


def test_harmful_edits_were_proposed_and_rejected_by_rollouts_alone(demo_run):
    path, report = demo_run
    with look(path) as store:
        tried = [edit for edit in store.edits() if edit.status.startswith("applied_")]
    harmful = [edit for edit in tried if harm_in(edit.edit.content)]
    assert harmful
    assert {edit.verdict for edit in harmful} <= {"reject", "undecided"}
    assert not harm_in(report.best_skill)


def harm_in(text):
    return [stance for stance in read_stances(text) if stance.is_harmful]


def test_several_edits_were_accepted_each_for_a_proven_gain(demo_run):
    _, report = demo_run
    accepted = [step for step in report.state.steps if step.accepted]
    assert len(accepted) >= 2
    assert all(step.verdict.p_value <= step.verdict.alpha for step in accepted)
    assert report.state.ledger.spent <= report.state.ledger.total
