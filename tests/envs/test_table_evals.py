"""The evals of a skill (``evals/evals.json`` and its dialects) are rows with assertions."""

import json

import pytest

from mock_openai import MockOpenAI, completion, replies
from skillwright.config.run import validated
from skillwright.core import DataError, JudgeError
from skillwright.datasets.rows import Table
from skillwright.envs.table import TableEnv
from skillwright.jobs.run import make_splits, side_models


@pytest.fixture
def evals(tmp_path):
    """Write a file of evals into a skill's folder."""

    def write(content, name="evals.json"):
        path = tmp_path / "notes" / "evals" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def rows(path):
    return list(Table(path).rows())


def checks(path):
    return [one for row in rows(path) for one in row["assertions"]["checks"]]


LLMS = {
    "target": {"backend": "scripted", "model": "clerk"},
    "optimizer": {"backend": "scripted", "model": "clerk_analyst"},
}
CASE = {"id": 0, "prompt": "Summarize.", "expectations": ["Names the owner"]}
DIALECTS = [
    {"skill_name": "notes", "evals": [CASE]},
    {"cases": [CASE]},
    [CASE],
    {"skill_name": "notes", "evals": [{**CASE, "assertions": CASE["expectations"]}]},
    [{**CASE, "expectations": [{"text": "Names the owner", "passed": None}]}],
    [{**CASE, "expectations": [], "assertions": [{"id": "a1", "description": "Names the owner"}]}],
    {"scenarios": [{"name": "0", "prompt": "Summarize.", "rubric": "Names the owner"}]},
    [{"id": 0, "query": "Summarize.", "expected_behavior": ["Names the owner"]}],
]


@pytest.mark.parametrize("document", DIALECTS)
def test_each_dialect_gives_the_same_row(evals, document):
    (row,) = rows(evals(document))
    assert (row["id"], row["prompt"]) == ("0", "Summarize.")
    assert {one["text"] for one in row["assertions"]["checks"]} == {"Names the owner"}
    assert row["assertions"]["problem"] == ["", ""]


def test_cases_of_json_lines_and_other_forms_of_assertions_and_files(evals):
    case = {
        "prompt": "Greet.",
        "assert": [
            {"type": "icontains", "value": "ann"},
            {"type": "llm-rubric", "value": "is polite"},
            {"type": "javascript", "value": "output.length < 9"},
        ],
        "files": {"a.txt": "Ann"},
    }
    (row,) = rows(evals(json.dumps(case), "evals.jsonl"))
    assert row["prompt"] == "Greet.\n\nFile a.txt:\n\n```\nAnn\n```"
    texts = [one["text"] for one in row["assertions"]["checks"]]
    assert texts == ["contains 'ann'", "is polite"]
    assert row["assertions"]["left_out"] == ["of an unknown type (javascript)"]


def test_a_plain_list_of_rows_stays_one_and_so_do_queries(evals, tmp_path):
    plain = tmp_path / "data.json"
    plain.write_text(json.dumps([{"prompt": "2 + 2?", "expected_output": "4"}]))
    assert rows(plain) == [{"prompt": "2 + 2?", "expected_output": "4"}]
    (row,) = rows(evals([{"prompt": "Write a haiku.", "expected_output": "A haiku"}]))
    assert row["assertions"]["checks"] == [{"text": "The reply fits this description: A haiku"}]
    query = {"query": "Sum up my notes", "should_trigger": True}
    for document in ([query], {"evals": [{"prompt": query["query"], "should_trigger": True}]}):
        assert rows(evals(document)) == [query]


@pytest.mark.parametrize(
    ("assertion", "right", "wrong"),
    [
        ({"type": "contains", "value": "ann"}, "Ask ANN", "Ask Bob"),
        ({"type": "contains", "text": "Ann"}, "Ann", "Bob"),
        ({"type": "output_contains", "value": "Ann"}, "ann", "Bob"),
        ({"type": "contains_any", "values": ["Ann", "Bob"]}, "Bob", "Carl"),
        ({"type": "not_contains", "value": "Ann"}, "Bob", "Ann"),
        ({"type": "output_not_contains", "value": "Ann"}, "Bob", "Ann"),
        ({"type": "regex", "pattern": r"\d{3}"}, "a 123", "a 12"),
        ({"type": "output_matches", "pattern": "(ann|bob)"}, "BOB", "Carl"),
        ({"type": "output_not_matches", "pattern": "ann"}, "Bob", "ANN"),
        ({"type": "equals", "value": "42"}, " 42 ", "421"),
        ({"type": "starts-with", "value": "Dear"}, "Dear Ann", "Hi, dear"),
        ({"type": "ends_with", "value": "Yours"}, "Dear. Yours", "Yours, Ann"),
    ],
)
async def test_an_assertion_with_a_rule_is_checked_by_it(evals, assertion, right, wrong):
    path = evals([{"prompt": "Write.", "assertions": [assertion]}])
    (row,) = rows(path)
    for reply, reward in ((right, 1.0), (wrong, 0.0)):
        env = TableEnv({"scorer": "assertions"}, {"row": row})
        env.init([])
        assert (await env.astep(reply))["reward"] == reward


async def test_must_include_and_must_avoid_are_rules_and_the_score_is_the_share_that_holds(evals):
    case = {"prompt": "Price?", "must_include": ["one", ["two", "2"]], "must_avoid": "list"}
    (row,) = rows(evals({"cases": [case]}))
    env = TableEnv({"scorer": "assertions"}, {"row": row})
    env.init([])
    step = await env.astep("One of the list price.")
    assert step["reward"] == pytest.approx(1 / 3)
    assert "Not: has 'two or 2'; lacks 'list'" in step["metadata"]["observation"]


def test_scenarios_of_yaml_are_rows(evals):
    path = evals(
        "scenarios:\n"
        "  - name: greets\n"
        "    prompt: |\n      Greet Ann.\n"
        "    setup:\n      files:\n"
        "        - path: a.cs\n          content: |\n            ```x```\n"
        "    assertions:\n"
        "      - type: output_contains\n        value: Ann\n"
        "      - type: file_contains\n        path: out.txt\n        value: Ann\n"
        "      - type: exit_success\n"
        "    rubric:\n      - friendly\n"
        "    expect_tools: [bash]\n"
        "    timeout: 30\n",
        "eval.yaml",
    )
    (row,) = rows(path)
    assert row["id"] == "greets"
    assert row["prompt"] == "Greet Ann.\n\nFile a.cs:\n\n````\n```x```\n````"
    assert [one["text"] for one in row["assertions"]["checks"]] == ["contains 'Ann'", "friendly"]
    assert row["assertions"]["left_out"] == [
        "about more than the reply (file_contains)",
        "about more than the reply (exit_success)",
        "about tools that the agent calls",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"skill_name": "x", "evals": []}, "holds no cases"),
        ({"evals": [{"id": 1}]}, "case 1 has no prompt"),
        ({"evals": [{"prompt": " "}]}, "case 1 has no prompt"),
        ({"evals": ["Summarize."]}, "case 1 is 'Summarize.', not an object"),
        ("", "is no JSON"),
        ({"skill_name": "x"}, "holds no list of rows"),
    ],
)
def test_evals_that_are_none_are_refused(evals, content, said):
    with pytest.raises(DataError, match=said):
        rows(evals(content))


def test_yaml_without_evals_is_refused(evals):
    for content, said in (("a: 1", "holds no evals of a skill"), ("a: [", "is no YAML")):
        with pytest.raises(DataError, match=said):
            rows(evals(content, "eval.yaml"))


@pytest.fixture
def splits(evals):
    """Read the tasks of evals with a scorer."""

    def read(document, scorer="assertions", ratio="0:0:1"):
        data = {"path": str(evals(document)), "ratio": ratio}
        config = {"env": {"name": "table", "config": {"scorer": scorer}, "data": data}}
        return make_splits(validated({**config, "models": LLMS}, "the test"))

    return read


BY_RULE = {"prompt": "Greet Ann.", "assertions": [{"type": "contains", "value": "Ann"}, "Polite"]}


async def test_what_cannot_be_checked_is_left_out_by_cause_and_count(splits, evals, caplog):
    evals("", "a.txt").write_bytes(b"\xff")
    cases = [
        BY_RULE,
        {"id": "j", "prompt": "A haiku.", "expected_output": "A haiku"},
        {"id": "f", "prompt": "Read.", "files": ["evals/no.txt"], "must_include": "x"},
        {"id": "o", "prompt": "Read it.", "files": ["../../out.txt"], "must_include": "x"},
        {"id": "b", "prompt": "Read.", "files": ["evals/a.txt"], "must_include": "x"},
        {"id": "n", "prompt": "Nothing."},
        {"id": "t", "prompt": "Open?", "should_trigger": False},
        {"id": "e", "prompt": "Open it?", "expect_activation": False, "must_include": "x"},
    ]
    found = splits({"evals": cases})
    assert {task.id for task in found.test.open()} == {"1", "e"}
    for said in (
        "1 case left out (j): all assertions are for a judge, and env.config.scorer.model names",
        "2 cases left out (f: evals/no.txt, o: ../../out.txt): a file is missing",
        "1 case left out (b: evals/a.txt): a file is no UTF-8 text",
        "1 case left out (n): without an assertion",
        "1 case left out (t): only for the description",
        "1 assertion left out: for a judge",
        "1 assertion left out: about whether the agent opens the skill",
    ):
        assert said in caplog.text, caplog.text


def test_a_skills_folder_is_read_as_its_evals(splits, evals):
    path = evals({"evals": [BY_RULE]})
    (path.parent.parent / "SKILL.md").write_text("---\nname: notes\ndescription: x\n---\n")
    data = {"path": str(path.parent.parent), "ratio": "0:0:1"}
    env = {"name": "table", "config": {"scorer": "assertions"}, "data": data}
    assert len(make_splits(validated({"env": env, "models": LLMS}, "the test")).test) == 1


def test_a_file_outside_the_skill_is_not_read(splits, tmp_path, caplog):
    (tmp_path / "out.txt").write_text("4711")
    case = {"id": "o", "prompt": "Read it.", "files": ["../out.txt"], "must_include": "x"}
    splits({"evals": [BY_RULE, case]})
    assert "1 case left out (o: ../out.txt): a file lies outside" in caplog.text


def test_without_a_case_that_can_be_scored_the_run_is_refused(splits):
    with pytest.raises(DataError, match="no case can be scored: 1 case left out"):
        splits({"evals": [{"prompt": "A haiku.", "expected_output": "A haiku"}]})


def test_rows_without_assertions_are_no_cases(splits):
    with pytest.raises(DataError, match="'assertions'"):
        splits([{"prompt": "2 + 2?", "answer": "4"}])


def verdicts(*holds):
    found = [{"reasoning": "because", "met": one} for one in holds]
    return completion(json.dumps({"results": found}))


def judged_by(server, **more):
    model = {"backend": "openai_chat", "model": "judge-1", "base_url": server.base_url}
    return {"scorer": {"kind": "assertions", "model": model, **more}}


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mock")


async def test_the_rest_is_judged_one_by_one_and_the_agent_reads_no_assertion(evals):
    case = {**CASE, "expected_output": "One line", "must_include": "Ann"}
    case["expectations"] = ["Names the owner", "Has one line"]
    (row,) = rows(evals([case]))
    async with MockOpenAI(replies(verdicts(True, False))) as server:
        env = TableEnv({**judged_by(server), "on_wrong": "retry"}, {"row": row, "max_turns": 2})
        opening, _ = env.init([])
        step = await env.astep("Ann decides.\nToday.")
        (body,) = server.bodies
    said = " ".join(message["content"] for message in [*opening, *step["observations"]])
    assert not [one for one in ("owner", "one line", "One line", "must") if one in said]
    assert "2 of 3 assertions hold. Answer again." in said
    verdict = step["metadata"]["verdict"]
    assert verdict["score"] == pytest.approx(2 / 3)
    assert verdict["feedback"].endswith("Not: Has one line (because)")
    assert "1. Names the owner\n2. Has one line" in body["messages"][0]["content"]
    assert "One line" in body["messages"][1]["content"]
    assert "must_include" not in json.dumps(body)


async def test_most_votes_decide_and_a_wrong_number_of_verdicts_is_asked_for_again(evals):
    (row,) = rows(evals([CASE]))
    answers = (verdicts(True), verdicts(True, True), verdicts(False), verdicts(True))
    async with MockOpenAI(replies(*answers)) as server:
        env = TableEnv(judged_by(server, votes=3), {"row": row})
        env.init([])
        assert (await env.astep("Ann decides."))["reward"] == 1.0
        assert env.get_usage()["judge"].calls == 4


async def test_a_judge_that_gives_no_verdict_is_a_fault_and_no_zero(evals):
    (row,) = rows(evals([CASE]))
    async with MockOpenAI(replies(*["no"] * 9)) as server:
        env = TableEnv(judged_by(server), {"row": row})
        env.init([])
        with pytest.raises(JudgeError, match="the judge gave no verdict"):
            await env.astep("Ann decides.")


def test_the_judge_is_among_the_models_of_a_run(evals):
    scorer = {"kind": "assertions", "model": {"backend": "openai_chat", "model": "judge-1"}}
    env = {"name": "table", "config": {"scorer": scorer}, "data": {"path": str(evals([CASE]))}}
    found = side_models(validated({"env": env, "models": LLMS}, "the test").env)
    assert "judge-1" in repr(found)
