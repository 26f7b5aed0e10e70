"""`learn-from-sessions` in a folder of its own, killed where a test says, and what it came to."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dying import forked
from skillwright.bank import BankStore, document_folder, write_agent_skills
from skillwright.jobs.bank.staging import STAGED, in_effect, skills_digest
from skillwright.jobs.run.bank_source import look_at_work

CONFIG = """\
models:
  target: {backend: scripted, model: coder}
  optimizer: {backend: scripted, model: clerk_analyst}
  teacher: {backend: scripted, model: coder_teacher}
"""
NAME = "learned-from-sessions"


class Adoption:
    """A bank and a folder of skills.

    Args:
        folder: Of its own.
        logs: The session logs.
        like: Begin with a copy of what this one came to.
        earlier: An older export of ours lies in the place, with a file of somebody else's in it.
        run: Runs a command: `dying.forked`, or `dying.command`.

    Attributes:
        code: The exit code of the last command; -9 where it was killed.
    """

    def __init__(
        self,
        folder: Path,
        logs: Path,
        *,
        like: "Adoption | None" = None,
        earlier: bool = False,
        run: Callable[..., tuple[int, list[str]]] = forked,
    ) -> None:
        self.root, self._logs, self._run, self.code = folder, logs, run, 0
        folder.mkdir()
        (folder / "models.yaml").write_text(CONFIG, encoding="utf-8")
        if earlier:
            old = document_folder("# Old\n\nBe brief.\n", NAME, "An old skill.")
            target = write_agent_skills(old, folder / "agent" / "skills")
            (target / "notes.bin").write_bytes(b"\xff of somebody else\r\n")
        if like is not None:
            for path in like.root.iterdir():
                copy = shutil.copytree if path.is_dir() else shutil.copy2
                copy(path, folder / path.name, **({"dirs_exist_ok": True} if path.is_dir() else {}))
            self._move(like)

    def learn(self, dies_at: int = 0) -> list[str]:
        """Give the command; return its moments."""
        words = ["--config", "models.yaml", "--output", "agent/skills", "--no-model"]
        return self._give([self._logs, *words], dies_at)

    def take_back(self, dies_at: int = 0) -> list[str]:
        """Take the latest adoption back; return the moments."""
        return self._give(["--rollback", "a test"], dies_at)

    def folder(self) -> dict[str, bytes] | None:
        """Return the bytes of the skill's files; ``None`` where there is no folder."""
        target = self.root / "agent" / "skills" / NAME
        if not target.exists():
            return None
        found = (path for path in target.rglob("*") if path.is_file())
        return {str(path.relative_to(target)): path.read_bytes() for path in sorted(found)}

    def state(self) -> dict[str, Any]:
        """Return what bank, ledger and folder hold, and what else lies beside the folder."""
        with BankStore.open(self.root / "sessions.sqlite", read_only=True) as store:
            bank = store.load()
            active = {one.id: one.text for one in bank.active}
            skills = skills_digest(bank)
        with look_at_work(self.root / "sessions.sqlite") as work:
            known = in_effect(work)
            finished = [event.payload["number"] for event in work.events(STAGED)]
        agent = self.root / "agent"
        return {
            "active": active,
            "ledger": [(one.number, one.skills == skills) for one in known],
            "finished": finished,
            "folder": self.folder(),
            "lying there": sorted(str(one.relative_to(agent)) for one in agent.rglob("*"))
            if agent.exists()
            else None,
        }

    def _give(self, words: list[Any], dies_at: int) -> list[str]:
        (self.root / "moments.log").unlink(missing_ok=True)
        watched = (self.root / "agent").resolve()
        self.code, moments = self._run(
            ["learn-from-sessions", *words], self.root, dies_at=dies_at, watched=watched
        )
        return moments

    def _move(self, like: "Adoption") -> None:
        """Let the ledger name this folder in the place of the one that was copied."""
        import sqlite3

        with sqlite3.connect(self.root / "sessions.work" / "run.sqlite") as file:
            file.execute(
                "UPDATE events SET payload = replace(payload, ?, ?)",
                (str(like.root.resolve()), str(self.root.resolve())),
            )
        file.close()
