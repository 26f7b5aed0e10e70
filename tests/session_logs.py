"""Session logs of Claude Code, Codex and OpenCode, written here in the forms that they document.

    session = Talk("2026-11-02T09:00:00+00:00", "/work/shop")
    session.user("Run the tests").ran("npm test", 1, "no such script").user("Use pnpm, not npm.")
    session.claude(folder); session.codex(folder); session.export(folder); session.tree(folder)

`ordinary(folder)` writes eight sessions of one project in which users correct the same two habits.
"""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self


class Talk:
    """A session that is said step by step, and written in any of the forms.

    Args:
        began: When, ISO 8601.
        project: The folder that the agent worked in.
        name: The session's id.
    """

    def __init__(self, began: str, project: str = "/work/shop", name: str = "") -> None:
        self.began = datetime.fromisoformat(began)
        self.project = project
        self.name = name or f"session-{began}".replace(":", "").replace("+", "-")
        self.steps: list[tuple[Any, ...]] = []

    def user(self, text: str) -> Self:
        self.steps.append(("user", text))
        return self

    def agent(self, text: str) -> Self:
        self.steps.append(("agent", text))
        return self

    def ran(self, command: str, code: int, output: str = "") -> Self:
        self.steps.append(("ran", command, code, output))
        return self

    def tool(self, name: str, output: str, path: str = "README.md") -> Self:
        self.steps.append(("tool", name, output, path))
        return self

    def stopped(self) -> Self:
        self.steps.append(("stopped",))
        return self

    def _time(self, number: int) -> datetime:
        return self.began + timedelta(seconds=number)

    def claude(self, folder: Path, **extra: Any) -> Path:
        """Write a log of Claude Code; ``extra`` are more fields of every line."""
        lines: list[dict[str, Any]] = [{"type": "summary", "summary": "A talk", "leafUuid": "x"}]
        parent = None
        for number, step in enumerate(self.steps):
            for place, (kind, content) in enumerate(_claude(step, number)):
                own = f"{self.name}-{number}-{place}"
                line = {
                    "parentUuid": parent,
                    "isSidechain": False,
                    "userType": "external",
                    "cwd": self.project,
                    "sessionId": self.name,
                    "version": "2.1.0",
                    "gitBranch": "main",
                    "type": kind,
                    "message": {"role": kind, "content": content},
                    "uuid": own,
                    "timestamp": self._time(number).isoformat().replace("+00:00", "Z"),
                    **extra,
                }
                parent = own
                lines.append(line)
        return _lines(folder / "claude" / f"{self.name}.jsonl", lines)

    def codex(self, folder: Path) -> Path:
        """Write a rollout of Codex."""
        stamp = self.began.isoformat().replace("+00:00", "Z")
        meta = {"id": self.name, "timestamp": stamp, "cwd": self.project, "cli_version": "0.160.0"}
        lines = [{"timestamp": stamp, "type": "session_meta", "payload": meta}]
        for number, step in enumerate(self.steps):
            now = self._time(number).isoformat().replace("+00:00", "Z")
            lines += [
                {"timestamp": now, "type": kind, "payload": payload}
                for kind, payload in _codex(step, number)
            ]
        day = self.began.strftime("%Y/%m/%d")
        return _lines(folder / "codex" / day / f"rollout-{self.name}.jsonl", lines)

    def messages(self) -> list[dict[str, Any]]:
        """Return the messages of OpenCode, with their parts."""
        found = []
        for number, step in enumerate(self.steps):
            role, part = _opencode(step)
            info = {
                "id": f"msg_{self.name}_{number:03d}",
                "sessionID": self.name,
                "role": role,
                "time": {"created": round(self._time(number).timestamp() * 1000)},
            }
            if step[0] == "stopped":
                info["error"] = {"name": "MessageAbortedError", "data": {}}
            parts = [{"id": f"prt_{self.name}_{number:03d}", "messageID": info["id"], **part}]
            found.append({"info": info, "parts": parts if part else []})
        return found

    def info(self) -> dict[str, Any]:
        """Return what OpenCode knows of the session."""
        created = round(self.began.timestamp() * 1000)
        times = {"created": created, "updated": created}
        return {"id": self.name, "directory": self.project, "title": "A talk", "time": times}

    def export(self, folder: Path) -> Path:
        """Write what ``opencode export`` prints."""
        path = folder / "opencode" / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {"info": self.info(), "messages": self.messages()}
        path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        return path

    def tree(self, folder: Path) -> Path:
        """Write the files of an OpenCode before 1.2."""
        storage = folder / "opencode" / "storage"
        files = {storage / "session" / "global" / f"{self.name}.json": self.info()}
        for one in self.messages():
            name = one["info"]["id"]
            files[storage / "message" / self.name / f"{name}.json"] = one["info"]
            for part in one["parts"]:
                files[storage / "part" / name / f"{part['id']}.json"] = part
        for path, value in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value), encoding="utf-8")
        return storage


def _lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines), encoding="utf-8")
    return path


def _claude(step: tuple[Any, ...], number: int) -> list[tuple[str, Any]]:
    match step:
        case "user", text:
            return [("user", text)]
        case "agent", text:
            return [("assistant", [{"type": "text", "text": text}])]
        case "stopped", *_:
            text = "[Request interrupted by user]"
            return [("user", [{"type": "text", "text": text}])]
        case "ran", command, code, output:
            name, given = "Bash", {"command": command}
            said = f"Exit code {code}\n{output}" if code else output
        case kind, name, output, path:
            assert kind == "tool"
            given, said, code = {"file_path": path}, output, 0
    call = f"toolu_{number}"
    result = {"type": "tool_result", "tool_use_id": call, "content": said, "is_error": bool(code)}
    return [
        ("assistant", [{"type": "tool_use", "id": call, "name": name, "input": given}]),
        ("user", [result]),
    ]


def _codex(step: tuple[Any, ...], number: int) -> list[tuple[str, dict[str, Any]]]:
    match step:
        case "user", text:
            content = [{"type": "input_text", "text": text}]
            return [
                ("response_item", {"type": "message", "role": "user", "content": content}),
                ("event_msg", {"type": "user_message", "message": text}),
            ]
        case "agent", text:
            content = [{"type": "output_text", "text": text}]
            return [("response_item", {"type": "message", "role": "assistant", "content": content})]
        case "stopped", *_:
            return [("event_msg", {"type": "turn_aborted", "reason": "interrupted"})]
        case "ran", command, code, output:
            name, given = "shell", {"command": ["bash", "-lc", command]}
            said = json.dumps({"output": output, "metadata": {"exit_code": code}})
        case kind, name, output, path:
            assert kind == "tool"
            given, said = {"path": path}, output
    call = f"call_{number}"
    asked = {"type": "function_call", "name": name, "arguments": json.dumps(given), "call_id": call}
    return [
        ("response_item", asked),
        ("response_item", {"type": "function_call_output", "call_id": call, "output": said}),
    ]


def _opencode(step: tuple[Any, ...]) -> tuple[str, dict[str, Any]]:
    match step:
        case "user", text:
            return "user", {"type": "text", "text": text}
        case "agent", text:
            return "assistant", {"type": "text", "text": text}
        case "ran", command, code, output:
            state = {
                "status": "completed",
                "input": {"command": command},
                "output": output,
                "metadata": {"exit": code},
            }
            return "assistant", {"type": "tool", "tool": "bash", "callID": command, "state": state}
        case "tool", name, output, path:
            state = {"status": "completed", "input": {"filePath": path}, "output": output}
            return "assistant", {"type": "tool", "tool": name, "callID": path, "state": state}
    return "assistant", {}


PNPM = "No, use pnpm, not npm."
RUFF = "We use ruff instead of flake8 here."
# What is asked, what the agent runs for it, how that ends, and what the user says then.
_ASKED = (
    (
        ("Run the tests of the cart module", "npm test -- cart", 1, PNPM),
        ("Lint the payment code", "flake8 payment", 0, RUFF),
        ("Format the checkout page", "black checkout", 0, "Thanks."),
    ),
    (
        ("Install the date library", "npm add date-fns", 0, PNPM),
        ("Check the whole suite before we merge", "npm test", 1, PNPM),
    ),
    (
        ("Are there lint warnings in the parser?", "flake8 parser", 1, RUFF),
        ("Commit the rename of the order class", "git commit -m rename", 0, "Perfect."),
    ),
    (
        ("Build the shop for the demo", "npm run build", 0, PNPM),
        ("Run the specs of the address form", "pnpm test address", 0, "That works."),
    ),
    (
        ("Please test the discount rules", "npm test discount", 1, PNPM),
        ("Lint everything that changed", "flake8 .", 0, RUFF),
        ("Add a library for charts", "npm add chart.js", 0, PNPM),
    ),
    (
        ("Run the tests for refunds", "npm test refunds", 1, PNPM),
        ("Bundle the admin pages", "npm run build admin", 0, PNPM),
        ("Show me the lint warnings of the API", "flake8 api", 1, RUFF),
    ),
    (
        ("Does the login suite pass?", "npm test login", 0, PNPM),
        ("Install the mail package", "npm add mailer", 0, PNPM),
        ("Commit what we have", "git commit -m work", 0, "Great."),
    ),
    (
        ("Run the tests of the search box", "npm test search", 1, PNPM),
        ("Lint the new helpers", "flake8 helpers", 0, RUFF),
    ),
)


def ordinary(folder: Path) -> list[Talk]:
    """Write eight sessions of one project: four of Claude Code, three of Codex, one of OpenCode."""
    talks = []
    for day, asked in enumerate(_ASKED, start=2):
        talk = Talk(f"2026-11-{day:02d}T09:00:00+00:00", name=f"shop-{day:02d}")
        for request, command, code, answer in asked:
            talk.user(request).tool("Read", f"# Notes of day {day}\nNothing of use.")
            talk.ran(command, code, "done" if code == 0 else "error: missing script")
            talk.agent("It is done.").user(answer)
        talks.append(talk)
        write = (talk.claude, talk.codex, talk.claude, talk.codex)[day % 4]
        (talk.export if day == 5 else write)(folder)
    return talks
