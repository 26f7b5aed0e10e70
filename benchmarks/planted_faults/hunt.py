"""Count how many of the planted faults in `faults.json` the tests of a checkout notice.

    python3 benchmarks/planted_faults/hunt.py reach TREE RESULTS   # which tests reach which fault
    python3 benchmarks/planted_faults/hunt.py judge TREE RESULTS [--killers EARLIER]
    python3 benchmarks/planted_faults/hunt.py show TREE RESULTS

TREE is a checkout with a `.venv`; its files are changed and restored, so nothing else may use it.

The whole suite cannot run once per fault. Instead:

1. `reach` runs the tests once on a tree where each faulty place records the test that evaluates it
   (`PYTEST_CURRENT_TEST`, so other processes count too). Of a parametrized test only the first
   `SAMPLES` cases run. Other tests cannot notice the fault, so they are not tried (nor is any for
   code that runs at import alone). A second `reach` skips the tests that ran.
2. `judge` collects these tests once and forks per fault. The child exchanges the code of the faulty
   function in memory, and the file holds the fault for processes that start. It runs the tests
   that reach the fault, the quickest of each test function first, until one fails or `--budget` CPU
   seconds are spent. A test counts only if it passes without the fault. A test that outlasts
   `WALL_S` counts: the fault makes it hang. A survivor is tried again with the tests
   that a later `reach` finds.
3. With `--killers` only the test that noticed the fault earlier runs, found by its name where it
   moved. Faults that are still undecided need `reach` and `judge` without it.

`renames.json`, if there is one, maps old names in functions and statements to new ones. "lost"
names a fault that is not found; "not reached", one that no test that ran evaluates. The list was
drawn by `faults.draw` with the seed, the count and the commit that stand in it.
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
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from planted_faults.faults import Fault, Site, Sources, functions, put  # noqa: E402 - a script

SAMPLES = 2
WALL_S = 90
NOTICED = ("killed", "timeout")
HIT = '__import__("skillwright._reached", fromlist=["hit"]).hit({})'
RECORDER = '''"""Records which test evaluates which place."""
import os
_seen = set()

def hit(fault):
    test = os.environ.get("PYTEST_CURRENT_TEST")
    if test and (fault, test) not in _seen:
        _seen.add((fault, test))
        with open({path!r}, "a") as file:
            file.write(f"{{fault}}\\t{{test}}\\n")
'''


def read(path: Path) -> Any:
    """Read a JSON file; an empty table where there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def listed() -> list[Fault]:
    """Read the list of faults."""
    return [Fault(**one) for one in read(HERE / "faults.json")["faults"]]


def sources(tree: Path) -> Sources:
    """Index a tree."""
    return Sources(tree / "src" / "skillwright", read(HERE / "renames.json"))


def run_pytest(tree: Path, work: Path, arguments: list[str], task: dict[str, Any]) -> None:
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
    """Make a place record the test that evaluates it; its value stays."""
    node = site.node
    if fault.kind == "default":
        body = site.function.body
        node = body[1] if len(body) > 1 and ast.get_docstring(site.function) else body[0]
    if isinstance(node, ast.Slice):
        node = node.lower or node.upper
    if hasattr(node, "body"):  # a compound statement: its first expression
        parts = [part for part in ast.walk(node) if isinstance(part, ast.expr)]
        node = next(p for p in parts if isinstance(getattr(p, "ctx", ast.Load()), ast.Load))
    joint = " or" if isinstance(node, ast.expr) else ";"
    return put(text, node, f"{HIT.format(fault.id)}{joint} {ast.get_source_segment(text, node)}")


def reach(tree: Path, work: Path, faults: list[Fault], arguments: list[str]) -> None:
    """Record which tests reach which fault, and how long each takes."""
    found = sources(tree)
    places = [(site, fault) for fault in faults if (site := found.find(fault))]
    places.sort(key=lambda place: (-place[0].node.lineno, -place[0].node.col_offset))
    before = {site.path: site.path.read_text(encoding="utf-8") for site, _ in places}
    recorder = tree / "src/skillwright/_reached.py"
    try:
        (work / "times.tsv").touch()
        recorder.write_text(RECORDER.format(path=str(work / "hits.tsv")))
        for site, fault in places:
            text = site.path.read_text(encoding="utf-8")
            site.path.write_text(instrument(site, fault, text), encoding="utf-8")
        run_pytest(tree, work, arguments, {"do": "reach", "times": str(work / "times.tsv")})
    finally:
        recorder.unlink()
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")


def reached(work: Path) -> dict[int, list[str]]:
    """Read the tests that reach each fault: the quickest of each test function first."""
    times: defaultdict[str, float] = defaultdict(float)
    for line in (work / "times.tsv").read_text().splitlines():
        node, seconds = line.rsplit("\t", 1)
        times[node] += float(seconds)
    tests: dict[int, set[str]] = {}
    for line in (work / "hits.tsv").read_text().splitlines():
        number, test = line.split("\t", 1)
        tests.setdefault(int(number), set()).add(test.rsplit(" (", 1)[0])
    order: dict[int, list[str]] = {}
    for number, nodes in tests.items():
        cases: Counter[str] = Counter()
        ranked = []
        for node in sorted(nodes & times.keys(), key=lambda node: times[node]):
            cases[_bare(node)] += 1
            ranked.append((cases[_bare(node)], times[node], node))
        order[number] = [node for _, _, node in sorted(ranked)]
    return order


def _bare(node: str) -> str:
    return node.partition("[")[0]


def earlier(tree: Path, results: Path) -> dict[int, list[str]]:
    """Find the tests that noticed each fault earlier, in the files that define their names."""
    texts = {path: path.read_text() for path in sorted((tree / "tests").rglob("test_*.py"))}
    found: dict[int, list[str]] = {}
    for number, one in read(results).items():
        if killer := one.get("killer"):
            path, _, test = killer.partition("::")
            defined = re.compile(rf"def {re.escape(_bare(test).rpartition('::')[2])}\(")
            homes = [home for home, text in texts.items() if defined.search(text)]
            homes.sort(key=lambda home: home != tree / path)
            found[int(number)] = [f"{home.relative_to(tree)}::{test}" for home in homes]
    return found


def judge(
    where: tuple[Path, Path, Path],
    tests: dict[int, list[str]],
    budget: float,
    arguments: list[str],
) -> None:
    """Decide the faults that are undecided and have a test to try; store each verdict at once."""
    tree, work, results = where
    found = sources(tree)
    known, tried = read(results), read(work / "tried.json")
    steps: list[dict[str, Any]] = []
    for fault in listed():
        old = known.get(str(fault.id), {})
        mutant = found.mutant(fault)
        left = [one for one in tests.get(fault.id, []) if one not in tried.get(str(fault.id), [])]
        if mutant is None:
            known[str(fault.id)] = {"verdict": "lost"}
        elif old.get("verdict") not in NOTICED and left:
            path, text = mutant
            step = {"id": fault.id, "path": str(path), "text": text, "tests": left}
            steps.append(step)
    steps.sort(key=lambda step: str(step["id"]) in known)  # what has no verdict yet goes first
    results.write_text(json.dumps(known, indent=1) + "\n")
    files = sorted({test.partition("::")[0] for step in steps for test in step["tests"]})
    if steps:
        files_of = {"results": str(results), "tried": str(work / "tried.json")}
        task = {"do": "judge", "steps": steps, "budget": budget, **files_of}
        run_pytest(tree, work, [*arguments, *files], task)


# From here on: the plug-in, inside pytest and in the tree's own environment.

_task = read(Path(os.environ["PLANTED_TASK"])) if "PLANTED_TASK" in os.environ else {}
_failed: list[str] = []


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep the first cases of each parametrized test, to see which tests reach a fault."""
    if _task.get("do") != "reach":
        return
    times = Path(_task["times"])
    done = {line.rpartition("\t")[0] for line in times.read_text().splitlines()}
    cases: Counter[str] = Counter()
    kept = []
    for item in items:
        cases[_bare(item.nodeid)] += 1
        if cases[_bare(item.nodeid)] <= SAMPLES and item.nodeid not in done:
            kept.append(item)
    items[:] = kept


def pytest_runtest_logreport(report: Any) -> None:
    """Keep the time of a test, and whether it failed."""
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
    held: dict[str, list[FunctionType]] = {}
    gc.unfreeze()  # the suite freezes what it collected, which hides it from the next line
    for one in gc.get_objects():
        if type(one) is FunctionType:
            held.setdefault(one.__code__.co_filename, []).append(one)
    gc.freeze()
    passes: dict[str, bool] = {}
    results, tried_in = Path(_task["results"]), Path(_task["tried"])
    tried = read(tried_in)
    for step in _task["steps"]:
        tests = _present(step["tests"], items)
        outcome: dict[str, Any] = {"verdict": "no test", "killer": None}
        while tests := [test for test in tests if passes.get(test, True)]:
            outcome = _plant(session, step, [items[test] for test in tests], held)
            if (killer := outcome["killer"]) is None:
                break
            if killer not in passes:
                passes[killer] = _in_child(session, [items[killer]])["killer"] is None
            if passes[killer]:
                break
            outcome = {"verdict": "no test", "killer": None}
        number = str(step["id"])
        last = outcome.pop("last", None)
        ran = tests[: tests.index(last) + 1] if last else step["tests"]
        tried[number] = [*tried.get(number, []), *ran]
        outcome["tests"] = len(tried[number])
        tried_in.write_text(json.dumps(tried))
        results.write_text(json.dumps(read(results) | {number: outcome}, indent=1) + "\n")
    return True


def _present(tests: list[str], items: dict[str, Any]) -> list[str]:
    """List those of the tests that exist; of one whose cases changed, the first cases."""
    found: dict[str, None] = {}
    for test in tests:
        alike = [test] if test in items else [one for one in items if _bare(one) == _bare(test)]
        found |= dict.fromkeys(alike[:5])
    return list(found)


def _plant(session: Any, step: dict[str, Any], items: list[Any], held: Any) -> dict[str, Any]:
    path = Path(step["path"])
    text, times = path.read_text(encoding="utf-8"), path.stat()
    try:
        path.write_text(step["text"], encoding="utf-8")
        os.utime(path, (times.st_atime, times.st_mtime + 60 + step["id"]))  # no stale bytecode
        return _in_child(session, items, lambda: exchange(step["text"], held.get(str(path), [])))
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def exchange(text: str, held: list[FunctionType]) -> None:
    """Give the functions of a module the code and the defaults that another text of it has."""
    fresh: dict[tuple[str, int], CodeType] = {}

    def keep(code: CodeType) -> None:
        for part in code.co_consts:
            if isinstance(part, CodeType):
                fresh[part.co_qualname, part.co_firstlineno] = part
                keep(part)

    def default(node: Any, value: Any) -> Any:
        return node.value if isinstance(node, ast.Constant) else value

    headers = {name: node.args for name, node in functions(ast.parse(text))}
    for one in held:
        if not fresh:
            keep(compile(text, one.__code__.co_filename, "exec"))
        with suppress(KeyError, ValueError):
            one.__code__ = fresh[one.__code__.co_qualname, one.__code__.co_firstlineno]
            header = headers[one.__qualname__.replace("<locals>.", "")]
            if one.__defaults__:
                pairs = zip(header.defaults, one.__defaults__, strict=True)
                one.__defaults__ = tuple(default(*pair) for pair in pairs)
            for argument, node in zip(header.kwonlyargs, header.kw_defaults, strict=True):
                if (named := one.__kwdefaults__) and argument.arg in named:
                    named[argument.arg] = default(node, named[argument.arg])


def _in_child(session: Any, items: list[Any], prepare: Any = None) -> dict[str, Any]:
    """Run tests in a fork until one fails; say which, and the CPU seconds."""
    current = Path(os.environ["PLANTED_TASK"]).with_name("current")
    current.write_text("")
    scratch = current.with_name("tmp")
    began = time.monotonic()
    if (pid := os.fork()) == 0:
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
    code = os.waitstatus_to_exitcode(status)
    verdict = {0: "survived", 1: "killed", 3: "survived"}.get(code, "timeout")
    last = current.read_text() or None
    return {
        "verdict": verdict,
        "killer": None if verdict == "survived" else last,
        "last": last,
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "wall_s": round(time.monotonic() - began, 1),
        "stopped_by": {0: "end", 1: "failure", 3: "budget"}.get(code, f"exit {code}"),
    }


def _run(session: Any, items: list[Any], prepare: Any, current: Path) -> None:
    if prepare:
        prepare()
    _failed.clear()
    for item, after in zip(items, [*items[1:], None], strict=True):
        spent = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
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


def show(results: Path) -> None:
    """Print the verdicts of each package, and the faults that no test noticed."""
    known = read(results)
    table: dict[str, Counter[str]] = {}
    for fault in listed():
        verdict = known.get(str(fault.id), {}).get("verdict", "not reached")
        table.setdefault(fault.package, Counter())[verdict] += 1
        if verdict not in NOTICED:
            place = f"{fault.path} {fault.function}: {fault.before} -> {fault.after}"
            print(f"{fault.id:4} {verdict:12} {place}")
    for package, counts in sorted(table.items()):
        print(f"{package:14}", dict(counts))
    print("all           ", dict(sum(table.values(), Counter())))


def main() -> None:
    """Read the command line and do one step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("do", choices=("reach", "judge", "show"))
    parser.add_argument("tree", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--killers", type=Path, help="results of an earlier tree")
    parser.add_argument("--work", type=Path, help="one folder for each tree")
    parser.add_argument("--budget", type=float, default=30.0, help="CPU seconds for a fault")
    parser.add_argument("arguments", nargs="*", help="after --, for pytest")
    given = parser.parse_args()
    tree, results = given.tree.resolve(), given.results.resolve()
    work = given.work or Path("/tmp/planted_faults") / tree.name
    work.mkdir(parents=True, exist_ok=True)
    if given.do == "reach":
        known = read(results)
        undecided = [
            one for one in listed() if known.get(str(one.id), {}).get("verdict") not in NOTICED
        ]
        reach(tree, work, undecided, given.arguments)
    elif given.do == "judge":
        tests = earlier(tree, given.killers) if given.killers else reached(work)
        judge((tree, work, results), tests, given.budget, given.arguments)
    show(results)


if __name__ == "__main__":
    main()
