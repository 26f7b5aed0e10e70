"""Behaves like the Claude Code command line, well or badly, and needs no network.

`FAKE_BEHAVIOR` tells how it behaves; unset, it answers well.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

VERSION = "2.1.329 (Claude Code)"
SWITCHES = {
    *("-p", "--verbose", "--strict-mcp-config", "--no-session-persistence"),
    *("--exclude-dynamic-system-prompt-sections", "--disable-slash-commands"),
}
OPTIONS = {
    *("--output-format", "--model", "--tools", "--allowedTools", "--permission-mode", "--effort"),
    *("--permission-prompts", "--setting-sources", "--max-turns", "--max-budget-usd"),
    *("--system-prompt-file", "--json-schema"),
}


def arguments(words):
    given = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in SWITCHES:
            given[word] = True
        elif word in OPTIONS:
            given[word] = rest.pop(0)
        else:
            sys.stderr.write(f"error: unknown option '{word}'\n")
            sys.exit(1)
    return given


def result(given, **fields):
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "stop_reason": "end_turn",
        "num_turns": 1,
        "session_id": "s",
        "total_cost_usd": 0.0125,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        "modelUsage": {
            given["--model"]: {
                "inputTokens": 100,
                "outputTokens": 30,
                "thinkingTokens": 20,
                "cacheReadInputTokens": 700,
                "cacheCreationInputTokens": 200,
                "costUSD": 0.012,
            },
            "claude-haiku-4-5": {"inputTokens": 50, "outputTokens": 2, "costUSD": 0.0005},
        },
        **fields,
    }


def answer(prompt):
    texts = [path.read_text() for path in sorted(Path(".claude/skills").glob("*/SKILL.md"))]
    room = re.search(r"You are in the (\w+)\.", prompt)
    doors = room and re.findall(rf"In the {room[1]} take door (\d+)\.", "\n".join(texts))
    return doors[-1] if doors else "ready"


def main():
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(VERSION + "\n")
        return 0
    given = arguments(sys.argv[1:])
    prompt = sys.stdin.read()
    if prompt.lstrip().startswith("/"):
        sys.stdout.write("Unknown skill\n")
        return 0
    notes = os.environ.get("FAKE_NOTES", "")
    if os.access(notes, os.W_OK):  # not inside a fence
        system = given.get("--system-prompt-file")
        seen = {
            "argv": sys.argv[1:],
            "given": given,
            "env": dict(os.environ),
            "prompt": prompt,
            "system": Path(system).read_text() if system else None,
            "files": sorted(str(path) for path in Path().rglob("*") if path.is_file()),
        }
        Path(notes, f"{os.getpid()}.json").write_text(json.dumps(seen))
    said, code = outcome(given, prompt)
    if given["--output-format"] == "json":
        sys.stdout.write(json.dumps(said) + "\n")
        return lingered(code)
    skills = sorted(path.parent.name for path in Path(".claude/skills").glob("*/SKILL.md"))
    model = given["--model"]
    lines = [{"type": "system", "subtype": "init", "model": model, "skills": skills}]
    use = {"type": "tool_use", "name": "Skill", "input": {"skill": "x"}}
    lines.append({"type": "assistant", "message": {"content": [use]}})
    for line in (*lines, said):
        sys.stdout.write(json.dumps(line) + "\n")
    return lingered(code)


def lingered(code):
    sys.stdout.flush()
    if os.environ.get("FAKE_BEHAVIOR", "") == "lingers":
        time.sleep(600)
    return code


def outcome(given, prompt):
    match os.environ.get("FAKE_BEHAVIOR", ""):
        case "api_error":
            text = "API Error: 529 overloaded"
            return result(given, is_error=True, result=text, terminal_reason="api_error"), 0
        case "logged_out":
            return result(given, is_error=True, result="Not logged in. Please run /login"), 1
        case "max_turns":
            return result(given, subtype="error_max_turns", errors=["Reached 40 turns"]), 1
        case "prompt_too_long":
            return result(given, is_error=True, result="Prompt is too long"), 1
        case "guessed_cost":
            usage = {
                given["--model"]: {"inputTokens": 1, "outputTokens": 1, "costBasis": "unknown"}
            }
            return result(given, result="ok", modelUsage=usage), 0
        case "endless_tokens":
            usage = {given["--model"]: {"inputTokens": 10**15, "outputTokens": 1}}
            return result(given, result="ok", modelUsage=usage), 0
        case "endless_cost":
            return result(given, result="ok", total_cost_usd=1e9), 0
        case "refuses":
            return result(given, result="", stop_reason="refusal"), 0
    if "--json-schema" in given:
        return result(given, result="", structured_output={"door": 4}), 0
    return result(given, result=answer(prompt)), 0


if __name__ == "__main__":
    sys.exit(main())
