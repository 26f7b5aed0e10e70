"""A hundred forged folders: both checkers refuse what contradicts itself, a signature the rest.

The forger knows the format and computes hashes anew where that helps. What is invented as a whole
passes both checkers, as docs/evidence.md says, and is refused by `verify --key` alone.
"""

import asyncio
import importlib.util
import json
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skillwright.bank import document_folder, write_agent_skills
from skillwright.core import EpisodeResult, EpisodeSpec, Pair, Task
from skillwright.core.jsonio import digest
from skillwright.evaluation import (
    AlphaLedger,
    PairedGate,
    ReleaseTest,
    StrictGate,
    Terms,
    in_random_order,
)
from skillwright.jobs.inspect import Evidence, verify_skills
from skillwright.jobs.inspect.evidence import (
    Measured,
    Named,
    TaskPairs,
    Test,
    hash_files,
    judge_scores,
    new_evidence,
)
from skillwright.jobs.inspect.export_skills import with_evidence
from skillwright.jobs.inspect.pairs import evidence_facts, stripped_digest

ROOT = Path(__file__).parents[2]
CHECKER = ROOT / "tools" / "check_evidence.py"
TEXT = "# Refunds\n\n- Ask for the order number first.\n- Refund the original card."
EVIDENCE = "references/evidence.json"
TERMS = Terms(seed=7)
TESTS = {"signs": ReleaseTest(), "exact": PairedGate(draws=2), "mean": StrictGate()}


def checker():
    """Import the checker as a module."""
    spec = importlib.util.spec_from_file_location("check_evidence", CHECKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = checker().check


class Agent:
    """A duel of an agent that solves tasks with given chances, 40 tasks of two types."""

    def __init__(self, seed, gain):
        self._random = random.Random(seed)
        self._chances = {f"t{at:02}": self._random.uniform(0.1, 0.6) for at in range(40)}
        self._gain = gain
        self.scores = {one: ([], []) for one in self._chances}

    @property
    def task_ids(self):
        return list(self._chances)

    async def draw(self, task_ids, n):
        return [self._pair(one) for one in task_ids for _ in range(n)]

    def _pair(self, task_id):
        old, new = (
            float(self._random.random() < self._chances[task_id] + gain) for gain in (0, self._gain)
        )
        for side, score in zip(self.scores[task_id], (old, new), strict=True):
            side.append(score)
        spec = EpisodeSpec(Task(task_id, "", task_type=kind_of(task_id)), 0, 0)
        return Pair(EpisodeResult(spec, reward=old), EpisodeResult(spec, reward=new))


def kind_of(task_id):
    return "card" if int(task_id[1:]) % 2 else "cash"


async def proven(method, *, gain=0.16, seed=0):
    """Find a decision that proved a gain, after more than one look where there are looks."""
    test = TESTS[method]
    for number in range(seed, seed + 200):
        agent = Agent(number, gain)
        verdict = await test.judge(agent, AlphaLedger(0.05, 1), TERMS)
        if verdict.accepted and (method != "signs" or len(verdict.looks) > 1):
            return evidence_of(method, verdict, scores_of(agent))
    raise AssertionError("no seed gives a proof")


def scores_of(agent):
    order = in_random_order(agent.task_ids, TERMS.seed)  # the test's, for its signs
    return [TaskPairs(one, kind_of(one), *map(tuple, agent.scores[one])) for one in order]


def evidence_of(method, verdict, scores, text=TEXT, model="openai_chat:small"):
    test = TESTS[method]
    settings = test.model_dump(mode="json") if method != "signs" else vars_of(test)
    how = Test(method, 0.05, seed_of_signs(), settings, TERMS)
    names = Named("version 0", stripped_digest("")), Named("version 3", stripped_digest(text))
    measured = [Named(name, digest(name)) for name in ("shop", "val", model, "skillwright")]
    return new_evidence(how, verdict, scores, names, Measured(*measured[:2], "", *measured[2:]))


def vars_of(test):
    return {name: getattr(test, name) for name in test.__dataclass_fields__}


def seed_of_signs():
    from skillwright.core.seeds import derive_seed

    return derive_seed("signs", TERMS.seed)


def write(evidence, place, key=None, text=TEXT, name="refunds"):
    folder = document_folder(text, name, "Handles refunds of a shop.")
    whole = replace(folder, metadata=evidence_facts(evidence))
    return write_agent_skills(with_evidence(whole, evidence, text, key), place)


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    """The files of a private and of its public key."""
    place = tmp_path_factory.mktemp("key")
    made = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    (place / "key.pem").write_bytes(
        made.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (place / "public.pem").write_bytes(
        made.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return place / "key.pem", place / "public.pem"


@pytest.fixture(scope="module")
def honest(tmp_path_factory, key):
    """Signed folders with a proof of each method."""
    place = tmp_path_factory.mktemp("honest")
    return {method: write(asyncio.run(proven(method)), place / method, key[0]) for method in TESTS}


async def refused_by(folder, public=None):
    """Return which of the two checkers refuse a folder."""
    (found,) = await verify_skills(folder, public)
    try:
        CHECK(folder)
        passes = True
    except (ValueError, LookupError, TypeError, AttributeError, OSError, ArithmeticError):
        passes = False
    evidence = next(one for one in found.checks if one.name == "evidence")
    numbers = next(one for one in found.checks if one.name == "metadata")
    ours = "fail" in (evidence.outcome, numbers.outcome)
    assert not found.holds or not ours
    return {name for name, refuses in (("verify", ours), ("check", not passes)) if refuses}


# What a forger changes in the data. Afterwards files and hashes are made to fit, unless the
# forgery is of these.


def raise_scores(data, chance):
    for task in data["scores"][: chance.randint(3, 9)]:
        task["candidate"] = [1.0] * len(task["candidate"])


def lower_incumbent(data, chance):
    for task in data["scores"][: chance.randint(8, 20)]:
        task["incumbent"] = [0.0] * len(task["incumbent"])


def flip_one_score(data, chance):
    task = chance.choice([one for one in data["scores"] if 0.0 in one["candidate"]])
    task["candidate"][task["candidate"].index(0.0)] = 1.0


def swap_sides(data, chance):
    for task in chance.sample(data["scores"], 12):
        task["incumbent"], task["candidate"] = task["candidate"], task["incumbent"]


def hide_losses(data, chance):
    for task in data["scores"]:
        pairs = list(zip(task["incumbent"], task["candidate"], strict=True))
        task["candidate"] = [None if new < old else new for old, new in pairs]


def drop_a_draw(data, chance):
    task = chance.choice(data["scores"])
    task["incumbent"].pop()
    task["candidate"].pop()


def add_a_draw(data, chance):
    task = chance.choice(data["scores"])
    task["incumbent"].append(0.0)
    task["candidate"].append(1.0)


def drop_a_task(data, chance):
    data["scores"].remove(chance.choice(data["scores"]))
    data["measured"]["ids"] = digest([one["task"] for one in data["scores"]])


def copy_a_task(data, chance):
    data["scores"].append(chance.choice(data["scores"]))
    data["measured"]["ids"] = digest([one["task"] for one in data["scores"]])


def shuffle_tasks(data, chance):
    chance.shuffle(data["scores"])


def rename_a_task(data, chance):
    chance.choice(data["scores"])["task"] = "other"


def claim_effect(data, chance):
    data["result"]["effect"] += chance.choice([0.1, 0.3, -0.05])


def claim_p(data, chance):
    data["result"]["p_value"] = 0.002 if data["result"]["p_value"] is None else 0.9


def claim_counts(data, chance):
    data["result"][chance.choice(["better", "worse", "pairs", "lost"])] += 1


def reject(data, chance):
    data["result"]["decision"] = chance.choice(["reject", "undecided"])


def smaller_alpha(data, chance):
    data["test"]["alpha"] = 0.000_001


def other_method(data, chance):
    data["test"]["method"] = "mean" if data["test"]["method"] == "signs" else "signs"


def no_gate(data, chance):
    data["test"]["settings"] = {"kind": "wishes", "margin": 2}


def few_worse(data, chance):
    data["test"]["settings"]["max_worse_tasks"] = 0


def outside(data, chance):
    data["scores"][0]["candidate"][0] = chance.choice([7, -1, 1.5])


def unknown_key(data, chance):
    data["award"] = "best skill"


def other_text(data, chance):
    data["text"]["sha256"] = digest("another text")


def other_lines(data, chance):
    data["text"]["lines"] = [1, 2]


def less_files(data, chance):
    data["files"] = {}


def other_model(data, chance):
    data["measured"]["model"]["name"] = "openai_chat:large"


def other_incumbent(data, chance):
    data["compared_with"]["name"] = "version 2"


LIES = [
    raise_scores,
    lower_incumbent,
    flip_one_score,
    swap_sides,
    hide_losses,
    drop_a_draw,
    add_a_draw,
    drop_a_task,
    copy_a_task,
    shuffle_tasks,
    rename_a_task,
    claim_effect,
    claim_p,
    claim_counts,
    reject,
    no_gate,
    few_worse,
    outside,
    unknown_key,
    other_text,
    other_lines,
    less_files,
    other_model,
    other_incumbent,
    smaller_alpha,
    other_method,
]
CONTRADICTIONS = [
    *((method, lie, True) for method in ("signs", "exact") for lie in LIES),
    *(("signs", lie, False) for lie in LIES),
]


def forge(folder, place, lie, hashes, seed):
    """Copy a folder, and change its evidence.

    Args:
        folder: The honest folder.
        place: Where the forgery is written.
        lie: Changes the data.
        hashes: Whether the hash of the whole is computed anew.
        seed: Chooses the details.
    """
    forged = place / folder.name
    shutil.copytree(folder, forged)
    data = json.loads((forged / EVIDENCE).read_text())
    lie(data, random.Random(seed))
    if hashes:
        data["sha256"] = seal(data)
    (forged / EVIDENCE).write_text(json.dumps(data))
    return forged


def seal(data):
    return digest({key: one for key, one in data.items() if key not in ("sha256", "signature")})


@pytest.mark.parametrize("number", range(len(CONTRADICTIONS)))
async def test_evidence_that_contradicts_itself_is_refused_by_both(number, honest, tmp_path):
    method, lie, hashes = CONTRADICTIONS[number]
    forged = forge(honest[method], tmp_path, lie, hashes, number)
    assert await refused_by(forged) == {"verify", "check"}, (method, lie.__name__, hashes)


def other_body(folder, evidence):
    edit(folder / "SKILL.md", "original card", "card of the caller")


def other_body_with_its_hash(folder, evidence):
    other_body(folder, evidence)
    evidence["files"] = files_now(folder)


def other_metadata(folder, evidence):
    edit(folder / "SKILL.md", 'gain: "+', 'gain: "+9')


def other_metadata_with_its_hash(folder, evidence):
    other_metadata(folder, evidence)
    evidence["files"] = files_now(folder)


def other_tools(folder, evidence):
    edit(folder / "SKILL.md", "metadata:\n", 'allowed-tools: "Bash"\nmetadata:\n')


def new_script(folder, evidence):
    (folder / "scripts").mkdir()
    (folder / "scripts" / "run.sh").write_text("rm -rf ~")


def cut(folder, evidence):
    return (folder / EVIDENCE).read_text()[:900]


def empty(folder, evidence):
    return ""


def newer(folder, evidence):
    evidence["version"] = 2


def another_format(folder, evidence):
    evidence["format"] = "someone.else"


FOLDERS = [
    other_body,
    other_body_with_its_hash,
    other_metadata,
    other_metadata_with_its_hash,
    other_tools,
    new_script,
    cut,
    empty,
    newer,
    another_format,
]


def edit(file, old, new):
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


def files_now(folder):
    from skillwright.jobs.inspect.evidence import files_of

    return hash_files(files_of(folder))


@pytest.mark.parametrize("change", FOLDERS, ids=lambda one: one.__name__)
async def test_a_folder_that_does_not_fit_its_evidence_is_refused_by_both(change, honest, tmp_path):
    forged = tmp_path / "refunds"
    shutil.copytree(honest["signs"], forged)
    data = json.loads((forged / EVIDENCE).read_text())
    text = change(forged, data)
    data["sha256"] = seal(data)
    (forged / EVIDENCE).write_text(json.dumps(data) if text is None else text)
    assert await refused_by(forged) == {"verify", "check"}


async def test_the_evidence_of_another_skill_is_refused_by_both(honest, tmp_path):
    theirs = write(await proven("signs", seed=300), tmp_path, text="# Other\n\n- Be quick.")
    shutil.copy(honest["signs"] / EVIDENCE, theirs / EVIDENCE)
    assert await refused_by(theirs) == {"verify", "check"}


INVENTED = 100 - len(CONTRADICTIONS) - len(FOLDERS) - 1


@pytest.mark.parametrize("number", range(INVENTED))
async def test_what_is_invented_as_a_whole_is_refused_by_its_signature_alone(
    number, honest, tmp_path, key
):
    method = ["signs", "exact", "mean"][number % 3]
    evidence = await proven(method, gain=0.3, seed=1_000 + number)
    forged = write(evidence, tmp_path)
    if number % 2:  # the signature of the honest folder, which is of another evidence
        theirs = json.loads((honest[method] / EVIDENCE).read_text())["signature"]
        data = json.loads((forged / EVIDENCE).read_text()) | {"signature": theirs}
        (forged / EVIDENCE).write_text(json.dumps(data))
    assert await refused_by(forged) == set()
    (found,) = await verify_skills(forged, key[1])
    assert {one.name for one in found.checks if one.outcome == "fail"} >= {"signature"}
    assert not found.holds


def test_there_are_a_hundred_forgeries():
    assert len(CONTRADICTIONS) + len(FOLDERS) + 1 + INVENTED == 100
    assert INVENTED >= 10


async def test_honest_folders_pass_both_checkers_and_their_key(honest, key):
    for folder in honest.values():
        assert await refused_by(folder, key[1]) == set()
        (found,) = await verify_skills(folder, key[1])
        assert found.holds, found.checks


@pytest.mark.parametrize("method", TESTS)
def test_the_checker_needs_nothing_but_the_standard_library(method, honest):
    command = [sys.executable, "-I", "-S", CHECKER, honest[method]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{method}: gain +0.")
    assert len(CHECKER.read_text().splitlines()) <= 120


def test_evidence_keeps_the_published_schema(honest):
    file = ROOT / "src/skillwright/jobs/inspect/evidence.schema.json"
    schema = json.loads(file.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for folder in honest.values():
        data = json.loads((folder / EVIDENCE).read_text())
        jsonschema.validate(data, schema)
        assert set(schema["properties"]) == set(data)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(data | {"version": 2}, schema)


async def test_stored_scores_are_judged_as_the_gate_judged_them(honest):
    for folder in honest.values():
        evidence = Evidence.read((folder / EVIDENCE).read_text(), "it")
        assert (await judge_scores(evidence.test, evidence.scores)).accepted
