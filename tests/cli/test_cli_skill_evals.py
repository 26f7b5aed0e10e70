"""From a skill's folder with ``evals/evals.json`` to a configuration and a measured score."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest

from mock_openai import MockOpenAI, replies
from skillwright.config import load_config

ROOT = Path(__file__).resolve().parents[2]
HEAD = "---\nname: notes\ndescription: Sums up {notes}.\n---\n\n"


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def folder(cli, tmp_path):
    """Write a skill's folder with evals."""
    del cli

    def write(document, name="evals.json"):
        made = tmp_path / "skills" / "notes"
        (made / "evals").mkdir(parents=True, exist_ok=True)
        (made / "SKILL.md").write_text(f"{HEAD}# Notes\n\n- Name the owner.\n")
        (made / "evals" / name).write_text(json.dumps(document))
        return made

    return write


def cases(count, **more):
    return {
        "skill_name": "notes",
        "evals": [
            {"id": at, "prompt": f"Greet person {at}.", "must_include": f"person {at}", **more}
            for at in range(count)
        ],
    }


def test_few_cases_are_measured_several_times_and_what_they_can_prove_is_said(cli, folder):
    made = folder(cases(5))
    shown = cli("init", "skills/notes", "--offline").stdout
    assert "5 cases, 5 assertions: 5 checked by rule" in shown
    assert "how well the skill does on 5 cases; training it needs at least" in " ".join(
        shown.split()
    )
    assert "skillwright eval notes.yaml" in shown
    config = load_config("notes.yaml")
    assert config.skill.init == "skills/notes"
    assert config.run.name == "notes"
    assert config.env.config == {"prompt": "{{ prompt }}", "scorer": "assertions"}
    measured = cli("eval", "notes.yaml").stdout
    assert "5 test tasks x 4" in measured
    said = " ".join(measured.split())
    assert "Of a reply's assertions, " in said
    assert "only if at least 5 of them get better and none worse" in said
    episodes = json.loads(cli("runs", "episodes", "notes", "--json").stdout)
    assert "has 'person 0'" in json.dumps(episodes)
    assert '"checks"' not in json.dumps(episodes)
    assert "every test task 4 times" in cli("estimate", "notes.yaml", "--split", "test").stdout
    refused = cli("train", "notes.yaml", code=2).stderr
    assert "0 train and 0 val tasks" in refused
    assert made.is_dir()


def test_enough_cases_are_split_so_that_a_gain_can_be_proven(cli, folder):
    folder(cases(30))
    shown = cli("init", "skills/notes", "--offline").stdout
    assert "the release test finds a true gain" in " ".join(shown.split())
    assert "skillwright train notes.yaml" in shown
    assert load_config("notes.yaml").env.data.ratio == "1:1:1"


def test_a_model_judges_what_no_rule_checks_and_what_is_left_out_is_said(cli, folder):
    document = cases(3, expectations=["Is friendly"])
    document["evals"].append({"id": "f", "prompt": "Read.", "files": ["no.txt"], "assertions": "x"})
    folder(document)
    made = json.loads(cli("init", "skills/notes", "--json").stdout)
    assert (made["cases"], made["usable"]) == (4, 3)
    assert made["left_out"] == [
        "1 case left out (f: no.txt): a file is missing; its path begins at 'skills/notes'"
    ]
    scorer = load_config("notes.yaml").env.config["scorer"]
    assert scorer["kind"] == "assertions"
    assert scorer["model"]["backend"] == "openai_chat"
    shown = cli("init", "skills/notes", "--offline", "--to", "b.yaml").stdout
    assert "3 assertions left out: for a judge" in " ".join(shown.split())


def test_where_no_case_can_be_scored_nothing_is_written_and_init_runs_again(cli, folder, tmp_path):
    document = {"skill_name": "notes", "evals": [{"id": 1, "prompt": "Hi.", "assertions": ["So."]}]}
    folder(document)
    said = " ".join(cli("init", "skills/notes", "--offline", code=2).stderr.split())
    assert "no case can be scored, so nothing is written: 1 case left out (1): all" in said
    assert "Correct the cases, or name a --model, and run init again" in said
    assert not (tmp_path / "notes.yaml").exists()
    folder(cases(5))
    assert "wrote notes.yaml" in cli("init", "skills/notes", "--offline").stdout


def test_scripted_models_that_cannot_learn_from_the_evals_are_announced(cli, folder):
    folder(cases(30))  # each asks for words of its own
    assert "Scripted models only learn answers that many rows share" in " ".join(
        cli("init", "skills/notes", "--offline").stdout.split()
    )
    document = cases(30)
    for at, case in enumerate(document["evals"]):
        case["must_include"] = ("one", "two", "three")[at % 3]
    folder(document)
    made = json.loads(cli("init", "skills/notes", "--offline", "--json", "--to", "b.yaml").stdout)
    assert made["unlearnable"] is False
    assert (
        json.loads(cli("init", "skills/notes", "--json", "--to", "c.yaml").stdout)["unlearnable"]
        is False
    )  # a model is named


def test_near_copies_among_the_evals_count_once_in_all_commands(cli, folder):
    document = json.loads((ROOT / "examples/skills/router/evals/evals.json").read_text())
    document["evals"] = [
        {**case, "id": f"{word} {case['id']}", "prompt": f"{word} {case['prompt']}"}
        for case in document["evals"][:30]
        for word in ("Hello!", "Please!", "Thanks!")
    ]
    folder(document)
    made = json.loads(cli("init", "skills/notes", "--offline", "--json").stdout)
    count = made["proof"].split(" val tasks", 1)[0]
    assert "near copies count once" in made["proof"]
    assert f"{count} val tasks" in cli("estimate", "notes.yaml").stdout
    assert f"{count} val tasks" in cli("doctor", "notes.yaml").stdout


def test_the_skill_of_the_examples_is_trained_and_exported_offline(cli, tmp_path):
    shutil.copytree(ROOT / "examples" / "skills", tmp_path / "examples" / "skills")
    skill = "examples/skills/router"
    cli("init", skill, "--offline")
    shown = cli("train", "router.yaml").stdout
    assert "release  proven" in shown
    shown = cli("skill", "export", "router", "--to", skill, "--dry-run").stdout
    assert '+- When it says "' in shown
    cli("skill", "export", "router", "--to", skill)
    assert "pass    evidence" in cli("verify", skill).stdout
    report = json.loads(cli("resume", "router", "--json").stdout)["test"]["tables"]
    rates = {name: one["overall"]["success_rate"] for name, one in report.items()}
    assert rates["initial"] < 0.2 < 0.4 < rates["best"]


def test_the_skills_own_folder_is_no_place_for_runs(cli, folder, monkeypatch):
    monkeypatch.chdir(folder(cases(3)))
    assert "change to a folder above it" in " ".join(cli("init", ".", code=2).stderr.split())


def test_a_file_of_evals_finds_its_skill_and_one_alone_needs_none(cli, folder, tmp_path):
    folder(cases(3))
    cli("init", "skills/notes/evals/evals.json", "--offline")
    assert load_config("notes.yaml").skill.init == "skills/notes"
    (tmp_path / "greetings.json").write_text(json.dumps({"cases": cases(3)["evals"]}))
    cli("init", "greetings.json", "--offline")
    assert load_config("greetings.yaml").skill.init == ""


def test_queries_about_the_description_become_a_question(cli, folder):
    queries = [{"query": f"Sum up notes {at}", "should_trigger": at % 2 == 0} for at in range(20)]
    folder(queries)
    shown = cli("init", "skills/notes", "--offline").stdout
    assert "20 requests that should or should not open the skill" in shown
    config = load_config("notes.yaml").env.config
    assert config["answer"] == "should_trigger"
    assert "description: Sums up (notes)." in config["prompt"]


async def test_a_folder_is_measured_without_a_configuration(cli, folder, monkeypatch):
    folder(cases(5))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mock")
    async with MockOpenAI(replies(*["Hello person 1 and person 2!"] * 99)) as server:
        there = f"models.target.base_url={server.base_url}"
        words = ("eval", "--skill", "skills/notes", "--set", there)
        shown = (await asyncio.to_thread(cli, *words)).stdout
        prompts = json.dumps(server.bodies)
    assert re.search(r"40% +\[", shown), shown
    assert "Name the owner." in prompts
    assert "must_include" not in prompts
    assert "name: notes" not in prompts


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["eval"], "name a configuration, or a skill's folder with evals"),
        (["eval", "--skill", "bare"], "has a skill and no evals; write evals/evals.json"),
        (["init", "bare"], "has a skill and no evals; write evals/evals.json"),
        (["init", "empty"], "is a folder without a SKILL.md"),
        (["init", "skills/notes"], "holds no cases; write one such as"),
    ],
)
def test_folders_that_cannot_be_measured_are_refused(refused, folder, tmp_path, words, said):
    folder({"skill_name": "notes", "evals": []})
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "SKILL.md").write_text(HEAD + "x\n")
    assert said in refused(*words)
    assert not (tmp_path / "notes.yaml").exists()
