"""Benchmarks decide by ratios, counts and shares; no clock of one machine decides anything."""

import ast
import importlib
import json
import math
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
CLOCK = re.compile(r"(_s|_ms|_us|_ns|_seconds|seconds|per_second)$")
SAME_UNIT = {"abs", "fmean", "max", "median", "min", "round", "sum"}
MADE_CHECKS = {"at_most", "at_least", "Check"}


@pytest.fixture
def part(monkeypatch):
    """Import a part of what benchmarks share, as they do."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.fixture
def measuring(part):
    return part("measuring")


def test_the_page_on_scale_has_the_tables_that_the_script_prints(part):
    scale = part("scale_sim")
    _, _, written = scale.PAGE.read_text("utf-8").partition(scale.MARK)
    assert written.strip() == "\n".join(scale.tables())


def test_the_simulated_network_agrees_with_the_exact_one(part):
    scale = part("scale_sim")
    assert scale.exact_rate(3.0, [1.0, 1.0], 1) == pytest.approx(1 / 5)
    assert scale.exact_rate(3.0, [1.0, 0.25], 60) == pytest.approx(1.0)
    exact = scale.exact_rate(3.0, [1.0, 0.5], 4)
    assert scale.simulated_rate(3.0, [1.0, 0.5], 4, 20_000, 1) == pytest.approx(exact, rel=0.03)


def scripts():
    return sorted([*FOLDER.glob("*.py"), *FOLDER.glob("*/*.py")])


def clocks(node):
    """Return the names in an expression that say of themselves that they are times.

    A quotient of two times is none, and what a function makes of a time is its own affair, except
    for those that choose or add up.
    """
    match node:
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in SAME_UNIT:
            return [found for one in arguments for found in clocks(one)]
        case ast.Call():
            return []
        case ast.BinOp(left=left, op=ast.Div(), right=right) if clocks(left) and clocks(right):
            return []
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [name] if CLOCK.search(name) else []
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return [name] if CLOCK.search(name) else []
        case _:
            return [found for one in ast.iter_child_nodes(node) for found in clocks(one)]


def is_constant(node):
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def is_decided_by_a_time(node):
    match node:
        case ast.Compare(left=left, comparators=others):
            sides = [left, *others]
            return any(map(is_constant, sides)) and any(map(clocks, sides))
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in MADE_CHECKS:
            return any(map(clocks, arguments[2:]))
    return False


def compared_times(source):
    """Return the lines that hold a time against a constant, or make a check of one."""
    nodes = ast.walk(ast.parse(source))
    return [node.lineno for node in nodes if is_decided_by_a_time(node)]


def test_no_benchmark_holds_a_time_against_a_constant():
    assert len(scripts()) > 15
    found = {path.name: compared_times(path.read_text(encoding="utf-8")) for path in scripts()}
    assert not {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize(
    "source",
    [
        "ok = wall_s <= 120",
        "ok = max(wall_s, 1) < 3",
        "ok = 1 and seconds < MOST_SECONDS",
        "ok = figures['step_us'] <= TARGETS",
        "ok = 0.2 > reading.update_s",
        "at_most('step', Kind.PLAIN, [step_ms], 1.0)",
    ],
)
def test_a_time_that_decides_would_be_found(source):
    assert compared_times(source) == [1]


@pytest.mark.parametrize(
    "source",
    [
        "ok = ratio <= MOST",
        "ok = wall_s / ideal_s <= 1.1",
        "at_most('step', Kind.PEER, ratios_of(ours_s, theirs_s), 0.8)",
        "report(checks, wall_s=round(wall_s, 1))",
        "wait = latency_s > other_s",
    ],
)
def test_what_is_no_verdict_over_a_time_is_left_alone(source):
    assert compared_times(source) == []


def test_every_benchmark_of_make_bench_ends_with_its_checks(part):
    everything = part("measuring.everything")
    files = {path.stem for path in FOLDER.glob("*.py")}
    assert files == {*everything.names(), *everything.BY_THEMSELVES}
    assert set(everything.OPTIONS) <= set(everything.names())
    for name in everything.names():
        source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
        assert "return report(" in source, name
        assert '"ok":' not in source, name
        assert "sys.exit(main())" in source, name


def test_seconds_are_no_kind_of_figure(measuring):
    assert not [kind for kind in measuring.Kind if re.search(r"second|\bms\b", kind)]


def test_the_median_decides_and_a_target_is_met_at_itself(measuring):
    at_most, at_least, kind = measuring.at_most, measuring.at_least, measuring.Kind.PEER
    assert at_most("a", kind, [9.0, 2.0, 1.0], 2).ok
    assert not at_most("a", kind, [2.1], 2).ok
    assert at_least("a", kind, [2.0, 0.0, 9.0], 2).ok
    assert not at_least("a", kind, [1.9], 2).ok
    assert not at_most("a", kind, [math.nan], 2).ok
    assert not at_least("a", kind, [math.nan], 2).ok
    with pytest.raises(ValueError, match="no reading; measure at least once"):
        at_most("a", kind, [], 2)


def test_the_spread_is_that_of_quartiles_or_of_a_few_readings_whole(measuring):
    kind = measuring.Kind.PEER
    assert measuring.at_most("a", kind, [3.0, 1.0], 2).spread == (1.0, 3.0)
    assert measuring.at_most("a", kind, [1.0, 2.0, 3.0, 4.0, 5.0], 2).spread == (1.5, 4.5)


def test_a_report_ends_with_one_json_line_and_its_exit_code_is_the_verdict(measuring, capsys):
    kept = measuring.at_most("a", measuring.Kind.PEER, [1.0], 2)
    missed = measuring.at_least("b", measuring.Kind.SHARE, [0.5], 0.9)
    assert measuring.report([kept], seconds=3) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["ok"], told["seconds"]) == (True, 3)
    assert measuring.report([kept, missed]) == 1
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in lines] == ["ok  ", "MISS"]
    told = json.loads(last)
    assert not told["ok"]
    assert told["checks"][1]["target"] == ">= 0.9"
    with pytest.raises(ValueError, match="give it one"):
        measuring.report([])


def test_a_slower_machine_changes_no_ratio_and_slower_code_does(measuring):
    def ratios(machine, code):
        return measuring.compared(lambda: 3.0 * machine * code, 4, lambda: 0.5 * machine)

    assert ratios(1, 1) == ratios(4, 1) == [6.0] * 4
    assert ratios(4, 2) == [12.0] * 4


def test_the_unit_is_timed_before_and_after_every_round(measuring):
    units = iter([1.0, 3.0, 1.0])
    assert measuring.compared(lambda: 4.0, 2, lambda: next(units)) == [2.0, 2.0]


def test_the_piece_of_plain_work_is_as_it_was(part):
    # Another piece of work is another unit: measure every target anew, then change this number.
    plain = part("measuring.plain")
    assert plain.plain_work() == 1642
    assert plain.plain_s() > 0
    assert plain.arrays_s() > 0


@pytest.fixture
def everything(part, tmp_path, monkeypatch):
    found = part("measuring.everything")
    monkeypatch.setattr(found, "FOLDER", tmp_path)
    return found


def write(folder, name, body):
    (folder / f"{name}.py").write_text(
        f"import sys\nsys.path.insert(0, {str(FOLDER)!r})\n"
        f"from measuring import Kind, at_most, report\n{body}\n",
        encoding="utf-8",
    )


CHECK = "sys.exit(report([at_most('ours', Kind.PEER, [{value}], 2)]))"


def test_one_table_ends_the_run_and_a_miss_is_its_exit_code(everything, tmp_path, capsys):
    write(tmp_path, "fast", CHECK.format(value=1))
    assert everything.main([]) == 0
    assert "1 of 1 targets hold" in capsys.readouterr().out
    write(tmp_path, "slow", CHECK.format(value=4))
    write(tmp_path, "broken", "raise SystemExit('no disk')")
    assert everything.main([]) == 1
    shown = capsys.readouterr().out
    tail = shown[shown.index("\nbenchmark ") :].splitlines()
    assert [line.split()[0] for line in tail[3:6]] == ["broken", "fast", "slow"]
    assert [line.split()[-1] for line in tail[3:6]] == ["NO", "yes", "NO"]
    assert shown.endswith("1 of 3 targets hold\n")
    assert everything.main(["fast"]) == 0


def test_a_benchmark_that_is_not_there_is_named(everything, tmp_path, capsys):
    write(tmp_path, "fast", CHECK.format(value=1))
    assert everything.main(["fats"]) == 2
    assert "no benchmark ['fats'] runs here; there are fast" in capsys.readouterr().out


@pytest.mark.parametrize("exit_code", [1, -9])
def test_a_benchmark_that_ends_badly_is_not_ok_whatever_it_printed(everything, exit_code):
    check = {"measured": "a", "kind": "b", "target": "<= 1", "value": 1, "spread": [1, 1]}
    last = json.dumps({"checks": [{**check, "ok": True}]})
    assert [row.ok for row in everything.rows_of("x", last, exit_code)] == [True, False]
    assert [row.ok for row in everything.rows_of("x", last, 0)] == [True]
    assert [row.ok for row in everything.rows_of("x", '{"checks": []}', 0)] == [False]
