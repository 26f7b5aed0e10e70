"""Fake command lines for the tests of executors, and notes of how they were called."""

import json

import pytest

from fake_clis import install
from skillwright.core import TurnContext
from skillwright.models import HttpClient, make_model, parse_model_config

# Other people's keys; none may reach a program that has no need of it.
CANARIES = {
    name: f"canary-{name.lower()}-0123456789"
    for name in ("OPENAI_API_KEY", "MINIMAX_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY")
}
SKILL = "In the attic take door 4."
ASKED = "You are in the attic. There are doors 1 to 6."
MESSAGES = (
    {"role": "system", "content": f"Answer with the number of a door.\n\n## Skill\n\n{SKILL}"},
    {"role": "user", "content": ASKED},
)


def turn(skill=SKILL):
    return TurnContext(MESSAGES, seed=7, skill=skill)


class Fakes:
    """Installs fakes and makes models of them."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.notes = folder / "notes"
        self.notes.mkdir()
        self.outside = folder / "outside"
        self.outside.mkdir()
        self._monkeypatch = monkeypatch
        for name in ("CODEX_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(name, f"own-{name.lower()}-0123456789")
        for name in ("CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", "CODEX_ACCESS_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in CANARIES.items():
            monkeypatch.setenv(name, value)

    def settings(self, backend, behavior="", **settings):
        name = "codex" if backend == "codex_exec" else "claude"
        program = install(
            name,
            self.folder / "bin",
            FAKE_BEHAVIOR=behavior,
            FAKE_NOTES=str(self.notes),
            FAKE_OUTSIDE=str(self.outside),
        )
        known = {"backend": backend, "model": "m-1", "path": str(program), "timeout_s": 60}
        if backend != "claude_chat":
            # Not fenced, unless a test is about that: a fence hides the notes.
            known["isolation"] = "none"
        return {**known, **settings}

    def unfence(self):
        """Let this machine be one without bubblewrap."""
        self._monkeypatch.setattr(
            "skillwright.plugins.executors.model.why_no_fence", lambda *, nested: "no bwrap"
        )

    def make(self, backend, behavior="", **settings):
        async def at_once(seconds):
            del seconds

        config = parse_model_config(self.settings(backend, behavior, **settings))
        return make_model(config, HttpClient(), sleep=at_once)

    def seen(self):
        """What the runs of the fakes saw, each."""
        return [json.loads(file.read_text()) for file in sorted(self.notes.glob("*.json"))]

    def orphan(self):
        return int((self.notes / "orphan").read_text())


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    """Fakes in a folder, with canaries in the environment."""
    return Fakes(tmp_path, monkeypatch)


__all__ = ["ASKED", "CANARIES", "MESSAGES", "SKILL", "Fakes", "fakes", "turn"]
