"""A run that is killed loses nothing that was recorded."""

import sqlite3
import subprocess
import sys

from skillwright.runs import RunFolder, RunStore

WRITER = """
import sys
from pathlib import Path
from skillwright.core import Act, EpisodeResult, EpisodeSpec, Task, Trajectory, Turn
from skillwright.runs import RunFolder, RunStore

folder = RunFolder.create(Path(sys.argv[1]), "demo", "seed: 1")
store = RunStore.open(folder.store_path)
number = 0
while True:
    prompt = ({"role": "user", "content": f"turn {number}"},)
    turn = Turn(0, prompt, Act("go"), "seen" * 500, 0.0)
    spec = EpisodeSpec(Task(f"t{number}", "guess"), seed=number)
    trajectory = Trajectory("start", (turn,))
    store.record_episode(EpisodeResult(spec, 1.0, trajectory=trajectory, key=f"k{number}"))
    store.append_event("episode", {"number": number})
    print(number, flush=True)
    number += 1
"""


def test_a_killed_run_keeps_every_episode_that_was_recorded_and_can_go_on(tmp_path):
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    last = 0
    for line in writer.stdout:
        last = int(line)
        if last == 50:
            break
    writer.kill()  # SIGKILL: no handler, no flush, no goodbye
    rest = writer.stdout.read().split()
    writer.stdout.close()
    writer.wait()
    recorded = int(rest[-1]) if rest else last

    with RunFolder.open(tmp_path / "demo") as folder, RunStore.open(folder.store_path) as store:
        for number in range(recorded + 1):
            found = store.find_episode(f"k{number}")
            assert found.spec.seed == number
            assert found.trajectory.turns[0].prompt[0]["content"] == f"turn {number}"
        assert [event.payload["number"] for event in store.events()][: recorded + 1] == list(
            range(recorded + 1)
        )
        store.append_event("resumed", {})
    connection = sqlite3.connect(tmp_path / "demo" / "run.sqlite")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
