"""Session logs of three clients: what is read of them, and what hostile ones cannot do."""

import json
import os
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_logs import Talk
from skillwright.core import DataError
from skillwright.plugins.sessions.logs import (
    Outcome,
    Ran,
    Said,
    default_folders,
    read_sessions,
    requests_of,
)
from skillwright.plugins.sessions.logs.clients import ClaudeLines, read_codex_line
from skillwright.plugins.sessions.logs.reading import LONGEST_LINE
from skillwright.plugins.sessions.logs.recorder import MOST_EVENTS, LeftOut, Recorder

BEGAN = "2026-11-02T09:00:00+00:00"
FORMS = ["claude", "codex", "export", "tree"]


def talk(**names):
    return Talk(BEGAN, **names)


def requests_in(folder):
    found = read_sessions([folder])
    return [one for session in found.sessions for one in requests_of(session)]


def only(folder):
    (request,) = requests_in(folder)
    return request


@pytest.mark.parametrize("form", FORMS)
def test_a_session_reads_alike_in_every_form(form, tmp_path):
    said = talk().user("Run the tests of the cart").tool("Read", "# Notes")
    said.ran("cd shop && npm test", 1, "no such script").agent("Sorry.")
    said.user("No, use pnpm, not npm.").user("Commit it please").ran("git commit -m x", 0)
    getattr(said.user("Thanks!"), form)(tmp_path)
    first, second = requests_in(tmp_path)
    assert first.prompt == "Run the tests of the cart"
    assert [(one.command, one.code) for one in first.attempts] == [("npm test", 1)]
    assert (first.outcome, first.answer) == (Outcome.FAILURE, "No, use pnpm, not npm.")
    assert (first.check.wanted, first.check.unwanted) == ("pnpm", "npm")
    assert (second.outcome, second.check.wanted) == (Outcome.SUCCESS, "git commit")


@pytest.mark.parametrize("form", ["claude", "codex", "export"])
def test_a_user_who_stops_the_agent_is_not_content(form, tmp_path):
    getattr(talk().user("Run the tests").ran("npm test", 0).stopped(), form)(tmp_path)
    assert (only(tmp_path).outcome, only(tmp_path).check) == (Outcome.FAILURE, None)


@pytest.mark.parametrize(
    ("answer", "outcome", "wanted"),
    [
        ("Please use `make test` instead of pytest.", Outcome.FAILURE, "make test"),
        ("Don't use yarn, use bun.", Outcome.FAILURE, "bun"),
        ("Instead of black, use ruff.", Outcome.FAILURE, "ruff"),
        ("That is not what I meant.", Outcome.FAILURE, None),
        ("No.", Outcome.FAILURE, None),
        ("No problem.", Outcome.SUCCESS, "pytest"),
        ("Looks good.", Outcome.SUCCESS, "pytest"),
        ("Now look at the cart.", Outcome.SUCCESS, "pytest"),
    ],
)
def test_the_rules_say_how_a_request_went(answer, outcome, wanted, tmp_path):
    talk().user("Run the tests").ran("pytest -q", 0).user(answer).claude(tmp_path)
    first = requests_in(tmp_path)[0]
    assert first.outcome is outcome
    assert (first.check and first.check.wanted) == wanted


def test_a_check_that_fails_is_a_failure_and_silence_says_nothing(tmp_path):
    talk(name="a").user("Mend the parser").ran("pytest", 2).claude(tmp_path)
    talk(name="b").user("Mend the printer").ran("ls", 0).claude(tmp_path)
    outcomes = {one.prompt: one.outcome for one in requests_in(tmp_path)}
    assert outcomes["Mend the parser"] is Outcome.FAILURE
    assert outcomes["Mend the printer"] is Outcome.UNKNOWN


def test_what_is_asked_behind_thanks_is_a_request_of_its_own(tmp_path):
    said = talk().user("Run the tests").ran("pytest", 0).user("Thanks. Now lint the code.")
    said.ran("ruff check", 0).claude(tmp_path)
    assert [one.prompt for one in requests_in(tmp_path)] == ["Run the tests", "Now lint the code."]


def test_a_check_takes_the_right_command_and_refuses_the_wrong_one(tmp_path):
    import re

    talk().user("Run the tests").ran("npm test", 1).user("Use pnpm, not npm.").claude(tmp_path)
    pattern = re.compile(only(tmp_path).check.pattern)
    assert pattern.search("pnpm test")
    assert pattern.search("PNPM run test\n")
    for wrong in ("npm test", "npm install pnpm", "pnpm-lock", "run the tests"):
        assert not pattern.search(wrong), wrong


def test_a_resumed_session_repeats_nothing(tmp_path):
    first = talk(name="one").user("Run the tests").ran("pytest", 0)
    first.claude(tmp_path)
    lines = (tmp_path / "claude" / "one.jsonl").read_text(encoding="utf-8")
    fresh = talk(name="two").user("Lint it all").ran("ruff check", 0).claude(tmp_path)
    fresh.write_text(lines + fresh.read_text(encoding="utf-8"), encoding="utf-8")
    prompts = sorted(one.prompt for one in requests_in(tmp_path))
    assert prompts == ["Lint it all", "Run the tests"]


def test_sessions_of_other_projects_can_be_left_out(tmp_path):
    shop, other = tmp_path / "shop", tmp_path / "shop-two"
    shop.mkdir()
    talk(name="a", project=str(shop / "api")).user("Run the tests").claude(tmp_path)
    talk(name="b", project=str(other)).user("Run the specs").codex(tmp_path)
    found = read_sessions([tmp_path], shop)
    assert [one.client for one in found.sessions] == ["claude"]
    assert found.left_out.counts["sessions of other projects"] == 1


def test_the_usual_folders_are_those_of_the_clients(tmp_path):
    for name in (".claude/projects", ".local/share/opencode/storage", "own/sessions"):
        (tmp_path / name).mkdir(parents=True)
    found = default_folders({"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "own")})
    assert [one.relative_to(tmp_path).as_posix() for one in found] == [
        ".claude/projects",
        "own/sessions",
        ".local/share/opencode/storage",
    ]


# Hostile logs.


def test_damaged_lines_are_counted_and_the_others_read(tmp_path):
    path = talk().user("Run the tests").ran("pytest", 0).claude(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    bad = [
        b"{not json}\n",
        b"[1, 2]\n",
        b'"text"\n',
        b"\xff\xfe\x00 caf\xe9\n",
        b'{"type": "user", "message": "\x07\x1b[2J"}\n',
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"\n",
        b'{"type": "user", "x": "' + b"x" * LONGEST_LINE + b'"}\n',
        b'{"type": "new-kind", "payload": {}}\n',
        b'{"type": ["user"], "message": {"content": {"a": [1]}}}\n',
        b"\n",
    ]
    mixed = [piece for pair in zip(lines, bad, strict=False) for piece in pair]
    path.write_bytes(b"".join([*mixed, *bad[len(lines) :], b'{"type": "user", "mess']))
    assert [one.prompt for one in requests_in(tmp_path)] == ["Run the tests"]
    counts = read_sessions([tmp_path]).left_out.counts
    assert counts["lines: no JSON"] == 4
    assert counts["lines: no object"] == 2
    assert counts["lines: too long"] == 1
    assert counts["lines: cut"] == 1
    assert counts["lines: unknown type"] == 2


def test_damaged_documents_are_counted(tmp_path):
    whole = talk().user("Run the tests").export(tmp_path).read_bytes()
    (tmp_path / "cut.json").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "list.json").write_bytes(b"[]")
    (tmp_path / "other.json").write_bytes(b'{"info": 1, "messages": {}}')
    (tmp_path / "notes.txt").write_bytes(b"hello")
    found = read_sessions([tmp_path])
    assert len(found.sessions) == 1
    assert found.left_out.counts["files: cut, or no JSON"] == 1
    assert found.left_out.counts["files in a form that is not known"] == 2
    assert found.left_out.counts["files that are no logs"] == 1


def test_links_pipes_and_ids_lead_nowhere(tmp_path):
    secret = tmp_path / "elsewhere"
    talk(name="outside").user("Read my diary").claude(secret)
    talk(name="inner").user("Open the drawer").tree(secret)
    logs = tmp_path / "logs"
    good = talk(name="good").user("Run the tests").claude(logs)
    (logs / "link.jsonl").symlink_to(secret / "claude" / "outside.jsonl")
    (logs / "folder").symlink_to(secret)
    (logs / "circle").symlink_to(logs)
    os.mkfifo(logs / "pipe.jsonl")
    session = logs / "storage" / "session" / "global" / "x.json"
    session.parent.mkdir(parents=True)
    session.write_text(json.dumps({"id": "../../../elsewhere/opencode/storage/message/inner"}))
    found = read_sessions([logs])
    assert [requests_of(one)[0].prompt for one in found.sessions] == ["Run the tests"]
    assert found.left_out.counts["links, which are not followed"] == 3
    assert found.left_out.counts["pipes and devices"] == 1
    assert good.is_file()


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"there is no folder .*nowhere"):
        read_sessions([tmp_path / "nowhere"])


def many_lines(folder, count):
    path = talk().user("Continue").claude(folder)
    line = path.read_text(encoding="utf-8").splitlines()[1]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(line.replace('-0-0"', f'-{number}-0"') + "\n")
    return path.stat().st_size


def test_of_a_hundred_thousand_lines_the_first_are_kept_and_the_others_counted(tmp_path):
    many_lines(tmp_path, 100_000)
    found = read_sessions([tmp_path])
    assert len(found.sessions[0].events) == MOST_EVENTS
    assert found.left_out.counts[f"events beyond {MOST_EVENTS:,} of a session"] == 98_000


def test_a_log_is_read_in_a_part_of_its_size(tmp_path):
    size = many_lines(tmp_path, 10_000)
    tracemalloc.start()
    read_sessions([tmp_path])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "content", "id", "name", "input", "output", "role"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
LINES = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant", "event_msg", "response_item"]) | VALUES},
    optional={
        "message": st.fixed_dictionaries({"content": VALUES}) | VALUES,
        "payload": st.fixed_dictionaries(
            {
                "type": st.sampled_from(["user_message", "function_call", "function_call_output"]),
                "message": VALUES,
                "output": VALUES,
                "arguments": VALUES,
                "call_id": VALUES,
            }
        ),
        "uuid": VALUES,
        "timestamp": VALUES,
        "cwd": VALUES,
        "sessionId": VALUES,
    },
)


@given(st.lists(LINES, max_size=8))
def test_no_line_of_any_form_raises(lines):
    for read, client in ((ClaudeLines().read, "claude"), (read_codex_line, "codex")):
        into = Recorder(client, LeftOut(), "here")
        for line in lines:
            read(line, into, LeftOut(), "here")
        session = into.session()
        if session is not None:
            requests_of(session)


def test_events_hold_sentences_and_heads_of_commands_alone(tmp_path):
    said = talk().user("Run the tests for the cart").ran("npm test -- --grep=x /etc/passwd", 0)
    said.ran("printf %s unheard > file", 0).claude(tmp_path)
    (session,) = read_sessions([tmp_path]).sessions
    assert session.events == (
        Said(("Run the tests for the cart",), True),
        Ran("npm test", 0),
        Ran("", 0),
    )
