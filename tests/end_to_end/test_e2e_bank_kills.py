"""`bank evolve` that is killed at twenty moments ends as one that nobody disturbed."""

import json
import random
import sys
from functools import cache

import pytest

from bank_doors import Timid, adding, bank_config, bank_file, room_skill
from doors import ROOMS, rule
from dying import command
from killing import question_of
from mock_openai import answer_with
from served import served
from skillwright.bank import BankStore
from skillwright.config import dump_config
from skillwright.config.run import validated
from skillwright.core import Completion
from skillwright.core.jsonio import digest
from skillwright.jobs.run import has_work, look_at_work

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")

ROUNDS = 4
HARM = room_skill("attic", 9)


class Tutor:
    """Proposes what the question shows to be missing, so that its answer hangs on nothing else.

    First something harmful, then the doors of the rooms that the bank does not know.
    """

    identity = "scripted:tutor"

    async def complete(self, messages, *, tools=(), sampling=None, purpose):
        told = messages[-1]["content"]
        unknown = [room for room in ("hall", "cellar") if rule(room) not in told]
        proposed = [HARM] if HARM.principle not in told else [room_skill(one) for one in unknown]
        return Completion(json.dumps(adding(*proposed[:1])))


class KilledEvolution:
    """A command on a bank, given again and again until it comes through.

    Attributes:
        kills: How often it was killed so far.
        lost: Episodes and answers that the store once had and later had no more.
        repeated: Questions that were asked again although the store had the answer.
    """

    def __init__(self, folder, server, asked, gate):
        endpoint = {"backend": "openai_chat", "base_url": server.base_url, "api_key_env": "DOORS"}
        llms = {"target": "walker", "optimizer": "walker", "teacher": "tutor"}
        settings = bank_config(
            folder,
            evolve={"nth": 2, "trigger_accuracy": 1.0},
            evaluation={"gate": {"kind": gate}},
        ).model_dump(mode="json")
        settings["models"] = {role: {**endpoint, "model": name} for role, name in llms.items()}
        (folder / "own.yaml").write_text(dump_config(validated(settings, "own")), encoding="utf-8")
        self.bank = bank_file(folder / "bank.sqlite", ["attic"])
        self.kills = 0
        self.lost, self.repeated = set(), set()
        self.moments = []
        self._folder, self._asked = folder, asked
        self._env = {"DOORS": server.api_key}
        self._kept = set()

    def written(self):
        """Return how many rounds are in the bank's log."""
        with BankStore.open(self.bank, read_only=True) as store:
            return max((entry.step or 0 for entry in store.log()), default=0)

    def live(self, dies_at=0, of=""):
        """Give the same command again, which plays what is missing; say whether it ended."""
        known, seen = self.answered(), len(self._asked)
        words = ["bank", "evolve", "own.yaml", "--rounds", ROUNDS]
        code, self.moments = command(words, self._folder, dies_at=dies_at, of=of, env=self._env)
        self.repeated |= known & set(self._asked[seen:])
        now = self.answered()
        self.lost |= self._kept - now
        self._kept = now
        self.kills += code != 0
        return code == 0

    def answered(self):
        """Return the questions that the store beside the bank has answers for."""
        if not has_work(self.bank):
            return set()
        with look_at_work(self.bank) as store:
            played = [store.load_episode(one.id) for one in store.episodes() if not one.failure]
            turns = [turn for one in played for turn in one.trajectory.turns]
            asked = {("walker", digest(list(turn.prompt)), turn.seed) for turn in turns}
            return asked | {("tutor", call.prompt_digest, None) for call in store.calls()}

    def story(self):
        """Return all that must not depend on time or on who was killed."""
        with BankStore.open(self.bank, read_only=True) as store:
            log = [
                (str(one.event), one.before, one.version, one.step, one.reason, one.verdict,
                 one.outcomes)
                for one in store.log()
            ]  # fmt: skip
            bank = {
                "log": log,
                "versions": {number: store.load(number).digest for number in store.versions()},
                "skills": [(one.id, one.text, str(one.status)) for one in store.load().skills],
                "use": store.totals(),
            }
        with look_at_work(self.bank) as store:
            rounds = [event.payload for event in store.events("evolved")]
            episodes = sorted((one.key, one.reward) for one in store.episodes() if not one.failure)
        return {**bank, "rounds": rounds, "episodes": episodes}


@pytest.fixture(scope="module")
def world():
    asked = []
    answer = answer_with({"walker": Timid(), "tutor": Tutor()})

    async def noted(body):
        asked.append(question_of(body))
        return "ready" if len(body["messages"]) == 1 else await answer(body)

    with served(noted) as server:
        yield server, asked


@pytest.fixture(scope="module")
def undisturbed(world, tmp_path_factory):
    """Return the command that is not killed, by gate; each runs once."""

    @cache
    def ended(gate):
        found = KilledEvolution(tmp_path_factory.mktemp(gate), *world, gate)
        assert found.live()
        return found

    return ended


@pytest.mark.parametrize(
    ("gate", "versions"), [("explore", 2), pytest.param("strict", 3, marks=pytest.mark.heavy)]
)
def test_the_undisturbed_command_does_all_that_a_round_can_come_to(undisturbed, gate, versions):
    story = undisturbed(gate).story()
    actions = [one["action"] for one in story["rounds"]]
    assert actions == ["reject", "accept", "accept", "none_weak"]
    assert {one for _, one, _ in story["skills"]} == {room_skill(one).text for one in ROOMS}
    assert len(story["versions"]) == versions
    assert len(story["episodes"]) > 60


@pytest.mark.parametrize(
    ("on_the_way", "at_the_end"), [(2, 1), pytest.param(13, 7, marks=pytest.mark.heavy)]
)
def test_kills_change_nothing_and_no_question_is_paid_twice(
    world, undisturbed, tmp_path, on_the_way, at_the_end
):
    whole = undisturbed("explore")
    killed = KilledEvolution(tmp_path, *world, "explore")
    # First at any moment, then while the rounds are written into the bank.
    rng, longest = random.Random(3), len(whole.moments) // on_the_way
    while killed.kills < on_the_way:
        assert not killed.live(rng.randint(1, longest))
    writes = sum(one.startswith("bank") for one in whole.moments)
    for _ in range(at_the_end):
        assert not killed.live(rng.randint(1, writes), of="bank")
        assert killed.written() == 0
    assert killed.live()
    assert killed.kills == on_the_way + at_the_end
    assert killed.story() == whole.story()
    assert not killed.lost
    assert not killed.repeated


@pytest.mark.heavy
def test_no_round_is_half_written_where_each_is_written_by_itself(world, undisturbed, tmp_path):
    killed = KilledEvolution(tmp_path, *world, "strict")
    rng = random.Random(5)
    # At the switches between the bank and the store beside it: both must know of a round.
    while killed.written() < ROUNDS:
        killed.live(rng.randint(1, 4), of=rng.choice(["bank-after", "store-after"]))
    assert killed.kills >= 5
    assert killed.story() == undisturbed("strict").story()
    assert not killed.lost
    assert not killed.repeated
