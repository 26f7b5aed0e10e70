"""Read the results of other programs, as one side of a comparison.

Tables (CSV, TSV, JSON, JSON Lines, Parquet) have a row per attempt, as MLflow's exports do. Logs of
inspect_ai, outputs of promptfoo and benchmarks of evals.json (``benchmark.json``) have formats of
their own. An error of a model or a program is a fault, and not a score.
"""

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from skillwright.core import DataError, Usage, did_you_mean
from skillwright.core.jsonio import dumps, read_text
from skillwright.datasets.rows import Table

MOST_BYTES: Final = 500_000_000
_TABLES: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
SUFFIXES: Final = (*_TABLES, ".json", ".eval")
"""Suffixes of files that a comparison reads."""

_IDS: Final = (
    *("id", "task_id", "case_id", "doc_id", "eval_id", "sample_id", "question_id", "test_id"),
    *("task", "case", "eval_name", "test", "name", "index", "row", "trace_id"),
    *("input", "inputs", "question", "prompt", "query", "request"),
)
_SCORES: Final = (
    *("success", "passed", "pass", "correct", "solved", "is_correct", "score", "reward"),
    *("accuracy", "acc", "grade", "result", "outcome", "hard", "exact_match", "pass_rate"),
)
_SCORE: Final = re.compile(r"(^|[/_. ])(score|value|passed|correct|success)$")
_QUESTIONS: Final = ("question", "input", "inputs", "query")
_TYPES: Final = ("task_type", "category", "type", "group", "tag")
_FAULTS: Final = ("error", "error_message", "exception", "fault", "failure")
_TOKENS: Final = ("total_tokens", "tokens", "token_count", "tokens_used", "tokens_total")
_INPUT: Final = ("input_tokens", "prompt_tokens", "tokens_in", "tokens_prompt")
_OUTPUT: Final = ("output_tokens", "completion_tokens", "tokens_out", "tokens_completion")
_COSTS: Final = ("cost_usd", "cost", "total_cost", "total_cost_usd", "price_usd")
_YES: Final = {"true", "yes", "pass", "passed", "correct", "c", "success", "solved", "ok"}
_NO: Final = {"false", "no", "fail", "failed", "incorrect", "i", "wrong", "unsolved", "n"}
_UNKNOWN: Final = {"", "nan", "null", "none", "n/a", "na", "error", "errored", "skipped"}
_PROMPTFOO: Final = re.compile(r"\[(PASS|FAIL|ERROR)\]")


@dataclass(frozen=True, slots=True)
class ForeignAttempt:
    """One attempt in another program's results.

    Attributes:
        task: The id of its task.
        score: In [0, 1]; ``None`` with a fault.
        success: Whether it succeeded, if the file says so; else ``None``.
        fault: Why it has no score, or "".
        question: What the task asks, or "" if the file does not say.
        usage: Tokens and cost; zero tokens and ``None`` cost if the file does not say.
    """

    task: str
    score: float | None
    success: bool | None = None
    fault: str = ""
    task_type: str = ""
    question: str = ""
    usage: Usage = field(default_factory=lambda: Usage(cost_usd=None))


@dataclass(frozen=True, slots=True)
class ForeignResults:
    """The results of a file.

    Attributes:
        program: What wrote it, as displayed.
        chosen: The scorer, configuration, provider or column that was read; "" if there is one.
    """

    program: str
    chosen: str
    attempts: tuple[ForeignAttempt, ...]


def read_results(path: Path, option: str, chosen: str | None) -> ForeignResults:
    """Read a file of results.

    Args:
        path: The file, with one of `SUFFIXES`.
        option: The option that chooses among several results, for errors.
        chosen: The scorer, configuration, provider or column to read; ``None`` for the only one.

    Raises:
        DataError: The file is damaged, of no known format, or has no scores; or it holds several
            results, and none or an unknown one is chosen.
    """
    choose = _Chooser(path, option, chosen)
    if path.stat().st_size > MOST_BYTES:
        raise DataError(f"{str(path)!r} has more than {MOST_BYTES // 10**6:,} MB; split it")
    if path.suffix.lower() in _TABLES:
        results = _table(list(Table(path).rows()), "a table", choose)
    elif path.suffix.lower() == ".eval":
        raise DataError(
            f"{str(path)!r} is a compressed log. Convert it with:  inspect log convert "
            f"{shlex.quote(str(path))} --to json --output-dir ."
        )
    else:
        results = _document(_parsed(path), choose)
    if all(one.score is None for one in results.attempts):
        raise DataError(f"{str(path)!r} has no scores: {_why_none(results.attempts)}")
    return results


@dataclass(frozen=True, slots=True)
class _Chooser:
    """Chooses one of several results in a file."""

    path: Path
    option: str
    chosen: str | None

    def of(self, names: Iterable[str], what: str) -> str:
        known = list(dict.fromkeys(names))
        if self.chosen is None and len(known) == 1:
            return known[0]
        listed = ", ".join(map(repr, known[:12]))
        if self.chosen is None:
            raise DataError(
                f"{str(self.path)!r} holds several {what}s ({listed}); name one with {self.option}"
            )
        if self.chosen not in known:
            raise DataError(
                f"{self.option}: {str(self.path)!r} has no {what} {self.chosen!r}. "
                f"{did_you_mean(self.chosen, known)}"
            )
        return self.chosen

    def refuse(self, problem: str) -> DataError:
        return DataError(f"{str(self.path)!r}: {problem}")


def _why_none(attempts: Sequence[ForeignAttempt]) -> str:
    faults = [one.fault for one in attempts if one.fault]
    return f"every attempt has a fault, such as: {faults[0]:.200}" if faults else "it is empty"


def _parsed(path: Path) -> Any:
    try:
        # Python's own writer leaves NaN in JSON, which is a missing score.
        return json.loads(read_text(path, "results").removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{str(path)!r} is no JSON: {error}") from error


def _document(found: Any, choose: _Chooser) -> ForeignResults:
    """Tell formats of JSON apart, and read one."""
    if isinstance(found, Mapping):
        if isinstance(found.get("eval"), Mapping) and "status" in found:
            return _inspect(found, choose)
        if isinstance(found.get("columns"), list) and isinstance(found.get("data"), list):
            return _table(_split(found, choose), "MLflow", choose)
        outer = found.get("results")
        inner = outer.get("results") if isinstance(outer, Mapping) else outer
        if isinstance(inner, list) and all(_is_promptfoo(one) for one in inner) and inner:
            return _promptfoo(inner, choose)
        if isinstance(found.get("runs"), list):
            return _benchmark(found["runs"], choose)
        for name in ("results", "rows", "data", "cases", "samples"):
            if isinstance(found.get(name), list):
                return _table(found[name], "a table", choose)
    if isinstance(found, list):
        return _table(found, "a table", choose)
    raise choose.refuse(
        "no results are known in it. Known are tables of attempts with an id and a score, logs "
        "of inspect_ai, outputs of promptfoo, eval_results_table.json of MLflow, and "
        "benchmark.json of evals.json"
    )


def _split(found: Mapping[str, Any], choose: _Chooser) -> list[dict[str, Any]]:
    names = list(map(str, found["columns"]))
    for number, row in enumerate(found["data"], start=1):
        if not isinstance(row, list) or len(row) != len(names):
            raise choose.refuse(f"row {number} of 'data' does not fit the {len(names)} columns")
    return [dict(zip(names, row, strict=True)) for row in found["data"]]


def _table(rows: Sequence[Any], program: str, choose: _Chooser) -> ForeignResults:
    """Read rows of attempts."""
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise choose.refuse(f"row {number} is {row!r:.60}, not an object")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if not rows:
        raise choose.refuse("it has no rows")
    named = {name.strip().lower(): name for name in reversed(columns)}
    marked = [name for name in columns if _is_marked(row.get(name) for row in rows)]
    scores = marked or [one for one in columns if _is_score(one)]
    if choose.chosen is None:
        # A success or score of its own stands for the row; the others are parts of it.
        scores = [named[one] for one in _SCORES if one in named][:1] or scores
    elif choose.chosen in columns:
        scores = [choose.chosen]
    ids = next((named[one] for one in _IDS if one in named and named[one] not in scores), None)
    if marked:  # promptfoo writes the variables first
        ids = next((one for one in columns if one not in marked), None)
    if not scores or ids is None:
        lacks = "a score" if not scores else "an id of the task"
        such = "success, score or reward" if not scores else "id, task_id or question"
        raise choose.refuse(
            f"no column has {lacks}. Name one {such}, or another with {choose.option}; it has: "
            f"{', '.join(map(repr, columns[:12]))}"
        )
    score = choose.of(scores, "score")
    read = _RowReader(choose, named, ids, score, is_marked=score in marked)
    attempts = tuple(read.attempt(number, row) for number, row in enumerate(rows, start=1))
    return ForeignResults(program, score if len(scores) > 1 or choose.chosen else "", attempts)


def _is_score(name: str) -> bool:
    plain = name.strip().lower()
    return plain in _SCORES or bool(_SCORE.search(plain))


def _is_marked(cells: Iterable[Any]) -> bool:
    """Tell whether cells are those of promptfoo's CSV: ``[PASS] the output``."""
    known = [str(one) for one in cells if one not in (None, "")]
    return bool(known) and all(_PROMPTFOO.match(one) for one in known)


@dataclass(frozen=True, slots=True)
class _RowReader:
    choose: _Chooser
    named: Mapping[str, str]
    id: str
    score: str
    is_marked: bool

    def attempt(self, number: int, row: Mapping[str, Any]) -> ForeignAttempt:
        fault = str(self._first(row, _FAULTS) or "")
        value = row.get(self.score)
        if self.is_marked:
            found = _PROMPTFOO.match(str(value or ""))
            value = found[1].lower() if found else ""
        task = row.get(self.id)
        if task is None or task == "":
            raise self.choose.refuse(f"row {number} has nothing in {self.id!r}, the task's id")
        score = None if fault else self._score(number, value)
        return ForeignAttempt(
            task=_text(task),
            score=score,
            fault=(fault or f"row {number} has no score") if score is None else "",
            task_type=str(self._first(row, _TYPES) or ""),
            question=_text(self._first(row, _QUESTIONS)),
            usage=self._usage(row),
        )

    def _score(self, number: int, value: Any) -> float | None:
        where = f"row {number}, column {self.score!r}"
        return score_of(value, where, self.choose)

    def _usage(self, row: Mapping[str, Any]) -> Usage:
        into, out = (_number(self._first(row, names)) for names in (_INPUT, _OUTPUT))
        if into is None and out is None:
            into = _number(self._first(row, _TOKENS))
        return usage_of(into, out, _number(self._first(row, _COSTS)))

    def _first(self, row: Mapping[str, Any], names: Sequence[str]) -> Any:
        found = (row.get(self.named[one]) for one in names if one in self.named)
        return next((one for one in found if one not in (None, "")), None)


def _text(value: Any) -> str:
    """Return a string as it is, nothing as "", and anything else as JSON."""
    return value if isinstance(value, str) else "" if value is None else dumps(value)


def score_of(value: Any, where: str, choose: _Chooser) -> float | None:
    """Return a score in [0, 1]; ``None`` for a missing one.

    Raises:
        DataError: The value is no score, or is outside [0, 1].
    """
    if isinstance(value, Mapping):
        value = value.get("value", value.get("score"))
    if isinstance(value, bool):
        return float(value)
    text = str(value).strip().lower() if value is not None else ""
    if text in _UNKNOWN:
        return None
    if text in _YES or text in _NO:
        return float(text in _YES)
    if text == "p":  # inspect_ai: partially correct
        return 0.5
    share = text.endswith("%")
    # A comma is the decimal point of many languages; no score is in the thousands.
    number = _number(text.removesuffix("%").replace(",", "."))
    if number is None:
        raise choose.refuse(f"{where} holds {value!r:.60}, which is no score")
    number = number / 100 if share else number
    if not 0 <= number <= 1:
        raise choose.refuse(
            f"{where} holds {value!r}, and scores from 0 to 1 are compared. Divide the scores by "
            f"the largest possible one, or choose others with {choose.option}"
        )
    return number


def _number(value: Any) -> float | None:
    try:
        number = float(str(value).replace("$", "").strip())
    except ValueError:
        return None
    return number if number == number else None  # NaN


def usage_of(into: float | None, out: float | None, cost: float | None) -> Usage:
    """Return the usage of an attempt; what is unknown is 0 tokens, or a cost of ``None``."""
    return Usage(
        calls=1, input_tokens=round(into or 0), output_tokens=round(out or 0), cost_usd=cost
    )


def _inspect(log: Mapping[str, Any], choose: _Chooser) -> ForeignResults:
    samples = log.get("samples")
    if not isinstance(samples, list) or not samples:
        raise choose.refuse("the log has no samples; it was written with --no-log-samples")
    scorers = {name: 0 for one in samples for name in (one.get("scores") or {})}
    scorer = choose.of(scorers, "scorer") if scorers else ""
    attempts = []
    for one in samples:
        error, score = one.get("error"), None
        where = f"sample {one.get('id')!r}"
        given = (one.get("scores") or {}).get(scorer)
        if not error and given is not None:
            score = score_of(given, where, choose)
        fault = error.get("message", "error") if isinstance(error, Mapping) else str(error or "")
        usages = (one.get("model_usage") or {}).values()
        costs = [each.get("total_cost") for each in usages]
        attempts.append(
            ForeignAttempt(
                task=str(one.get("id")),
                score=score,
                fault="" if score is not None else fault or f"{where} has no score",
                question=_text(one.get("input")),
                usage=usage_of(
                    sum(each.get("input_tokens") or 0 for each in usages),
                    sum(each.get("output_tokens") or 0 for each in usages),
                    None if None in costs or not costs else sum(costs),
                ),
            )
        )
    return ForeignResults("inspect_ai", scorer if len(scorers) > 1 else "", tuple(attempts))


def _is_promptfoo(row: Any) -> bool:
    return isinstance(row, Mapping) and ("testIdx" in row or {"success", "vars"} <= row.keys())


def _promptfoo(rows: Sequence[Mapping[str, Any]], choose: _Chooser) -> ForeignResults:
    named = _promptfoo_names(rows)
    chosen = choose.of(named, "provider or prompt")
    attempts = []
    for one in named[chosen]:
        error = one.get("error") if one.get("failureReason") != 1 else None
        response = one.get("response") if isinstance(one.get("response"), Mapping) else {}
        tokens = one.get("tokenUsage") or (response or {}).get("tokenUsage") or {}
        is_fault = bool(error) and not one.get("success")
        score = None if is_fault else score_of(one.get("score"), "a result", choose)
        case = one.get("testCase") or {}
        task = case.get("description") or one.get("description") or one.get("testIdx")
        attempts.append(
            ForeignAttempt(
                task=str(dumps(one.get("vars")) if task is None else task),
                score=score,
                success=None if is_fault else bool(one.get("success")),
                fault=str(error or "no score") if score is None else "",
                question=_text(one.get("vars")),
                usage=usage_of(
                    tokens.get("prompt", tokens.get("total")),
                    tokens.get("completion"),
                    one.get("cost", (response or {}).get("cost")),
                ),
            )
        )
    return ForeignResults("promptfoo", chosen if len(named) > 1 else "", tuple(attempts))


def _promptfoo_names(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Group rows by provider, by prompt, or by both, whichever tells them apart."""
    found: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for one in rows:
        provider, prompt = one.get("provider"), one.get("prompt")
        if isinstance(provider, Mapping):
            provider = provider.get("label") or provider.get("id")
        if isinstance(prompt, Mapping):
            prompt = prompt.get("label") or prompt.get("raw")
        found[str(provider or ""), str(prompt or "")].append(one)
    for part in (0, 1):
        if len({key[part] for key in found}) == len(found):
            return {key[part] or "results": each for key, each in found.items()}
    return {" ".join(key): each for key, each in found.items()}


def _benchmark(runs: Sequence[Any], choose: _Chooser) -> ForeignResults:
    """Read the runs of a skill's evals, with and without the skill."""
    for number, one in enumerate(runs, start=1):
        if not isinstance(one, Mapping) or not {"eval_id", "eval_name", "id"} & one.keys():
            raise choose.refuse(f"run {number} has no 'eval_id'")
    chosen = choose.of((str(one.get("configuration", "")) for one in runs), "configuration")
    attempts = tuple(_evals(runs, chosen, choose))
    several = len({str(one.get("configuration", "")) for one in runs}) > 1
    return ForeignResults("evals.json", chosen if several else "", attempts)


def _evals(
    runs: Sequence[Mapping[str, Any]], chosen: str, choose: _Chooser
) -> Iterator[ForeignAttempt]:
    for one in runs:
        if str(one.get("configuration", "")) != chosen:
            continue
        inner = one.get("result")
        result = inner if isinstance(inner, Mapping) else one
        task = next(str(one[name]) for name in ("eval_id", "id", "eval_name") if name in one)
        rate = result.get("pass_rate", result.get("passed"))
        if "pass_rate" not in result and result.get("total"):
            rate = result.get("passed", 0) / result["total"]
        score = score_of(rate, f"eval {task!r}", choose)
        yield ForeignAttempt(
            task=task,
            score=score,
            fault=str(result.get("error") or "no pass rate") if score is None else "",
            usage=usage_of(
                _number(result.get("tokens", result.get("tokens_used"))),
                None,
                _number(result.get("cost_usd", result.get("cost"))),
            ),
        )
