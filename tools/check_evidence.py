"""Check the evidence of a skill's folder by docs/evidence.md: ``python tools/check_evidence.py FOLDER``."""

import json
import re
import sys
from fractions import Fraction
from hashlib import sha256, shake_256
from math import lcm
from pathlib import Path

canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def need(holds, problem):
    if not holds:
        raise ValueError(problem)


def gain_of(task, draws=None):
    pairs = list(zip(task["incumbent"][:draws], task["candidate"][:draws], strict=True))
    both = [pair for pair in pairs if None not in pair]
    gain = round(sum(new - old for old, new in both) / len(both), 9) if both else 0.0
    again = both and (len(pairs) == 1 or len({*sum(both, ())}) > 1) and not task["same"]  # whether it is drawn again
    return gain, len(both), len(pairs) - len(both), again


def by_cluster(scores, test, draws=None, reached=float("inf")):
    found, clusters = {}, test["terms"]["clusters"]
    for at, task in enumerate(scores):
        found.setdefault(clusters.get(task["task"], task["task"]), []).append(at < reached and gain_of(task, draws)[0])
    return [sum(gains) / len(gains) for gains in found.values()]


def exact_p(gains):
    moved = [gain for gain in gains if abs(gain) >= 1e-9]
    shares = [Fraction(abs(one) / max(map(abs, moved))).limit_denominator(10_000) for one in moved]
    step = max(Fraction(1, lcm(*(one.denominator for one in shares))), sum(shares, Fraction()) / 10_000)
    counts, seen = {0: 1}, 0
    for gain, share in zip(moved, shares, strict=True):
        weight = round(share / step)
        seen += weight * (gain > 0)
        counts = {s: counts.get(s, 0) + counts.get(s - weight, 0) for s in {*counts, *(s + weight for s in counts)}}
    return float(Fraction(sum(n for s, n in counts.items() if s >= seen), 2 ** len(moved)))


def signs_p(scores, test, looks):
    n, width = 10_000, -(-len(by_cluster(scores, test)) // 8)
    stream = shake_256(str(test["seed"]).encode()).digest(n * width)
    rows = [-1, *(int.from_bytes(stream[at : at + width]) for at in range(width, n * width, width))]
    for at, task in enumerate(scores):
        ends = (one["draws"] for one in looks if one["tasks"] == len(scores) and not gain_of(task, one["draws"])[3])
        need(len(task["candidate"]) == next(ends, looks[-1]["draws"] * (at < looks[-1]["tasks"])), "other draws")
    rejected, p, limit = set(), 1.0, 0.0
    for last, look in enumerate(looks, 1 - len(looks)):  # 0 at the last look
        need(limit <= look["alpha"] <= test["alpha"] + 1e-9, "the alpha of the looks does not rise to that of the test")
        limit, gains = look["alpha"], by_cluster(scores, test, look["draws"], look["tasks"])
        if look["p_value"] is None:
            continue
        bits = [(gain, 1 << (8 * width - 1 - at)) for at, gain in enumerate(gains) if gain]
        sums = [sum(gain if row & bit else -gain for gain, bit in bits) for row in rows]
        left = [at for at in range(n) if at not in rejected]
        p = p if 0 in rejected else (len(rejected) + sum(sums[at] >= sums[0] - 1e-4 for at in left)) / n
        if (allowed := int(limit * n + 1e-9) - len(rejected)) > 0:
            bound = sorted((sums[at] for at in left), reverse=True)[allowed] + 1e-4
            rejected |= {at for at in left if sums[at] > bound}
        need(abs(p - look["p_value"]) <= 5e-4, f"p is {p} at {look['draws']} draws, not {look['p_value']}")
        need(last == 0 or p > limit or sum(gains) <= 0, "the test went on after it was passed")
    return p


def check(folder):
    data = json.loads((folder / "references/evidence.json").read_text("utf-8"))
    need([data["format"], data["version"]] == ["skillwright.evidence", 1], "its format or version is not read here")
    rest = canonical({key: value for key, value in data.items() if key not in ("sha256", "signature")}).encode()
    need(len(data) == 11 and sha256(rest).hexdigest() == data["sha256"], "it was changed: its sha256 differs")
    files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    left_out = re.compile(r"(.*/)?(\..*|__pycache__|node_modules)(/.*)?|evals/.*|references/evidence\.json")
    files = {path.as_posix(): body for path, body in files.items() if not left_out.fullmatch(path.as_posix())}
    text, scores, test, result = (data[key] for key in ("text", "scores", "test", "result"))
    bare = re.sub(rb'^  content-hash: "[^"\n]*"\r?\n', b"", files["SKILL.md"], count=1, flags=re.M)
    now = {path: sha256(body).hexdigest() for path, body in {**files, "SKILL.md": bare}.items()}
    need(now == data["files"], "files were changed, added or removed, or the evidence is another skill's")
    if text["file"] is not None:
        lines = files[text["file"]].decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
        tested = "\n".join(lines[text["lines"][0] - 1 : text["lines"][1]]).strip()
        need(sha256(tested.encode()).hexdigest() == text["sha256"], "it holds another text than the tested one")
    ids = [task["task"] for task in scores]
    need(sha256(canonical(ids).encode()).hexdigest() == data["measured"]["ids"], "other tasks, or another order")
    numbers = [one for task in scores for one in task["incumbent"] + task["candidate"] if one is not None]
    need(len(set(ids)) == len(ids) and all(0 <= one <= 1 for one in numbers), "a task stands twice, or a bad score")
    values, counts, losses, _ = zip(*map(gain_of, scores))
    gains, pairs, lost = [gain for gain, n in zip(values, counts) if n], sum(counts), sum(losses)
    means = by_cluster([task for task, n in zip(scores, counts) if n], test)
    effect, better, worse = sum(means) / len(means), sum(g > 0 for g in gains), sum(g < 0 for g in gains)
    need([result[key] for key in ("pairs", "lost", "better", "worse")] == [pairs, lost, better, worse], "counts differ")
    need(abs(effect - result["effect"]) <= 1e-6, f"the effect is {effect}, and {result['effect']} is stored")
    most, stored, method = test["settings"].get("max_worse_tasks"), result["p_value"], test["method"]
    last = [{"tasks": len(scores), "alpha": test["alpha"]}, *result["looks"]][-1]
    is_whole = lost <= 0.1 * (pairs + lost) and last["tasks"] - len(gains) <= 0.1 * last["tasks"]
    need(result["decision"] == "accept" and is_whole and effect > 0 and (most is None or worse <= most), "no proof")
    kinds = {"signs": [None], "selection": [None], "exact": ["paired"], "mean": ["strict", "open"]}
    need(test["settings"].get("kind") in kinds[method] if method != "other" else True, "another method than the gate's")
    need(method != "mean" or (effect > test["settings"].get("margin", 0) and stored is None), "not above the margin")
    if method not in ("mean", "other"):
        p = signs_p(scores, test, result["looks"]) if method == "signs" else exact_p(by_cluster(scores, test))
        need(stored >= p - 5e-4 and (method == "selection" or stored <= p + 5e-4), f"p is {p}, and {stored} is stored")
        need(stored <= last["alpha"] <= test["alpha"], f"p = {stored} is above {last['alpha']}")
    facts = {"agent": data["measured"]["model"]["name"], "compared-with": data["compared_with"]["name"]}
    facts |= {"gain": f"{effect:+.4f}", "p-value": f"{stored or 0:.4g}", "pairs": str(pairs), "tasks": str(len(ids))}
    head = files["SKILL.md"].decode("utf-8", "replace").partition("\n---")[0]
    for key, value in re.findall(r'^  ([\w-]+): (".*")$', head, re.M) if '  generator: "skillwright"' in head else ():
        need(facts.get(key, json.loads(value)) == json.loads(value), f"SKILL.md says {key}: {value}")
    return f"{method}: gain {effect:+.3f} on {len(gains)} tasks, p = {stored}; scores and model are only stated"


if __name__ == "__main__":
    try:
        print(check(Path(sys.argv[1])))
    except (ValueError, LookupError, TypeError, AttributeError, OSError, RecursionError, ArithmeticError) as error:
        sys.exit(f"refused: {error!r}")
