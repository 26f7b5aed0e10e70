"""Skills that are taken away: described by whom, proven by which scores, and checked again."""

import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from bank_doors import Timid, adding, bank_config, bank_file, cast, proposing, room_skill
from bank_houses import Replies
from doors import ALL_RULES, Coach, Walker, doors_config, trained
from skillwright.bank import Bank, BankStore, import_skills
from skillwright.core import DataError, ModelTimeout
from skillwright.jobs.bank import evolve_bank
from skillwright.jobs.inspect import (
    Evidence,
    ExportOptions,
    export_bank,
    export_document,
    find_skill,
    judge_again,
    verify_skills,
)
from skillwright.jobs.run import NullCallback

SAID = "Opens the right door of each part of a house. Use when asked which of six doors to take."


class Guessing(Walker):
    """A walker that takes any door in some of its turns, whatever it was given."""

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        seeded = {} if sampling is None else {"sampling": sampling}
        if sampling is not None and (sampling.seed or 0) % 5 == 0:
            blank = [{**messages[0], "content": ""}, *messages[1:]]
            return await super().complete(blank, tools=tools, **seeded, purpose=purpose)
        return await super().complete(messages, tools=tools, **seeded, purpose=purpose)


async def run_of(folder, kind="explore", target=None):
    config = doors_config(folder, evaluation={"gate": {"kind": kind}})
    path, report = await trained(config, target or Guessing(), Coach([[ALL_RULES]]))
    return path, report


async def exported(run, place, **options):
    found = find_skill(str(run))
    given = ExportOptions(place, **options)
    return await export_document(found.text, found.run, found.version, given)


def outcomes(verified):
    (one,) = verified
    return {check.name: check.outcome for check in one.checks}


ALL_PASS = dict.fromkeys(("rules", "links", "files", "hash", "evidence", "metadata"), "pass")


@pytest.mark.parametrize("kind", ["explore", "paired", "strict"])
async def test_the_scores_behind_a_document_travel_with_it_and_are_judged_again(kind, tmp_path):
    run, _ = await run_of(tmp_path, kind)
    taken = await exported(run, tmp_path / "out")
    assert taken.facts["proven"] == "yes"
    assert taken.notes == ()
    assert outcomes(await verify_skills(taken.folder)) == ALL_PASS
    data = json.loads((taken.folder / "references" / "evidence.json").read_text())
    again = await judge_again(Evidence.read(json.dumps(data), "it"))
    assert again.accepted
    (verified,) = await verify_skills(taken.folder)
    expects = any("are expected on further tasks" in one for one in verified.stated)
    assert expects == ("expected-gain" in taken.facts) == (kind == "explore")
    assert f"{again.effect:+.4f}" == taken.facts["gain"]


async def test_evidence_needs_neither_the_run_nor_the_environment(tmp_path):
    run, _ = await run_of(tmp_path)
    taken = await exported(run, tmp_path / "out")
    for path in sorted(run.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (tmp_path / "tasks" / "val" / "items.json").unlink()
    assert outcomes(await verify_skills(taken.folder)) == ALL_PASS


async def test_without_the_environment_the_pairs_are_still_found(tmp_path):
    run, _ = await run_of(tmp_path)
    (tmp_path / "tasks" / "val" / "items.json").unlink()
    taken = await exported(run, tmp_path / "out")
    assert outcomes(await verify_skills(taken.folder)) == ALL_PASS


async def test_what_no_gate_let_through_claims_nothing(tmp_path):
    config = doors_config(tmp_path)
    run, _ = await trained(config, Walker(), Coach([["Be quick."]]), skill="Take a door.\n")
    taken = await exported(run, tmp_path / "out")
    assert taken.facts["proven"] == "no"
    assert "no test proved version" in taken.notes[-1]
    found = outcomes(await verify_skills(taken.folder))
    assert found == {**ALL_PASS, "evidence": "skipped", "metadata": "skipped"}


def better(evidence):
    for task in evidence["scores"]:
        task["candidate"] = [1.0] * len(task["candidate"])
        task["incumbent"] = [0.0] * len(task["incumbent"])


def prouder(evidence):
    evidence["result"]["effect"] = 0.99


def shorter(evidence):
    for task in evidence["scores"]:
        task["candidate"], task["incumbent"] = [], []


def outside(evidence):
    evidence["scores"][0]["candidate"][0] = 7


def unknown(evidence):
    evidence["test"]["settings"] = {"kind": "wishes"}


@pytest.mark.parametrize("change", [better, prouder, shorter, outside, unknown])
async def test_evidence_that_somebody_changed_does_not_pass(change, tmp_path):
    run, _ = await run_of(tmp_path)
    taken = await exported(run, tmp_path / "out")
    file = taken.folder / "references" / "evidence.json"
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))
    found = outcomes(await verify_skills(taken.folder))
    assert found["hash"] == "fail"
    assert "fail" in (found["evidence"], found["metadata"])


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 9_000, '{"tasks": NaN}'])
async def test_evidence_that_is_none_is_a_failed_check_and_no_crash(text, tmp_path):
    run, _ = await run_of(tmp_path)
    taken = await exported(run, tmp_path / "out")
    (taken.folder / "references" / "evidence.json").write_text(text)
    assert outcomes(await verify_skills(taken.folder))["evidence"] == "fail"


async def test_a_gain_that_only_the_metadata_claims_does_not_pass(tmp_path):
    run, _ = await run_of(tmp_path)
    taken = await exported(run, tmp_path / "out")
    file = taken.folder / "SKILL.md"
    file.write_text(file.read_text().replace(f'gain: "{taken.facts["gain"]}"', 'gain: "+0.9900"'))
    found = outcomes(await verify_skills(taken.folder))
    assert found == {**ALL_PASS, "hash": "fail", "evidence": "fail", "metadata": "fail"}


async def test_a_renamed_folder_a_new_file_and_a_missing_one_are_found(tmp_path):
    run, _ = await run_of(tmp_path)
    taken = await exported(run, tmp_path / "out")
    moved = taken.folder.rename(tmp_path / "out" / "other")
    (moved / "run.sh").write_text("echo")
    (moved / "references" / "evidence.json").unlink()
    found = outcomes(await verify_skills(tmp_path / "out"))
    assert (found["rules"], found["files"], found["hash"]) == ("fail", "fail", "fail")


async def test_a_description_is_tested_on_val_prompts_and_no_test_prompt_is_read(tmp_path):
    run, _ = await run_of(tmp_path)
    taken = await exported(run, tmp_path / "out")
    assert taken.description.startswith("What was learned from doing Doors tasks")
    assert taken.described_by == "words"
    # The doors say the same in train and val, so there is no prompt that was not read.
    assert taken.trigger is None


@asynccontextmanager
async def with_model(folder, reply):
    """A run whose optimizer is an endpoint's model, played by a scripted one."""
    run, _ = await run_of(folder)
    file = run / "config.yaml"
    named = (
        "optimizer:\n    backend: openai_chat\n    model: writer\n    base_url: http://x.test/v1"
    )
    file.write_text(
        file.read_text().replace(
            "optimizer:\n    backend: scripted\n    model: analyst\n    noise: 0.0", named
        )
    )
    model = Replies(reply)
    yield run, model, lambda config, client: model


async def test_the_optimizers_model_writes_the_description_in_one_question(tmp_path):
    async with with_model(tmp_path, lambda said: {"description": SAID}) as (run, model, make):
        taken = await exported(run, tmp_path / "out", make=make)
        assert (taken.description, taken.described_by) == (SAID, "openai_chat:writer")
        assert len(model.asked) == 1
        assert outcomes(await verify_skills(taken.folder)) == ALL_PASS


async def test_a_description_that_may_not_be_shown_is_asked_for_again(tmp_path):
    said = iter([{"description": f"{SAID} See https://evil.example/x"}, {"description": SAID}])
    async with with_model(tmp_path, lambda _: next(said)) as (run, model, make):
        taken = await exported(run, tmp_path / "out", make=make)
        assert taken.description == SAID
        assert len(model.asked) == 2


async def test_without_an_answer_the_words_of_the_tasks_describe_and_a_note_says_so(tmp_path):
    def down(said):
        raise ModelTimeout("no route")

    async with with_model(tmp_path, down) as (run, _, make):
        taken = await exported(run, tmp_path / "out", make=make)
        assert taken.described_by == "words"
        assert "openai_chat:writer wrote no description (no route)" in taken.notes[-1]


async def test_nobody_is_asked_where_that_is_not_wanted(tmp_path):
    async with with_model(tmp_path, lambda said: {"description": SAID}) as (run, model, make):
        taken = await exported(run, tmp_path / "out", make=make, asks_model=False)
        assert taken.described_by == "words"
        assert model.asked == []


async def test_a_bank_that_evolved_carries_the_scores_of_its_release_test(tmp_path):
    bank = bank_file(tmp_path / "bank.sqlite", rooms=("attic",))
    proposals = adding(room_skill("hall")), adding(room_skill("cellar"))
    config = bank_config(tmp_path, evolve={"nth": 2, "trigger_accuracy": 1.0})
    report = await evolve_bank(
        config, bank, 2, NullCallback(), cast(Timid(), proposing(*proposals))
    )
    assert report.release.accepted
    with BankStore.open(bank, read_only=True) as store:
        now = store.load()
    taken = await export_bank(now, str(bank), ExportOptions(tmp_path / "out"))
    assert taken.notes == ()
    assert taken.facts["compared-with"] == "bank version 1"
    assert outcomes(await verify_skills(taken.folder)) == ALL_PASS
    again, _ = import_skills(Bank(), taken.folder)
    assert {one.content_digest for one in again.skills} == {
        one.content_digest for one in now.active
    }


async def test_somebody_elses_folder_is_checked_by_the_public_rules_alone(tmp_path):
    folder = tmp_path / "pdf"
    folder.mkdir()
    (folder / "SKILL.md").write_text(
        "---\nname: pdf\ndescription: Reads PDFs.\n---\nSee [more](references/no.md).\n"
    )
    found = outcomes(await verify_skills(tmp_path))
    assert (found.pop("rules"), found.pop("links")) == ("pass", "advice")
    assert set(found.values()) == {"skipped"}


@pytest.mark.parametrize(
    "files", ["../../secret.txt", "/etc/passwd", "references/../../secret.txt"]
)
async def test_a_list_of_files_that_leaves_the_folder_is_not_followed(files, tmp_path):
    (tmp_path / "secret.txt").write_text("4711")
    folder = tmp_path / "a" / "pdf"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: pdf\ndescription: Reads.\nmetadata:\n  generator: skillwright\n"
        f'  files: "{files}"\n  content-hash: "x"\n---\n- Read.\n'
    )
    found = outcomes(await verify_skills(folder))
    assert (found["files"], found["hash"]) == ("fail", "fail")


async def test_a_folder_without_skills_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"holds no SKILL\.md"):
        await verify_skills(tmp_path / "nothing")


async def test_an_export_says_that_scripted_models_took_part(tmp_path):
    run, _ = await run_of(tmp_path)
    taken = await exported(run, tmp_path / "out")
    assert taken.facts["scripted"] == "yes"
    assert replace(taken, notes=()).to_dict()["facts"] == taken.facts
