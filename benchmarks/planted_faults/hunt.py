"""Count how many of the planted faults the tests of a checkout notice.

    python3 benchmarks/planted_faults/hunt.py draw              # faults.json, once
    python3 benchmarks/planted_faults/hunt.py reach TREE        # which tests reach which fault
    python3 benchmarks/planted_faults/hunt.py judge TREE RESULTS [--killers EARLIER]

TREE is a checkout with a ``.venv``; its files are changed and restored, so nothing else may use it.

A run of the whole suite per fault is too dear. Instead:

1. ``reach`` runs the tests once on a tree where each faulty place records the test that passes it
   (``PYTEST_CURRENT_TEST``, so commands in other processes count). Of a parametrized test the first
   `SAMPLES` cases run. The rest of the tests cannot notice the fault, so they are not tried.
2. ``judge`` collects the tests once and forks per fault. The child exchanges the code of the faulty
   function, and the file holds the fault too, for commands that start. It runs the tests that reach
   the fault, the quickest of each test function first, until one fails or ``--budget`` CPU seconds
   are spent. A failing test must pass without the fault, or it does not count.
3. With ``--killers`` the test that noticed a fault earlier goes first, found by its name where it
   moved. On a new tree this is nearly all that runs; the few undecided faults need ``reach``.

A test that outlasts its limit (`WALL_S`) counts as noticing: the fault made it hang.
"""

import argparse
import ast
import ctypes
import gc
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from planted_faults.faults import Fault, Site, Sources, draw, functions, replace  # noqa: E402 - a script

DECIDED = ("killed", "timeout")
SAMPLES = 2
WALL_S = 150
HIT = '__import__("skillwright._reached", fromlist=["hit"]).hit({})'
RECORDER = '''"""Records which test passes which place."""
import os
_seen = set()

def hit(fault):
    test = os.environ.get("PYTEST_CURRENT_TEST")
    if test and (fault, test) not in _seen:
        _seen.add((fault, test))
        with open({path!r}, "a") as file:
            file.write(f"{{fault}}\\t{{test}}\\n")
'''


def listed() -> list[Fault]:
    """Read the list of faults."""
    return [Fault(**one) for one in json.loads((HERE / "faults.json").read_text())["faults"]]


def sources(tree: Path) -> Sources:
    """Index a tree, with the renames since the list was made."""
    renames = HERE / "renames.json"
    table = json.loads(renames.read_text()) if renames.exists() else {}
    return Sources(tree / "src" / "skillwright", table)


def pytest_in(tree: Path, work: Path, arguments: list[str], task: dict[str, Any]) -> None:
    """Run pytest in the tree with this module as a plug-in that does the task."""
    (work / "task.json").write_text(json.dumps(task))
    environment = os.environ | {
        "PLANTED_TASK": str(work / "task.json"),
        "PYTHONPATH": str(HERE.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    options = ["-p", "planted_faults.hunt", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [str(tree / ".venv/bin/python"), "-m", "pytest", *options, *arguments]
    with (work / "pytest.log").open("a") as log:
        subprocess.run(command, cwd=tree, env=environment, stdout=log, stderr=log, check=False)


def instrument(site: Site, fault: Fault, text: str) -> str:
    """Make a place record the test that passes it; the value stays."""
    call = HIT.format(fault.id)
    node: Any = site.node
    if fault.kind == "default":
        bodies = site.function.body
        node = bodies[1] if len(bodies) > 1 and ast.get_docstring(site.function) else bodies[0]
    if isinstance(node, ast.Slice):
        node = node.lower or node.upper
    if isinstance(node, ast.expr):
        return replace(text, node, f"{call} or {_segment(text, node)}")
    if hasattr(node, "body"):  # a compound statement: its first expression
        node = next(part for part in ast.walk(node) if isinstance(part, ast.expr))
        return replace(text, node, f"{call} or {_segment(text, node)}")
    return replace(text, node, f"{call}; {_segment(text, node)}")


def _segment(text: str, node: Any) -> str:
    return ast.get_source_segment(text, node) or ""


def reach(tree: Path, work: Path, faults: list[Fault], paths: list[str]) -> None:
    """Write which tests reach which fault, and how long each takes."""
    found = sources(tree)
    before: dict[Path, str] = {}
    places = [(site, fault) for fault in faults if (site := found.find(fault))]
    places.sort(key=lambda place: (-place[0].node.lineno, -place[0].node.col_offset))
    recorder = tree / "src/skillwright/_reached.py"
    try:
        recorder.write_text(RECORDER.format(path=str(work / "hits.tsv")))
        for site, fault in places:
            text = site.path.read_text()
            before.setdefault(site.path, text)
            site.path.write_text(instrument(site, fault, text))
        pytest_in(tree, work, paths, {"do": "reach", "times": str(work / "times.tsv")})
    finally:
        recorder.unlink()
        for path, text in before.items():
            path.write_text(text)


def reached(work: Path) -> dict[int, list[str]]:
    """Read the tests that reach each fault, in the order in which they are tried."""
    times: dict[str, float] = {}
    for line in (work / "times.tsv").read_text().splitlines():
        node, seconds = line.rsplit("\t", 1)
        times[node] = times.get(node, 0.0) + float(seconds)
    tests: dict[int, set[str]] = {}
    for line in (work / "hits.tsv").read_text().splitlines():
        number, test = line.split("\t", 1)
        tests.setdefault(int(number), set()).add(test.rsplit(" (", 1)[0])
    order: dict[int, list[str]] = {}
    for number, nodes in tests.items():
        ranks: Counter[str] = Counter()
        ranked = []
        for node in sorted(nodes & times.keys(), key=lambda node: times[node]):
            ranks[node.partition("[")[0]] += 1
            ranked.append((ranks[node.partition("[")[0]], times[node], node))
        order[number] = [node for _, _, node in sorted(ranked)]
    return order


def moved(tree: Path, killer: str) -> list[str]:
    """Find a test in a tree: the same node, or tests of the same name in other files."""
    path, _, test = killer.partition("::")
    name = test.partition("[")[0].rpartition("::")[2]
    defined = re.compile(rf"def {re.escape(name)}\(")
    files = [tree / path, *sorted((tree / "tests").rglob("test_*.py"))]
    homes = [one for one in files if one.is_file() and defined.search(one.read_text())]
    return [f"{one.relative_to(tree)}::{test}" for one in dict.fromkeys(homes)]


def judge(tree: Path, work: Path, results: Path, tests: dict[int, list[str]], budget: int) -> None:
    """Decide the faults that have no verdict yet and a test to try; write each verdict at once."""
    found = sources(tree)
    known = json.loads(results.read_text()) if results.exists() else {}
    steps: list[dict[str, Any]] = []
    for fault in listed():
        site = found.find(fault)
        if site is None:
            known[str(fault.id)] = {"verdict": "lost"}
        elif str(fault.id) not in known and tests.get(fault.id):
            text = site.path.read_text()
            step = {"id": fault.id, "path": str(site.path), "tests": tests[fault.id]}
            steps.append(step | {"text": replace(text, site.node, fault.after)})
    results.write_text(json.dumps(known, indent=1))
    files = sorted({test.partition("::")[0] for step in steps for test in step["tests"]})
    task = {"do": "judge", "steps": steps, "results": str(results), "budget": budget}
    pytest_in(tree, work, ["-m", "not oracle", *files], task)


# The plug-in: it runs inside pytest, in the tree's own environment.

_task = (
    json.loads(Path(os.environ["PLANTED_TASK"]).read_text()) if "PLANTED_TASK" in os.environ else {}
)
_failed: list[str] = []


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep the first cases of each parametrized test, to see which tests reach a fault."""
    if _task.get("do") == "reach":
        cases = Counter[str]()
        kept = []
        for item in items:
            name = item.nodeid.partition("[")[0]
            cases[name] += 1
            kept += [item] if cases[name] <= SAMPLES else []
        items[:] = kept


def pytest_runtest_logreport(report: Any) -> None:
    """Keep how long a test took, and whether it failed."""
    if report.failed:
        _failed.append(report.nodeid)
    if _task.get("do") == "reach":
        with Path(_task["times"]).open("a") as file:
            file.write(f"{report.nodeid}\t{report.duration:.3f}\n")


def pytest_runtestloop(session: Any) -> bool | None:
    """Try the faults instead of running the tests once."""
    if _task.get("do") != "judge":
        return None
    ctypes.CDLL(None).prctl(36, 1)  # orphans of a test become children of this process
    items = {item.nodeid: item for item in session.items}
    held: dict[str, list[Any]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType:
            held.setdefault(one.__code__.co_filename, []).append(one)
    gc.freeze()
    passes: dict[str, bool] = {}
    results = Path(_task["results"])
    for step in _task["steps"]:
        tests = _present(step["tests"], items)
        while True:
            tests = [test for test in tests if passes.get(test, True)]
            outcome = _plant(session, step, [items[test] for test in tests], held)
            killer = outcome.get("killer")
            if killer is None or passes.get(killer):
                break
            alone = _in_child(session, [items[killer]])
            passes[killer] = alone["verdict"] == "survived"
            if passes[killer]:
                break
        if not tests:
            outcome["verdict"] = "untried"
        known = json.loads(results.read_text())
        known[str(step["id"])] = outcome | {"reached_by": len(step["tests"])}
        results.write_text(json.dumps(known, indent=1))
    return True


def _present(tests: list[str], items: dict[str, Any]) -> list[str]:
    """List the collected tests of these; of one whose parameters changed, the first cases."""
    found: dict[str, None] = {}
    for test in tests:
        bare = test.partition("[")[0]
        alike = [test] if test in items else [one for one in items if one.partition("[")[0] == bare]
        found |= dict.fromkeys(alike[:5])
    return list(found)


def _plant(session: Any, step: dict[str, Any], items: list[Any], held: Any) -> dict[str, Any]:
    path = Path(step["path"])
    text, times = path.read_text(), path.stat()
    try:
        path.write_text(step["text"])
        os.utime(path, (times.st_atime, times.st_mtime + 60 + step["id"]))  # no stale bytecode
        return _in_child(session, items, lambda: exchange(step["text"], held.get(str(path), [])))
    finally:
        path.write_text(text)
        os.utime(path, (times.st_atime, times.st_mtime))


def exchange(text: str, held: list[FunctionType]) -> None:
    """Give the functions of a module the code and the defaults of another text of it."""
    fresh: dict[tuple[str, int], CodeType] = {}

    def keep(code: CodeType) -> None:
        for part in code.co_consts:
            if isinstance(part, CodeType):
                fresh[part.co_qualname, part.co_firstlineno] = part
                keep(part)

    def literals(nodes: list[Any], values: Any) -> list[Any]:
        plain = [isinstance(node, ast.Constant) for node in nodes]
        return [n.value if p else v for n, p, v in zip(nodes, plain, values, strict=True)]

    keep(compile(text, held[0].__code__.co_filename if held else "", "exec"))
    headers = {name: node.args for name, node in functions(ast.parse(text))}
    for one in held:
        with suppress(KeyError, ValueError):
            one.__code__ = fresh[one.__code__.co_qualname, one.__code__.co_firstlineno]
            header = headers[one.__qualname__.replace("<locals>.", "")]
            if one.__defaults__:
                one.__defaults__ = tuple(literals(header.defaults, one.__defaults__))
            for argument, node in zip(header.kwonlyargs, header.kw_defaults, strict=True):
                if one.__kwdefaults__ and isinstance(node, ast.Constant):
                    one.__kwdefaults__[argument.arg] = node.value


def _in_child(session: Any, items: list[Any], prepare: Any = None) -> dict[str, Any]:
    """Run tests in a fork until one fails; say which, and the CPU seconds."""
    current = Path(os.environ["PLANTED_TASK"]).with_name("current")
    current.write_text("")
    scratch = current.with_name("tmp")
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        with suppress(BaseException):
            session.config._tmp_path_factory._given_basetemp = scratch
            _run(session, items, prepare, current)
        os._exit(2)
    _, status, usage = os.wait4(pid, 0)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _end_orphans()
    shutil.rmtree(scratch, ignore_errors=True)
    test = current.read_text() or None
    code = os.waitstatus_to_exitcode(status)
    verdict = {0: "survived", 3: "survived", 1: "killed"}.get(code, "timeout")
    return {
        "verdict": verdict,
        "killer": None if verdict == "survived" else test,
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "wall_s": round(time.monotonic() - begun, 1),
        **({"stopped_by": "budget"} if code == 3 else {}),
    }


def _run(session: Any, items: list[Any], prepare: Any, current: Path) -> None:
    if prepare:
        prepare()
    _failed.clear()
    for item, after in zip(items, [*items[1:], None], strict=True):
        spent = (
            resource.getrusage(resource.RUSAGE_SELF),
            resource.getrusage(resource.RUSAGE_CHILDREN),
        )
        if sum(one.ru_utime + one.ru_stime for one in spent) > _task["budget"]:
            os._exit(3)
        current.write_text(item.nodeid)
        signal.alarm(WALL_S)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if _failed:
            with suppress(BaseException):
                session._setupstate.teardown_exact(None)
            os._exit(1)
    os._exit(0)


def _end_orphans() -> None:
    """End the processes that a test's child left behind."""
    for _ in range(3):
        own = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        for pid in map(int, own):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def main() -> None:
    """Read the command line and do one step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("do", choices=("draw", "reach", "judge", "show"))
    parser.add_argument("tree", type=Path, nargs="?", default=HERE.parents[1])
    parser.add_argument("results", type=Path, nargs="?", default=HERE / "before.json")
    parser.add_argument("--killers", type=Path, help="results of an earlier tree")
    parser.add_argument("--work", type=Path, default=Path("/tmp/planted_faults"))
    parser.add_argument("--budget", type=int, default=45, help="CPU seconds for one fault")
    parser.add_argument("--tests", nargs="*", default=[], help="tests to reach faults with")
    given = parser.parse_args()
    tree, results, work = given.tree.resolve(), given.results.resolve(), given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    if given.do == "draw":
        faults = [asdict(one) for one in draw(tree / "src/skillwright", 29, 225, 5)]
        (HERE / "faults.json").write_text(
            json.dumps({"seed": 29, "faults": faults}, indent=1) + "\n"
        )
    elif given.do == "reach":
        known = json.loads(results.read_text()) if results.exists() else {}
        open_ = [
            one for one in listed() if known.get(str(one.id), {}).get("verdict") not in DECIDED
        ]
        reach(tree, work, open_, given.tests)
    elif given.do == "judge":
        judge(tree, work, results, tests_to_try(tree, work, given.killers), given.budget)
    else:
        show(results)


def tests_to_try(tree: Path, work: Path, killers: Path | None) -> dict[int, list[str]]:
    """Choose tests: those that noticed a fault earlier, or else those that reach it."""
    if killers is None:
        return reached(work)
    earlier = json.loads(killers.read_text())
    noticed = {int(number): one["killer"] for number, one in earlier.items() if one.get("killer")}
    return {number: moved(tree, killer) for number, killer in noticed.items()}


def show(results: Path) -> None:
    """Print the verdicts of each package."""
    known = json.loads(results.read_text())
    table: dict[str, Counter[str]] = {}
    for fault in listed():
        verdict = known.get(str(fault.id), {}).get("verdict", "untried")
        table.setdefault(fault.package, Counter())[verdict] += 1
    for package, counts in sorted(table.items()):
        print(package, dict(counts))
    print("all", dict(sum(table.values(), Counter())))
    print("CPU seconds", round(sum(one.get("cpu_s", 0) for one in known.values())))


if __name__ == "__main__":
    main()
