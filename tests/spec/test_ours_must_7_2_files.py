"""Keys, files, several runs and bad settings: what the original does, and ours must not."""

import json
import os

import pytest
from spec_worlds import everything_written, python

from doors import (
    ALL_RULES,
    ALL_WRONG,
    Coach,
    Doors,
    Walker,
    doors_config,
    story,
    trained,
)
from skillwright.core import (
    ConfigError,
)
from skillwright.core.concurrency import together
from skillwright.core.jsonio import write_text
from skillwright.core.secrets import redact
from skillwright.datasets import SplitDataLoader, SplitError
from skillwright.jobs.run import StepDecided
from skillwright.textopt import (
    build_scheduler,
    parse_pair_policy,
    parse_update_mode,
)

CANARY = "zq-canary-0123456789abcdef"
KEYS = (
    "azure_openai_api_key",
    "qwen_chat_api_key",
    "minimax_api_key",
    "OPENAI_API_KEY",
    "hf_token",
)


class Leaky(Doors):
    """Tells its settings to whoever opens a door."""

    def step(self, action):
        self.turns += 1
        return self.reply(f"Locked. {json.dumps(self.env_config)}")


@pytest.mark.parametrize("name", KEYS)
def test_7_2_04_keys_are_redacted_by_pattern(name):
    assert CANARY not in json.dumps(redact({"model": {name: CANARY}, "argv": f"--{name}={CANARY}"}))


@pytest.mark.parametrize("place", ["model", "variable", "environment"])
async def test_7_2_04_no_key_is_in_anything_that_a_run_writes(tmp_path, monkeypatch, place):
    data = {"kind": "split_dir", "path": str(tmp_path / "tasks")}
    env = {"name": f"{__file__}:Leaky", "max_turns": 2, "data": data, "config": {"note": CANARY}}
    target = {"backend": "openai_chat", "model": "household"}
    if place == "model":
        target["api_key"] = CANARY
    if place == "variable":
        monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    if place == "environment":
        env["config"] = {"search": [{"api_key": CANARY}]}
    models = {"target": target, "optimizer": {"backend": "scripted", "model": "analyst"}}
    config, exported = doors_config(tmp_path, env=env, models=models), dict(os.environ)
    plan = [[f"The key is {CANARY}."], []]
    path, _ = await trained(config, Walker(), Coach(plan), skill=f"Never say {CANARY}.")
    written = everything_written(path)
    assert any("The key is <redacted>." in text for text in written)  # so the canary was there
    assert not [text[:200] for text in written if CANARY in text]
    assert dict(os.environ) == exported  # and no child of this process inherits it


def test_7_2_05_a_write_that_fails_leaves_the_old_file_whole_and_nothing_else(tmp_path):
    file = tmp_path / "best_skill.md"
    write_text(file, "Öffne die Tür.\n")
    with pytest.raises(UnicodeEncodeError):
        write_text(file, "half a pair \ud800")
    assert file.read_bytes() == "Öffne die Tür.\n".encode()
    assert list(tmp_path.iterdir()) == [file]


UNDER_ANY_LOCALE = """
import asyncio, sys, warnings
from pathlib import Path
warnings.filterwarnings("error", category=EncodingWarning, module="skillwright")
from doors import Coach, Walker, doors_config, resumed, trained
config = doors_config(Path(sys.argv[1]))
path, _ = asyncio.run(trained(config, Walker(), Coach([["\\u00d6ffne \\u2603."], []])))
asyncio.run(resumed(path, Walker(), Coach([])))
"""


def test_7_2_05_no_file_is_opened_by_the_locale_of_the_machine(tmp_path):
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = python("-X", "warn_default_encoding", "-c", UNDER_ANY_LOCALE, str(tmp_path), **locale)
    assert done.returncode == 0, done.stderr
    skill = tmp_path / "runs" / "doors" / "skills" / "skill_v0001.md"
    assert "Öffne ☃." in skill.read_text(encoding="utf-8")


CONSOLE = "from skillwright.cli import main; main()"


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
async def test_7_2_05_a_console_that_cannot_write_a_name_shows_it_escaped(tmp_path, encoding):
    path = await snowy_run(tmp_path)
    shown = python("-c", CONSOLE, "runs", "show", str(path), PYTHONIOENCODING=encoding)
    assert shown.returncode == 0, shown.stderr
    assert "\\u2603" in shown.stdout


async def snowy_run(folder):
    """Train on tasks whose task type has a name that few consoles can write."""
    config = doors_config(folder)
    file = folder / "tasks" / "test" / "items.json"
    text = file.read_text(encoding="utf-8").replace('"task_type": "attic"', '"task_type": "\u2603"')
    file.write_text(text, encoding="utf-8")
    path, _ = await trained(config, Walker(), Coach([]))
    return path


async def test_7_2_05_what_happens_is_told_as_typed_events(tmp_path):
    class Listener:
        def __init__(self):
            self.events = []

        def on_event(self, event):
            self.events.append(event)

    listener = Listener()
    await trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES], []]), callback=listener)
    decided = [event for event in listener.events if isinstance(event, StepDecided)]
    assert [event.action for event in decided] == ["accept", "skip_no_patches"]


async def test_7_2_06_two_runs_in_one_process_do_not_see_each_other(tmp_path):
    plans = {"one": ([[ALL_RULES], []], "Be kind."), "two": ([[ALL_WRONG], ["Be quick."]], "")}

    async def run(folder, name):
        (folder / name).mkdir(parents=True)
        plan, skill = plans[name]
        config = doors_config(folder / name, run={"seed": len(skill)})
        path, _ = await trained(config, Walker(), Coach(plan), skill=skill)
        return story(path)

    alone = [await run(tmp_path / "alone", name) for name in plans]
    assert await together(run(tmp_path / "both", name) for name in plans) == alone


def loaded(**settings):
    loader = SplitDataLoader(**settings)
    loader.setup({})


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: SplitDataLoader().get_split_items("vall"), "no split is called 'vall'"),
        (lambda: parse_update_mode("rewritten"), "rewrit"),
        (lambda: parse_pair_policy("mixd"), "mixed"),
        (lambda: build_scheduler("cosin"), "cosine"),
        (lambda: loaded(), "data_path is empty"),
        (lambda: loaded(split_mode="split_dir"), "split_dir is empty"),
        (lambda: loaded(split_mode="folder"), "split_mode must be"),
        (lambda: loaded(data_path="x.json", split_ratio="1::2:3"), "split_ratio must be"),
    ],
)
def test_7_2_07_what_is_unknown_or_empty_is_an_error(ask, says):
    with pytest.raises((ConfigError, SplitError, ValueError), match=says):
        ask()


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"train": {"epoch": 1}}, "epochs"),
        ({"optimizer": {"skill_update_mode": "patches"}}, "patch"),
        ({"evaluation": {"gate": {"kind": "strict", "metric": "hrad"}}}, "hard"),
    ],
)
def test_7_2_07_an_unknown_key_or_mode_of_a_configuration_is_an_error(tmp_path, section, says):
    with pytest.raises(ConfigError, match=says):
        doors_config(tmp_path, **section)
