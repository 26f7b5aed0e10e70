"""After 0%: what the replies have in common, and which setting would change it."""

import csv

import pytest
from rich.console import Console

from doors import Coach, Notebook, evaluated, look, trained
from skillwright.cli.live import narrate
from skillwright.cli.tables import show_evaluation, show_state
from skillwright.config.run import validated
from skillwright.core import Completion
from skillwright.dashboard.report import html_report, markdown_report
from skillwright.jobs.run import Scored
from skillwright.jobs.text import EvalPlan
from skillwright.jobs.text.history import past_events

MODELS = {
    "target": {"backend": "scripted", "model": "clerk"},
    "optimizer": {"backend": "scripted", "model": "analyst"},
}


class Replies:
    """An agent that gives the reply that a question holds."""

    identity = "scripted:replies"

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        del tools, sampling, purpose
        return Completion(messages[-1]["content"].partition("Say: ")[2])


def config_of(folder, replies, scorer="exact", copies=8):
    found = enumerate(replies * copies)
    rows = [(number, reply, right) for number, (reply, right) in found]
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("number", "reply", "answer"), *rows])
    env = {
        "name": "table",
        "config": {"prompt": "{{ number }}. Say: {{ reply }}", "scorer": scorer},
        "data": {"path": str(folder / "rows.csv"), "ratio": "1:1:2"},
    }
    run = {"name": "zero", "root": str(folder / "runs")}
    return validated({"run": run, "env": env, "models": MODELS}, "zero")


@pytest.mark.parametrize(
    ("replies", "scorer", "said"),
    [
        (
            [("Yes!", "yes"), ("maybe", "no")],
            "exact",
            "4 of 8 replies differ from the answer only in case or punctuation (scorer f1 ignores "
            "punctuation; or show the form of an answer in the prompt)",
        ),
        (
            [("red", '["red", "crimson"]')],
            "exact",
            "4 of 4 replies are one of the answers that the cell lists (scorer one_of accepts each "
            "of them)",
        ),
        ([("It is red", "red")], "exact", "4 of 4 replies hold the answer with more text around"),
        ([("1.50", "1.5")], "exact", "4 of 4 replies are the answer's number, written differently"),
        ([("five", "5")], "number", "4 of 4 replies hold no number (ask for a number in digits"),
        ([('{"b": 1}', '{"a": 1}')], "json", "are wrong: the final object has no field a"),
    ],
)
async def test_an_evaluation_at_0_says_what_the_replies_have_in_common(
    tmp_path, replies, scorer, said
):
    config = config_of(tmp_path, replies, scorer)
    path, report = await evaluated(config, EvalPlan("test", 1), Replies())
    assert report.table.overall.success_rate == 0.0
    console = Console(width=300, record=True)
    show_evaluation(console, report, scripted=False)
    assert said in console.export_text()
    with look(path) as store:
        last = store.load_episode(store.episodes()[0].id).trajectory.turns[-1]
    assert last.metadata["reason"]


async def test_an_evaluation_above_0_says_no_such_thing(tmp_path):
    config = config_of(tmp_path, [("Yes!", "yes"), ("no", "no")])
    _, report = await evaluated(config, EvalPlan("test", 1), Replies())
    assert report.table.overall.success_rate == 0.5
    assert report.environment is None


async def test_a_baseline_at_0_says_it_before_anything_is_trained(tmp_path):
    watch = Notebook()
    config = config_of(tmp_path, [("Yes!", "yes")], copies=60)
    path, report = await trained(config, Replies(), Coach([]), callback=watch)
    (baseline,) = watch.of(Scored)[:1]
    assert "differ from the answer only in case or punctuation" in baseline.hints[0]
    assert "scorer f1 ignores punctuation" in "\n".join(narrate(baseline))
    console = Console(width=300, record=True)
    show_state(console, report.state)
    for shown in (console.export_text(), html_report(path), markdown_report(path)):
        assert "differ from the answer only in case or punctuation" in shown
        assert "0% of val solved" in shown
    with look(path) as store:
        again = next(one for one in past_events(config, store) if isinstance(one, Scored))
    assert again == baseline
