"""Behaves like the Codex command line, well or badly, and needs no network.

`FAKE_BEHAVIOR` tells how it behaves; unset, it answers well. The answer
is the door that the mounted skill names for the room in the prompt, or, to an optimizer, the edits
that `FAKE_EDITS` names.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

VERSION = "codex-cli 0.169.0"
USAGE = {
    "input_tokens": 900,
    "cached_input_tokens": 600,
    "output_tokens": 40,
    "reasoning_output_tokens": 25,
}
KNOWN = {
    *("--json", "--skip-git-repo-check", "--ephemeral", "--ignore-user-config", "--ignore-rules"),
    *("--color", "--sandbox", "--cd", "--model", "-c", "--output-schema", "-"),
}


def say(kind, **fields):
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


def item(kind, **fields):
    say("item.completed", item={"id": "item_0", "type": kind, **fields})


def skills():
    return [path.read_text() for path in sorted(Path(".agents/skills").glob("*/SKILL.md"))]


def answer(prompt):
    if "## Trajectories" in prompt:
        texts = json.loads(os.environ.get("FAKE_EDITS", "[]"))
        step = len(re.findall(r"^Step \d+:", prompt, re.MULTILINE))
        wanted = texts[step] if step < len(texts) else []
        return json.dumps({"patch": {"edits": [{"op": "append", "content": t} for t in wanted]}})
    if "## Patches" in prompt:
        patches = json.JSONDecoder().raw_decode(prompt.split("## Patches\n")[1])[0]
        merged = {}
        for edit in (edit for patch in patches for edit in patch["edits"]):
            kept = merged.setdefault(
                edit["content"],
                {"op": edit["op"], "target": edit["target"], "content": edit["content"]},
            )
            kept.setdefault("sources", []).append(edit["id"])
        return json.dumps({"edits": list(merged.values())})
    room = re.search(r"You are in the (\w+)\.", prompt)
    if room is None:
        return "ready"
    doors = re.findall(rf"In the {room[1]} take door (\d+)\.", "\n".join(skills()))
    return doors[-1] if doors else "1"


def orphan(seconds, *, away=True):
    """Leave a process behind: in a session of its own, and the pipes still open."""
    code = (
        f"import time, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep({seconds})"
    )
    child = subprocess.Popen([sys.executable, "-c", code], start_new_session=away)
    notes = os.environ["FAKE_NOTES"]
    if os.access(notes, os.W_OK):
        Path(notes, "orphan").write_text(str(child.pid))


def main():
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(VERSION + "\n")
        return 0
    assert sys.argv[1] == "exec"
    flags = [word for word in sys.argv[2:] if word.startswith("-")]
    if strange := [flag for flag in flags if flag not in KNOWN]:
        sys.stderr.write(f"error: unexpected argument '{strange[0]}' found\n")
        return 2
    prompt = sys.stdin.read()
    behavior = os.environ.get("FAKE_BEHAVIOR", "")
    notes = os.environ.get("FAKE_NOTES", "")
    if os.access(notes, os.W_OK):  # not inside a fence
        seen = {
            "argv": sys.argv[1:],
            "env": dict(os.environ),
            "prompt": prompt,
            "cwd": str(Path.cwd()),
            "skills": skills(),
            "files": sorted(str(path) for path in Path().rglob("*") if path.is_file()),
        }
        Path(notes, f"{os.getpid()}.json").write_text(json.dumps(seen))
    say("thread.started", thread_id="t")
    say("turn.started")
    return BEHAVIORS.get(behavior, well)(prompt)


def well(prompt):
    item("reasoning", text="I look at the skill.")
    item(
        "command_execution",
        command="cat SKILL.md",
        aggregated_output="",
        exit_code=0,
        status="completed",
    )
    item("agent_message", text="Working on it.")
    item("agent_message", text=answer(prompt))
    say("turn.completed", usage=USAGE)
    return 0


def hang(prompt):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    orphan(600)
    time.sleep(600)


def lingers(prompt):
    well(prompt)
    hang(prompt)


def chatters(prompt):
    well(prompt)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        say("heartbeat")
        time.sleep(0.05)


def fails_and_lingers(prompt):
    fails_quietly(prompt)
    hang(prompt)


def flood(prompt):
    for _ in range(50):
        item("command_execution", aggregated_output="x" * 1_000_000, status="completed")
    return well(prompt)


def forks(prompt):
    orphan(600)
    return well(prompt)


def fails_quietly(prompt):
    say("error", message="We're at capacity right now. Please try again later.")
    say("turn.failed", error={"message": "We're at capacity right now. Please try again later."})
    return 0


def reconnects(prompt):
    say("error", message="Reconnecting... 1/5")
    return well(prompt)


def noisy_exit(prompt):
    well(prompt)
    return 1


def unauthorized(prompt):
    key = os.environ.get("CODEX_API_KEY", "")
    say("turn.failed", error={"message": f"unexpected status 401 Unauthorized: {key}"})
    return 1


def plan_used_up(prompt):
    say("turn.failed", error={"message": "You've hit your usage limit. Upgrade to Pro."})
    return 1


def too_long(prompt):
    say("turn.failed", error={"message": "Codex ran out of room in the model's context window."})
    return 1


def silent_limit(prompt):
    say("turn.completed", usage={"input_tokens": 0, "output_tokens": 0})
    return 0


def crash(prompt):
    sys.stderr.write("thread 'main' panicked at src/main.rs:1\n")
    return 101


def half_a_line(prompt):
    sys.stdout.write('{"type": "item.completed", "item": {"type": "agent_mess')
    return 0


def empty_once(prompt):
    if "Your last answer was empty" in prompt:
        return well(prompt)
    return empty(prompt)


def empty(prompt):
    item("agent_message", text="  ")
    say("turn.completed", usage=USAGE)
    return 0


def no_usage(prompt):
    item("agent_message", text="4")
    say("turn.completed")
    return 0


def keys(prompt):
    item("agent_message", text=" ".join(sorted(os.environ)))
    say("turn.completed", usage=USAGE)
    return 0


def tells(prompt):
    item("agent_message", text=f"It is {os.environ['HF_TOKEN']}.")
    say("turn.completed", usage=USAGE)
    return 0


def writes(prompt):
    """Try to write in several places, and say where it could."""
    places = [Path("here"), Path(os.environ["HOME"], "x"), Path(os.environ["FAKE_OUTSIDE"], "x")]
    could = []
    for name, place in zip(("work", "home", "outside"), places, strict=True):
        try:
            place.write_text("x")
        except OSError:
            continue
        could.append(name)
    item("agent_message", text=" ".join(could))
    say("turn.completed", usage=USAGE)
    return 0


BEHAVIORS = {
    each.__name__: each
    for each in (
        *(hang, flood, forks, fails_quietly, reconnects, noisy_exit, unauthorized, plan_used_up),
        *(too_long, silent_limit, crash, half_a_line, empty_once, empty, no_usage, keys, writes),
        *(tells, lingers, chatters, fails_and_lingers),
    )
}

if __name__ == "__main__":
    sys.exit(main())
