"""What a person sees of an adapter's bugs: each one, in a line, and its traceback once."""

import logging
from pathlib import Path

import pytest

from doors import Coach, Walker, look, trained
from skillwright.rollout import EngineDown
from somebodys import Chosen, adapter_config


def lines(caplog):
    """Return the warnings in order, each as (text, whether a traceback stands below it)."""
    return [
        (record.getMessage(), bool(record.exc_info))
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]


class Silent(Chosen):
    """Its analysts answer with what its class attribute holds."""

    answer: object = None

    def reflect(self, results, skill_content, out_dir, **kwargs):
        return self.answer


def edits(*ops):
    return {"edits": [{"op": op, "content": "Be quick."} for op in ops]}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "s1: it returned None; an empty list says that there is nothing to propose"),
        ("hello", "s1: it returned str, not a list of patches (and 1 more, in the store)"),
        ([3], "s1.a0 is dropped: it is a int, not an object"),
        (
            [None, {"patch": edits("prepend"), "source_type": "failure"}],
            "s1.a1: e1 is dropped: ",
        ),
        (
            [{"patch": edits("prepend", "prepend"), "source_type": "failure"}],
            "(and 1 more, in the store)",
        ),
    ],
)
async def test_an_answer_of_analysts_that_is_of_no_use_is_shown_and_stored(
    tmp_path, monkeypatch, caplog, answer, said
):
    monkeypatch.setattr(Silent, "answer", answer)
    path, report = await trained(adapter_config(tmp_path, Silent), Walker(), Coach([]))
    assert report.state.steps[0].action == "skip_no_patches"
    [told] = [text for text, _ in lines(caplog) if "reflect, s1" in text]
    assert said in told
    with look(path) as store:
        stored = store.events("step")[0].payload.get("reflection_notes", [])
        stored += [f"{p.id}: {note}" for p in store.patches(1) for note in p.details["notes"]]
    assert any(note in told for note in stored)


@pytest.mark.parametrize("answer", [[], [None]])
async def test_analysts_with_nothing_to_propose_are_no_news(tmp_path, monkeypatch, caplog, answer):
    monkeypatch.setattr(Silent, "answer", answer)
    _, report = await trained(adapter_config(tmp_path, Silent), Walker(), Coach([]))
    assert report.state.steps[0].action == "skip_no_patches"
    assert not [text for text, _ in lines(caplog) if "reflect" in text]


class Wordless(Silent):
    """Its analysts read rows, so it writes no conversations."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = super().rollout(env_manager, skill_content, out_dir, **kwargs)
        for file in Path(out_dir).rglob("conversation.json"):
            file.unlink()
        return rows


@pytest.mark.parametrize("answer", [[], [None]])
async def test_analysts_of_an_adapter_need_no_conversations(tmp_path, monkeypatch, answer):
    monkeypatch.setattr(Silent, "answer", answer)
    path, _ = await trained(adapter_config(tmp_path, Wordless), Walker(), Coach([]))
    with look(path) as store:
        assert not store.events("step")[0].payload.get("skipped")


class Dying(Chosen):
    """Cannot roll out."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        raise KeyError("chair")


async def test_a_bug_shows_its_traceback_once_and_only_its_own_frames(tmp_path, caplog):
    with pytest.raises(EngineDown):
        await trained(adapter_config(tmp_path, Dying), Walker(), Coach([]))
    told = [one for one in lines(caplog) if "failed: KeyError: 'chair'" in one[0]]
    assert len(told) == 6  # two batches, each tried three times
    assert [shows for _, shows in told] == [True] + [False] * 5
    assert "in rollout" in caplog.text
    assert "adapter_play.py" not in caplog.text
    assert 'foreign.py", line' not in caplog.text
    assert len(lines(caplog)) == 6


class Unreferenced(Chosen):
    """Cannot say what the right answer was."""

    def build_reference_text(self, item):
        raise LookupError(f"nothing is known of {item['id']}")


async def test_a_helper_that_fails_for_every_item_is_told_of_once(tmp_path, caplog):
    await trained(adapter_config(tmp_path, Unreferenced), Walker(), Coach([]))
    told = [one for one in lines(caplog) if "done without" in one[0]]
    assert len(told) == 2  # two helpers ask it
    assert [shows for _, shows in told] == [True, False]


class Quitting(Chosen):
    """Ends the process."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        raise SystemExit(3)


async def test_an_attempt_to_end_the_process_shows_where(tmp_path, caplog):
    with pytest.raises(EngineDown, match="SystemExit: 3"):
        await trained(adapter_config(tmp_path, Quitting), Walker(), Coach([]))
    assert "in rollout" in caplog.text


class Shapeless(Chosen):
    """Returns no rows."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        return None


async def test_a_broken_contract_is_a_sentence_without_a_traceback(tmp_path, caplog):
    with pytest.raises(EngineDown, match="not a list of rows"):
        await trained(adapter_config(tmp_path, Shapeless), Walker(), Coach([]))
    assert "not a list of rows" in caplog.text
    assert "Traceback" not in caplog.text
