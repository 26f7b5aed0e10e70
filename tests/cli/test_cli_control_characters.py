"""Control characters of endpoints, environments, skills and banks never reach a terminal."""

import io
import json
import logging
import re
import shutil

import pytest
import typer
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from doors import doors_settings
from mock_openai import error
from rl_world import lanes_settings
from served import served
from skillwright.bank import Add, BankStore, Refine, Retire
from skillwright.cli.app import LazyCommand, app
from skillwright.cli.versions import show
from skillwright.cli.words import PlainConsole, PlainFormatter, make_console
from skillwright.config.yaml_files import dump_yaml, read_layers
from skillwright.core import BankSkill, SkillKind, SkillStatus
from skillwright.core.fence import escaped_controls, without_controls
from skillwright.core.jsonio import dumps
from skillwright.worlds.tau_bench import TauBenchEnvConfig, UserSetting
from skillwright.worlds.tau_bench.users import HumanUser

EVIL = "EVIL\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\u2066\u200f\u061c\r\x08END"
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x80-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
WORLD = '''
from pathlib import Path

from doors import Doors

EVIL = {evil!r}


class Evil(Doors):
    """Doors {evil_doc}"""

    def init(self, prompt):
        messages, about = super().init(prompt)
        return [*messages, {{"role": "user", "content": EVIL}}], about

    def step(self, action):
        if "breaks" in self.extras:
            raise RuntimeError(EVIL)
        return super().step(action)
'''


def commands():
    """Every command there is, by its words."""

    def below(command, words):
        for name, inner in getattr(command, "commands", {}).items():
            found = inner.load() if isinstance(inner, LazyCommand) else inner
            if not found.hidden:
                yield from below(found, (*words, name))
        if not hasattr(command, "commands"):
            yield " ".join(words)

    return set(below(typer.main.get_command(app), ()))


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A folder whose tasks, environment, skill, bank and run are hostile; its files by name."""
    monkeypatch.chdir(tmp_path)
    settings = doors_settings(tmp_path)
    (tmp_path / "evil.py").write_text(WORLD.format(evil=EVIL, evil_doc=EVIL), encoding="utf-8")
    for split in ("train", "val", "test"):
        file = tmp_path / "tasks" / split / "items.json"
        items = json.loads(file.read_text("utf-8"))
        named = [
            {
                **one,
                "id": one["id"] + EVIL,
                "task_type": one["task_type"] + EVIL,
                "description": EVIL,
            }
            for one in items
        ]
        named[0]["breaks"] = True
        file.write_text(dumps(named), encoding="utf-8")
    (tmp_path / "skill.md").write_text(f"Be kind. {EVIL}\n", encoding="utf-8")
    settings["env"]["name"] = f"{tmp_path / 'evil.py'}:Evil"
    settings["run"] = {}
    settings["skill"] = {"init": "skill.md"}
    settings["rollout"] = {"retries": 0, "give_up_after": None, "max_failure_share": None}
    (tmp_path / "evil.yaml").write_text(dumps(settings), encoding="utf-8")
    evil_bank(tmp_path / "bank.sqlite")
    rows = "".join(f'text {n},"{EVIL}"\n' if n % 2 else f"text {n},plain\n" for n in range(40))
    (tmp_path / "evil.csv").write_text(f'text,"{EVIL}"\n{rows}', encoding="utf-8")
    (tmp_path / "evil.md").write_text(f"# Skills\n\n## {EVIL}\n- {EVIL} https://a.b/c\n", "utf-8")
    shutil.copy(tmp_path / "bank.sqlite", tmp_path / "other.sqlite")
    evil_skill_folder(tmp_path / "chairs")
    return tmp_path


def evil_bank(path):
    """Keep a bank with a hostile skill, pending, for lint lets it nowhere else."""
    skill = BankSkill(
        "",
        f"Title {EVIL}",
        f"Look {EVIL}",
        f"when {EVIL}",
        SkillKind.TASK_SPECIFIC,
        f"heat{EVIL}",
        status=SkillStatus.PENDING,
    )
    with BankStore.open(path) as store:
        store.commit([Add(skill)], reason=f"because {EVIL}")
        store.commit([Refine("t001", principle=f"Twice {EVIL}", reason=EVIL)], reason=EVIL)
        store.reject([Retire("t001", f"bad {EVIL}")], reason=f"refused {EVIL}")


def evil_skill_folder(folder):
    """Write an Agent Skill whose text and requests are hostile."""
    (folder / "evals").mkdir(parents=True)
    text = f"---\nname: chairs\ndescription: Helps.\n---\n\nBuy. {EVIL}\n"
    (folder / "SKILL.md").write_text(text, encoding="utf-8")
    asked = [
        {"query": f"buy a chair {EVIL} {number}", "should_trigger": True}
        if number % 2
        else {"query": f"will it rain on day {number}", "should_trigger": False}
        for number in range(24)
    ]
    (folder / "evals" / "trigger.json").write_text(dumps(asked), encoding="utf-8")


async def say_evil(body):
    """Answer as an agent, an analyst or a teacher that means harm."""
    asked = body["messages"][-1]["content"]
    if "ready" in asked:
        return "ready"
    if "## Trajectories" in asked:
        return dumps({"patch": {"edits": [{"op": "append", "content": f"Rule {EVIL}"}]}})
    return EVIL


@pytest.fixture
def hear():
    """Run a command, and return all that it writes, whatever its exit code."""

    def run(*words):
        result = CliRunner().invoke(app, [str(word) for word in words])
        if not isinstance(result.exception, SystemExit | None):
            raise result.exception
        return result.output

    return run


@pytest.fixture
def endpoint(world):
    """Put both models of the world, and a teacher, behind a hostile endpoint."""
    with served(say_evil, api_key=None) as server:
        llm = {"backend": "openai_chat", "model": "m", "base_url": server.base_url}
        file = world / "evil.yaml"
        settings = json.loads(file.read_text("utf-8"))
        settings["models"] = dict.fromkeys(("target", "optimizer", "teacher"), llm)
        file.write_text(dumps(settings), encoding="utf-8")
        yield server


@pytest.fixture
def lanes(world, endpoint):
    """Write a recipe whose tasks and models are hostile."""
    settings = lanes_settings(world / "lanes")
    llm = {"backend": "openai_chat", "model": "m", "base_url": endpoint.base_url}
    for split in ("train", "val", "test"):
        file = world / "lanes" / "tasks" / split / "items.json"
        items = [{**one, "task_type": EVIL} for one in json.loads(file.read_text("utf-8"))]
        file.write_text(dumps(items), encoding="utf-8")
    settings["models"] = {"teacher": llm, "expert": llm}
    settings["grpo"] |= {"iterations": 1}
    (world / "lanes.yaml").write_text(dumps(settings), encoding="utf-8")


# What a command shows of others, beside what the world holds: (its words, whether it must quote).
QUOTES = {
    "init": [("init evil.csv --to made.yaml", True), (f"init {EVIL}.csv", True)],
    "train": [("train evil.yaml", True), ("train evil.yaml --seeds 2", False)],
    "eval": [("eval evil.yaml", True), ("eval evil.yaml --json", True)],
    "resume": [("resume evil", True)],
    "runs show": [("runs show evil", True), ("runs show evil --json", True)],
    "runs list": [("runs list", False)],
    "runs episodes": [
        ("runs episodes evil", True),
        ("runs episodes latest --grep EVIL", True),
        ("runs episodes latest --json", True),
        (f"runs episodes latest --type {EVIL} --task {EVIL}", True),
    ],
    "runs view": [
        ("runs view latest e1", True),
        ("runs view latest e1 --json", True),
        (f"runs view latest {EVIL}", True),
    ],
    "runs export": [("runs export evil", False), (f"runs export {EVIL}", True)],
    "report": [("report evil --format md", False), (f"report {EVIL}", True)],
    "view": [(f"view {EVIL}", True)],
    "skill blame": [("skill blame evil", False), (f"skill blame {EVIL}", True)],
    "skill diff": [("skill diff evil evil", False), (f"skill diff {EVIL} evil", True)],
    "skill log": [("skill log evil", False), (f"skill log {EVIL}", True)],
    "skill show": [
        ("skill show evil@0 --json", True),
        (f"skill show evil@{EVIL}", True),
    ],
    "skill restore": [("skill restore evil@0", False), (f"skill restore {EVIL}", True)],
    "skill describe": [
        ("skill describe chairs", False),
        ("skill describe chairs --json", False),
        (f"skill describe {EVIL}", True),
    ],
    "check": [
        ("check skill.md --config evil.yaml", False),
        (f"check {EVIL} --config evil.yaml", True),
        (f"check skill.md --against {EVIL} --config evil.yaml", True),
        ("check evil --model evil.yaml", False),
    ],
    "skill export": [
        ("skill export evil.md --to agents", True),
        ("skill export evil.md --to agents --name mine --json", True),
        (f"skill export {EVIL} --to agents", True),
    ],
    "verify": [(f"verify {EVIL}", True)],
    "skill ablate": [
        ("skill ablate evil --items --margin 0.2", True),
        (f"skill ablate {EVIL}", True),
    ],
    "skill test": [
        ("skill test evil --set models.target.model=other", False),
        (f"skill test {EVIL} --config evil.yaml", True),
    ],
    "compare": [(f"compare {EVIL} evil", True)],
    "estimate": [("estimate evil.yaml", True)],
    "config show": [(f"config show evil.yaml --set skill.init={EVIL}", True)],
    "regrade": [("regrade evil", False), (f"regrade {EVIL}", True)],
    "replay": [("replay evil", False), (f"replay {EVIL}", True), (f"replay evil {EVIL}", True)],
    "fork": [("fork evil e1 --turn 0 -k 2", False), (f"fork evil {EVIL} --turn 0", True)],
    "doctor": [("doctor evil.yaml", False), (f"doctor {EVIL}.yaml", True)],
    "rl": [("rl lanes.yaml", True), ("rl evil.yaml", False)],
    "sft": [(f"sft {EVIL}.yaml", True)],
    "coevolve": [(f"coevolve {EVIL}.yaml", True)],
    "internalize": [(f"internalize {EVIL}", True)],
    "policy save": [(f"policy save {EVIL} out", True)],
    "serve": [(f"serve {EVIL}", True), (f"serve --bank {EVIL}.sqlite evil", True)],
    "learn-from-sessions": [
        (f"learn-from-sessions {EVIL}", True),
        (f"learn-from-sessions . --to claude --config {EVIL}.yaml", True),
    ],
    "env check": [("env check evil.py:Evil --items tasks/train/items.json", True)],
    "env init": [(f"env init {EVIL}", False)],
    "bank show": [("bank show t001", True), ("bank show t001 --json", True)],
    "bank log": [("bank log", True), ("bank log --json", True)],
    "bank lint": [("bank lint", True), ("bank lint evil.md", True)],
    "bank diff": [("bank diff 0", True), ("bank diff 1 2", True)],
    "bank stats": [("bank stats", False), ("bank stats evil", False)],
    "bank search": [(f"bank search {EVIL}", False), ("bank search heat", False)],
    "bank import": [("bank import evil.md --bank new.sqlite", False)],
    "bank approve": [("bank approve --without-gate why --bank new.sqlite", False)],
    "bank export": [("bank export out.md", False), ("bank export out", False)],
    "bank rollback": [("bank rollback 1 --reason why", False)],
    "bank distill": [("bank distill evil.yaml --bank third.sqlite", True)],
    "bank evolve": [("bank evolve evil.yaml --bank other.sqlite", False)],
    "data tau-bench": [(f"data tau-bench --from {EVIL} --to shop", True)],
    "data webshop": [(f"data webshop --from {EVIL} --to shop", True)],
}
SHOWS_OUR_OWN = {"demo", "models list", "env list", "data list", "bank calibrate"}


def test_every_command_is_fed():
    assert commands() == QUOTES.keys() | SHOWS_OUR_OWN


def words_of(command):
    """Split a command line, in which the hostile text is one word."""
    return [word.replace("\0", EVIL) for word in command.replace(EVIL, "\0").split()]


@pytest.mark.parametrize("command", QUOTES)
def test_no_command_writes_what_a_terminal_obeys(world, lanes, hear, command):
    if command in (
        "resume",
        "regrade",
        "replay",
        "fork",
        "report",
        "bank stats",
        "skill blame",
        "skill ablate",
        "skill log",
        "skill show",
        "skill restore",
        "check",
    ) or command.startswith("runs "):
        assert "EVIL" in hear("eval", "evil.yaml")
    if command == "bank approve":
        hear("bank", "import", "evil.md", "--bank", "new.sqlite")
    for line, quotes in QUOTES[command]:
        said = hear(*words_of(line))
        assert FORBIDDEN.findall(said) == [], line
        assert said
        if quotes:
            assert "EVIL" in said, line


def test_a_version_is_shown_to_a_terminal_without_them(world, hear, capsys, monkeypatch):
    assert "EVIL" in hear("eval", "evil.yaml")
    version = f"{world / 'runs' / 'evil'}@0"
    show(version)
    assert FORBIDDEN.findall(capsys.readouterr().out)  # a pipe gets the text as it is
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show(version)
    said = capsys.readouterr().out
    assert "EVIL" in said
    assert FORBIDDEN.findall(said) == []


def test_an_endpoint_that_refuses_with_an_escape_sequence_is_quoted_without_it(world, hear):
    async def refuse(body):
        return error(401, EVIL)

    with served(refuse, api_key=None) as server:
        llm = {"backend": "openai_chat", "model": "m", "base_url": server.base_url}
        for command in ("eval", "train", "doctor"):
            said = hear(command, "evil.yaml", "--set", f"models.target={dumps(llm)}")
            assert "EVIL" in said
            assert FORBIDDEN.findall(said) == []


def on_terminal(kind, thing):
    console = kind(file=io.StringIO(), force_terminal=True, width=80, legacy_windows=False)
    console.print(thing)
    return console.file.getvalue()


def a_table(text):
    table = Table("name", title=text)
    table.add_row(text)
    return table


@pytest.mark.parametrize("make", [str, a_table])
def test_styles_stay_on_a_terminal_and_what_others_wrote_does_not(make):
    said = on_terminal(PlainConsole, make(f"[bold]{EVIL}[/]"))
    assert said == on_terminal(Console, make(f"[bold]{without_controls(EVIL)}[/]"))
    assert "\x1b[1m" in said
    assert "\x1b]0" not in said
    assert isinstance(make_console(), PlainConsole)


def test_a_warning_that_quotes_others_holds_no_control_character(hear):
    hear("models", "list")
    assert isinstance(logging.lastResort.formatter, PlainFormatter)
    record = logging.makeLogRecord({"msg": "row %s", "args": (EVIL,)})
    assert FORBIDDEN.findall(logging.lastResort.format(record)) == []


async def test_a_person_who_plays_the_customer_sees_no_escape_sequence():
    shown = []

    def read_line(text):
        shown.append(text)
        return "yes"

    user = HumanUser(UserSetting(TauBenchEnvConfig(), "test", 0), read_line)
    await user.areset(EVIL)
    await user.astep(EVIL)
    assert [FORBIDDEN.findall(text) for text in shown] == [[], []]
    assert all("EVIL" in text for text in shown)


def test_a_configuration_is_written_with_escapes_and_read_as_it_was(tmp_path):
    values = {"a": EVIL, EVIL: ["\u2028", "plain é 漢", "\u202e"]}
    text = dump_yaml(values)
    assert FORBIDDEN.findall(text) == []
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    assert read_layers(tmp_path / "a.yaml")[-1].values == values
    assert json.loads(escaped_controls(dumps(values))) == values


def test_tabs_line_feeds_and_other_languages_stay():
    text = "a\tb\nc é 漢字 \U0001f469\u200d\U0001f680 עברית"
    assert without_controls(text) == text
