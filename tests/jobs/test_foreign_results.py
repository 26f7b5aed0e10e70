"""Results of other programs are sides of a comparison, with what they say of tokens and costs."""

import json

import pytest

from doors import ALL_RULES, Walker, doors_config, evaluated, look
from skillwright.core import DataError, RunError
from skillwright.jobs.inspect import compare_runs
from skillwright.jobs.text import EvalPlan


@pytest.fixture
def write(tmp_path):
    """Write a file of results: text as it is, anything else as JSON."""

    def write(name, found):
        path = tmp_path / name
        path.write_text(found if isinstance(found, str) else json.dumps(found))
        return path

    return write


def table(rate, tasks=20, **columns):
    """Return a CSV of tasks, of which the first ``rate`` are solved."""
    head = ",".join(["task_id", "passed", *columns])
    rows = [
        ",".join(map(str, [f"t{n}", str(n < rate * tasks).lower(), *columns.values()]))
        for n in range(tasks)
    ]
    return "\n".join([head, *rows]) + "\n"


def inspect_log(solved, tokens=100, cost=None, **sample):
    usage = {"input_tokens": tokens, "output_tokens": 10, "total_tokens": tokens + 10}
    usage |= {} if cost is None else {"total_cost": cost}
    samples = [
        {
            "id": number,
            "epoch": epoch,
            "scores": {"match": {"value": "C" if number in solved else "I"}},
            "model_usage": {"m": usage},
            **sample,
        }
        for number in range(12)
        for epoch in (1, 2)
    ]
    return {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": samples}


def promptfoo_row(test, provider, success, **more):
    return {
        "testIdx": test,
        "promptIdx": 0,
        "provider": {"id": provider, "label": ""},
        "prompt": {"raw": "{{q}}", "label": "p"},
        "vars": {"q": f"q{test}"},
        "success": success,
        "score": float(success),
        "response": {"output": "x", "tokenUsage": {"total": 30, "prompt": 20, "completion": 10}},
        "cost": 0.001 if provider == "small" else 0.004,
        "failureReason": 0 if success else 1,
        "error": None if success else "Expected output to contain x",
        **more,
    }


def benchmark_run(number, configuration, rate, tokens):
    result = {"pass_rate": rate, "passed": 1, "failed": 0, "total": 1, "tokens": tokens}
    return {"eval_id": number, "eval_name": "a", "configuration": configuration, "result": result}


def test_two_tables_are_paired_by_task_with_tokens_and_costs(write):
    a = write("a.csv", table(0.2, prompt_tokens=100, completion_tokens=5, cost="$0.010"))
    b = write("b.csv", table(0.9, prompt_tokens=200, completion_tokens=5, cost="$0.030"))
    found = compare_runs(a, b)
    assert found.result == "better"
    assert found.overall.effect == pytest.approx(0.7)
    assert (found.a.tokens, found.b.tokens) == (105, 205)
    assert (found.a.cost_usd, found.b.cost_usd) == pytest.approx((0.01, 0.03))
    assert found.notes == ("tasks of equal ids are taken to be the same",)


def test_equal_ids_of_other_questions_are_in_doubt(write):
    files = [
        write(
            f"{name}.csv", "id,question,score\n" + "".join(f"{n},{name}{n},1\n" for n in range(9))
        )
        for name in "ab"
    ]
    (note,) = compare_runs(*files).notes
    assert note.startswith("the questions of 9 of 9 common tasks differ ('0', '1', '2', ...)")
    same = write("c.csv", files[0].read_text())
    assert compare_runs(files[0], same).notes == ()


def test_a_log_of_inspect_ai_has_epochs_and_faults(write):
    a = inspect_log(range(2))
    a["samples"][0] |= {"scores": {}, "error": {"message": "rate limit"}}
    found = compare_runs(
        write("a.json", a), write("b.json", inspect_log(range(11), tokens=150, cost=0.002))
    )
    assert (found.a.failures, found.a.attempts, found.b.attempts) == (1, 23, 24)
    assert (found.overall.first, found.overall.second) == pytest.approx((2 / 12, 11 / 12))
    assert (found.a.tokens, found.b.tokens, found.a.cost_usd) == (110, 160, None)
    assert found.b.cost_usd == pytest.approx(0.002)


def test_the_providers_of_one_promptfoo_output_are_compared(write):
    rows = [promptfoo_row(n, "small", n < 4) for n in range(15)]
    rows += [promptfoo_row(n, "large", n < 14) for n in range(15)]
    rows[-1] |= {"failureReason": 2, "error": "503", "score": 0}
    path = write("out.json", {"evalId": "e", "results": {"version": 3, "results": rows}})
    found = compare_runs(path, path, skill_a="small", skill_b="large")
    assert (found.overall.tasks, found.b.failures) == (14, 1)
    assert found.result == "better"
    assert (found.a.tokens, found.b.cost_usd) == (30, pytest.approx(0.004))
    with pytest.raises(DataError, match=r"\('small', 'large'\); name one with --skill-a"):
        compare_runs(path, path)
    with pytest.raises(
        DataError, match=r"--skill-b: .* has no provider or prompt 'larg'. Did you mean"
    ):
        compare_runs(path, path, skill_a="small", skill_b="larg")
    with pytest.raises(RunError, match="A and B are the same"):
        compare_runs(path, path, skill_a="small", skill_b="small")


def test_a_csv_of_promptfoo_marks_each_output(write):
    rows = "".join(
        f'q{n},"[{mark}] text, more"\n' for n, mark in enumerate(["PASS", "FAIL", "ERROR"])
    )
    a, b = write("a.csv", f"q,[small] p\n{rows}"), write("b.csv", f"q,[small] p\n{rows}")
    found = compare_runs(a, b)
    assert (found.overall.tasks, found.overall.first, found.a.unscored) == (2, 0.5, 1)


def test_a_table_of_mlflow_has_several_scores(write):
    columns = ["inputs", "outputs", "exact_match/v1/score", "toxicity/v1/score", "token_count"]
    rows = [[f"q{n}", "x", n % 2, 0.01, 12] for n in range(10)]
    a = write("a.json", {"columns": columns, "data": rows})
    b = write("b.json", {"columns": columns, "data": [[*row[:2], 1, *row[3:]] for row in rows]})
    with pytest.raises(DataError, match=r"'exact_match/v1/score', 'toxicity/v1/score'"):
        compare_runs(a, b)
    name = "exact_match/v1/score"
    found = compare_runs(a, b, skill_a=name, skill_b=name)
    assert (found.overall.first, found.overall.second, found.a.tokens) == (0.5, 1.0, 12)


def test_the_runs_of_evals_with_and_without_a_skill_are_compared(write):
    runs = [benchmark_run(n, "without_skill", 0.4, 1000) for n in range(5)]
    runs += [benchmark_run(n, "with_skill", 1.0, 1500) for n in range(5)]
    path = write("benchmark.json", {"metadata": {}, "runs": runs, "run_summary": {}})
    found = compare_runs(path, path, skill_a="without_skill", skill_b="with_skill", metric="soft")
    assert (found.overall.first, found.overall.second) == pytest.approx((0.4, 1.0))
    assert (found.a.tokens, found.b.tokens) == (1000, 1500)


async def test_a_run_of_ours_is_compared_with_a_file(write, tmp_path):
    config = doors_config(tmp_path)
    path, _ = await evaluated(config, EvalPlan("test", 1), Walker(), skill=ALL_RULES)
    with look(path) as store:
        ids = [one.task_id for one in store.episodes()]
    file = write("theirs.csv", "id,score\n" + "".join(f"{one},0\n" for one in ids))
    found = compare_runs(file, path)
    assert (found.overall.effect, found.a.tokens, found.b.tokens) == (1.0, None, 10)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "{", "is no JSON"),
        ("a.json", "[]", "it has no rows"),
        ("a.json", "[1]", "row 1 is 1, not an object"),
        ("a.json", '{"x": 1}', "no results are known in it"),
        ("a.json", '{"eval": {}, "status": "success"}', "the log has no samples"),
        ("a.json", '{"columns": ["id", "score"], "data": [[1]]}', "row 1 of 'data' does not fit"),
        ("a.json", '{"runs": [{"result": {}}]}', "run 1 has no 'eval_id'"),
        ("a.csv", "name,text\nx,y\n", "no column has a score"),
        ("a.csv", "score\n1\n", "no column has an id"),
        ("a.csv", "id,score\n,1\n", "row 1 has nothing in 'id'"),
        ("a.csv", "id,score\nx,4\n", "scores from 0 to 1 are compared"),
        ("a.csv", "id,score\nx,good\n", "holds 'good', which is no score"),
        ("a.csv", "id,score,error\nx,,503\n", "every attempt has a fault, such as: 503"),
        ("a.eval", "PK", "inspect log convert"),
    ],
)
def test_a_file_without_results_is_refused_with_the_place(write, name, text, said):
    other = write("other.csv", table(0.5))
    with pytest.raises(DataError, match=said):
        compare_runs(write(name, text), other)


@pytest.mark.parametrize("text", ["85%", "0.85", " .85 ", "0,85"])
def test_a_share_is_read_as_people_write_it(write, text):
    path = write("a.csv", f"id;score\nx;{text}\ny;1\n")
    found = compare_runs(path, write("b.csv", "id,score\nx,1\ny,1\n"), metric="soft")
    assert found.overall.first == pytest.approx(0.925)
