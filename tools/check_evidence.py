"""Check the evidence of a skill's folder by docs/evidence.md: ``python tools/check_evidence.py FOLDER``."""

import json
import re
import sys
from fractions import Fraction
from hashlib import sha256, shake_256
from math import lcm
from pathlib import Path

ROWS = 10_000
canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def need(holds, problem):
    if not holds:
        raise ValueError(problem)


def gain_of(task, draws=None):
    pairs = list(zip(task["incumbent"][:draws], task["candidate"][:draws], strict=True))
    found = [new - old for old, new in pairs if None not in (old, new)]
    return round(sum(found) / len(found), 9) if found else 0.0, len(found), len(pairs) - len(found)


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
    width = -(-len(scores) // 8)
    stream = shake_256(str(test["seed"]).encode()).digest(ROWS * width)
    rows = [-1, *(int.from_bytes(stream[at : at + width]) for at in range(width, ROWS * width, width))]
    rejected, p, limit = set(), 1.0, 0.0
    for last, look in enumerate(looks, 1 - len(looks)):  # 0 at the last look
        for task in scores:
            pairs = zip(task["incumbent"], task["candidate"][: look["draws"]])
            varies = len({one for pair in pairs if None not in pair for one in pair}) > 1 and not task["same"]
            more = len(task["candidate"]) - look["draws"]
            need(more < 0 or (more > 0) == (varies and last < 0), "draws are missing or were added")
        need(limit <= look["alpha"] <= test["alpha"] + 1e-9, "the alpha of the looks does not rise to that of the test")
        limit, gains = look["alpha"], [gain_of(task, look["draws"])[0] for task in scores]
        if look["p_value"] is None:
            continue
        bits = [(gain, 1 << (8 * width - 1 - at)) for at, gain in enumerate(gains) if gain]
        sums = [sum(gain if row & bit else -gain for gain, bit in bits) for row in rows]
        left = [at for at in range(ROWS) if at not in rejected]
        p = p if 0 in rejected else (len(rejected) + sum(sums[at] >= sums[0] - 1e-4 for at in left)) / ROWS
        if (allowed := int(limit * ROWS + 1e-9) - len(rejected)) > 0:
            bound = sorted((sums[at] for at in left), reverse=True)[allowed] + 1e-4
            rejected |= {at for at in left if sums[at] > bound}
        need(abs(p - look["p_value"]) <= 5e-4, f"p is {p} at {look['draws']} draws, not {look['p_value']}")
        need(last == 0 or p > limit or sum(gains) <= 0, "the test went on after it was passed")
    return p


def check(folder):
    data = json.loads((folder / "references/evidence.json").read_text("utf-8"))
    need([data["format"], data["version"]] == ["skillwright.evidence", 1], "its format or version is not read here")
    rest = canonical({key: value for key, value in data.items() if key not in ("sha256", "signature")})
    seal = sha256(rest.encode("utf-8", "surrogatepass")).hexdigest()
    need(len(data) == 11 and seal == data["sha256"], "the evidence was changed: its sha256 differs")
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
    listed = sha256(canonical(ids).encode("utf-8", "surrogatepass")).hexdigest()
    need(len(set(ids)) == len(ids) and listed == data["measured"]["ids"], "other tasks, or another order")
    need(all(one is None or 0 <= one <= 1 for t in scores for one in t["incumbent"] + t["candidate"]), "a bad score")
    found = [gain_of(task) for task in scores]
    gains, pairs, lost = [gain for gain, n, _ in found if n], sum(n for _, n, _ in found), sum(n for *_, n in found)
    effect, better, worse = sum(gains) / len(gains), sum(g > 0 for g in gains), sum(g < 0 for g in gains)
    need([result[key] for key in ("pairs", "lost", "better", "worse")] == [pairs, lost, better, worse], "counts differ")
    need(abs(effect - result["effect"]) <= 1e-6, f"the effect is {effect}, and {result['effect']} is stored")
    most, stored = test["settings"].get("max_worse_tasks"), result["p_value"]
    is_whole = lost <= 0.1 * (pairs + lost) and len(scores) - len(gains) <= 0.1 * len(scores)
    need(result["decision"] == "accept" and is_whole and effect > 0 and (most is None or worse <= most), "no proof")
    method, limit = test["method"], [*(look["alpha"] for look in result["looks"]), test["alpha"]][-2:][0]
    kinds = {"signs": [None], "selection": [None], "exact": ["paired"], "mean": ["strict", "open"]}
    need(test["settings"].get("kind") in kinds[method] if method != "other" else True, "another method than the gate's")
    if method == "mean":
        need(effect > test["settings"].get("margin", 0) and stored is None, "the gain is not above the margin")
    elif method != "other":
        p = signs_p(scores, test, result["looks"]) if method == "signs" else exact_p(gains)
        need(stored >= p - 5e-4 and (method == "selection" or stored <= p + 5e-4), f"p is {p}, and {stored} is stored")
        need(stored <= limit <= test["alpha"], f"p = {stored} is above {limit}")
    facts = {"agent": data["measured"]["model"]["name"], "compared-with": data["compared_with"]["name"]}
    facts |= {"gain": f"{effect:+.4f}", "pairs": str(pairs), "tasks": str(len(ids))}
    facts |= {} if stored is None else {"p-value": f"{stored:.4g}", "alpha": f"{test['alpha']:.4g}"}
    head = files["SKILL.md"].decode("utf-8", "replace").partition("\n---")[0]
    for key, value in re.findall(r'^  ([\w-]+): (".*")$', head, re.M) if '  generator: "skillwright"' in head else ():
        need(facts.get(key, json.loads(value)) == json.loads(value), f"SKILL.md says {key}: {value}")
    return f"{method}: gain {effect:+.3f} on {len(ids)} tasks, p = {stored}; scores and model are only stated"


if __name__ == "__main__":
    try:
        print(check(Path(sys.argv[1])))
    except (ValueError, LookupError, TypeError, AttributeError, OSError, RecursionError, ArithmeticError) as error:
        sys.exit(f"refused: {error!r}")
