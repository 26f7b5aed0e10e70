"""Whether adoptions survive kills: SIGKILL in `learn-from-sessions`, and the command given again.

A moment is a statement that is about to change the bank or the store beside it, or a change of a
file in the folder of skills. A fifth of the kills are at random moments of a whole command, the
others from the verdict on, where bank and folder change, and in `--rollback`; by turns there is
nothing in the place of the folder, or an older export. After each kill the folder holds all files
of the old or of the new skill, or is not there. Then the command is given again and not disturbed:
bank, ledger and folder must be as where nobody was killed, the folder byte for byte.

    .venv/bin/python benchmarks/sessions_kill.py [--kills 50]
"""

import argparse
import random
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from measuring import Check, Kind, at_least, at_most, report

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from session_adoption import Adoption
from session_logs import ordinary

_KILLED = -9


def measure(kills: int, root: Path) -> tuple[list[Check], dict[str, Any]]:
    """Kill as often as is asked; return the checks and what else was counted."""
    rng = random.Random(1)
    import_module(
        "skillwright.plugins.sessions.command"
    )  # once, and not in every copy of this process
    ordinary(root / "logs")
    kinds = [_Kind(root, is_earlier) for is_earlier in (False, True)]
    half, different, died = 0, 0, 0
    for number, (what, share) in enumerate(_plan(kills, rng)):
        kind = kinds[number % 2]
        moments = kind.back if what == "rollback" else kind.moments
        first = kind.late if what == "late" else 1
        at = first + int(share * (len(moments) + 1 - first))
        if what == "rollback":
            one = Adoption(root / f"kill{number}", root / "logs", like=kind.whole)
            act, wanted = one.take_back, kind.gone
        else:
            one = Adoption(root / f"kill{number}", root / "logs", earlier=kind.is_earlier)
            act, wanted = one.learn, kind.there
        act(at)
        died += one.code == _KILLED
        print(f"{number + 1}: {what} at {at} of {len(moments)}: {one.code}", flush=True)
        half += one.folder() not in (kind.there["folder"], kind.gone["folder"], None)
        act()
        found = one.state()
        different += found != wanted
        shutil.rmtree(one.root)
    checks = [
        at_least("kills", Kind.COUNT, [died], kills),
        at_most("folders with a part of a skill after a kill", Kind.COUNT, [half], 0),
        at_most("different ends", Kind.COUNT, [different], 0),
    ]
    return checks, {
        "moments": [len(kind.moments) for kind in kinds],
        "late_from": [kind.late for kind in kinds],
        "moments_of_a_rollback": [len(kind.back) for kind in kinds],
    }


class _Kind:
    """What happens where nobody is killed, with nothing or an older export in the place."""

    def __init__(self, root: Path, is_earlier: bool) -> None:
        self.is_earlier = is_earlier
        name = "earlier" if is_earlier else "nothing"
        self.whole = Adoption(root / name, root / "logs", earlier=is_earlier)
        before = self.whole.folder()
        self.moments = self.whole.learn()
        self.there = self.whole.state()
        undone = Adoption(root / f"{name}-undone", root / "logs", like=self.whole)
        self.back = undone.take_back()
        self.gone = undone.state()
        if self.gone["folder"] != before:
            raise SystemExit("a rollback that nobody disturbs is not byte-exact")
        first_file = self.moments.index("file")
        verdict = [at for at in range(first_file) if self.moments[at].startswith("bank-after")]
        self.late = verdict[-1] + 1


def _plan(kills: int, rng: random.Random) -> list[tuple[str, float]]:
    """Return what is killed, and after which share of its moments."""
    early = [("early", rng.random()) for _ in range(kills // 5)]
    many = kills - len(early)
    late, back = many // 2, many - many // 2
    plan = [*early, *(("late", at / late) for at in range(late))]
    return [*plan, *(("rollback", at / back) for at in range(back))]


def main() -> int:
    """Measure, and print the checks."""
    parser = argparse.ArgumentParser(description="Kill adoptions and give the command again.")
    parser.add_argument("--kills", type=int, default=50)
    with tempfile.TemporaryDirectory() as folder:
        checks, figures = measure(parser.parse_args().kills, Path(folder))
    return report(checks, **figures)


if __name__ == "__main__":
    sys.exit(main())
