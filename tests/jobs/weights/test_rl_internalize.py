"""Skills are distilled into the weights, and retired only if they are proven not to be missed."""

import re
from dataclasses import replace
from html import unescape
from io import StringIO

import pytest
from rich.console import Console
from starlette.testclient import TestClient

from policy.tiny_models import tiny_model, tiny_tokenizer
from rl_world import (
    COMMANDS,
    ROOMS,
    Lanes,
    Notebook,
    Obedient,
    ObedientMaker,
    Stopped,
    Tutor,
    lanes_config,
    recipe,
    resumed,
    rule,
    story,
    write_tasks,
)
from skillwright.bank import Bank, BankStore
from skillwright.cli.rl_tables import show_rl
from skillwright.config import load_rl_config
from skillwright.core import BankSkill, ConfigError, SkillKind, SkillStatus
from skillwright.dashboard import html_report, make_app
from skillwright.dashboard.app import COOKIE
from skillwright.evaluation import Decision
from skillwright.jobs.run import EpisodeFinished
from skillwright.jobs.weights import (
    INTERNALIZED,
    PolicyJudged,
    SkillsInternalized,
    past_events,
    restore,
)
from skillwright.jobs.weights.bank import starting_bank
from skillwright.jobs.weights.internalize import choose_skills, internalizing
from skillwright.jobs.weights.preflight import examine_rl, preflight_rl
from skillwright.policy import LossReport, Row
from skillwright.policy.hf import HfPolicy
from skillwright.runs import RunStore

_ROOM = re.compile(r"You are in the (\w+)\.")


def _next_door(match):
    return f"door {int(match[1]) % len(COMMANDS) + 1}"


class Pupil(Obedient):
    """A policy that keeps what it was shown without a rule: the door of each room.

    Args:
        learns: Whether it does; else nothing of it stays.
    """

    def __init__(self, learns=True):
        super().__init__()
        self.doors, self.shown, self._learns = {}, [], learns

    @property
    def identity(self):
        return f"pupil:{self.steps}:{sorted(self.doors.items())}"

    def sample(self, contexts, *, temperature):
        return super().sample([self._reminded(one) for one in contexts], temperature=temperature)

    def _reminded(self, context):
        lines = [rule(room, door) for room, door in self.doors.items()]
        return replace(context, skill="\n".join([*lines, context.skill]))

    def target(self, context, text):
        room = _ROOM.search(context.messages[1]["content"])[1]
        told = "\n".join(one["content"] for one in context.messages) + context.skill
        self.shown.append((room, f"In the {room} take door" in told))
        chosen = COMMANDS.index(text)
        about = (room, chosen + 1, f"In the {room} take door" in told)
        return Row(about, (chosen,), (0.0,), (True,), self.encoding)

    def forward_backward(self, rows, loss):
        untold = [one.context for one in rows if isinstance(one.context, tuple)]
        if self._learns and self.reference:
            self.doors |= {room: door for room, door, told in untold if not told}
        return super().forward_backward(rows, loss) if rows else LossReport()

    def state(self):
        return {**super().state(), "doors": dict(self.doors)}

    def load(self, state):
        super().load(state)
        self.doors = dict(state["doors"])


class Homes(Lanes):
    """Each room is a place of its own, whose rules no other room is given."""

    @staticmethod
    def scope(task):
        return task.extras["room"]


def bank_of_places(folder, *rooms):
    """Keep a bank with a rule for each room, which holds there alone."""
    with BankStore.open(folder / "places.sqlite") as store:
        skills = tuple(
            BankSkill(f"t00{n}", room, rule(room, ROOMS.get(room, 3)), "always", TASK, scope=room)
            for n, room in enumerate(rooms, start=1)
        )
        store.adopt(Bank(1, skills), reason="made")
    return {
        "env": {"name": f"{__file__}:Homes"},
        "bank": {"start": str(folder / "places.sqlite"), "delta": -1.0},
        "distill": None,
    }


TASK = SkillKind.TASK_SPECIFIC
INTERNALIZE = {"skills": ["attic"], "margin": 0.3, "steps": 4, "episodes": 2, "batch_rows": 8}


def config_of(folder, **sections):
    folder.mkdir(exist_ok=True)
    if not (folder / "tasks").is_dir():
        write_tasks(folder / "tasks", val=24)
    sections = {
        "grpo": {"iterations": 2},
        "evolve": None,
        "internalize": INTERNALIZE,
        "evaluation": {"gate": {"kind": "explore"}, "select": "last"},
        **sections,
    }
    return lanes_config(folder, **sections)


async def played(folder, callback=None, policy=None, tutor=None, **sections):
    config = config_of(folder, **sections)
    maker = ObedientMaker(config, policy or Pupil())
    tutor = tutor or Tutor(first=("attic", "cellar", "hall"))
    return config, *(await recipe(config, callback, maker=maker, tutor=tutor))


async def test_a_skill_that_the_weights_have_learned_is_retired_and_they_are_released(tmp_path):
    notes, policy = Notebook(), Pupil()
    config, path, report = await played(tmp_path, notes, policy)
    made = report.state.internalized
    assert made.accepted
    assert made.verdict.reason.startswith("Not worse: 0 of 24 tasks went better and 0 worse")
    assert (made.before, made.version, report.bank_version) == (1, 2, 2)
    assert (report.released, report.proven) == (INTERNALIZED, 0)
    assert made.tasks == (24, 0)  # every prompt here has all rules
    assert made.coverage["solved_with_skills"] == made.coverage["solved"] == 48
    assert [one.record for one in notes.of(SkillsInternalized)] == [made]
    with BankStore.open(path / "bank" / "bank.sqlite", read_only=True) as bank:
        now, log = bank.load(), bank.log()[-1]
    assert [one.category for one in now.active if one.kind is not SkillKind.GENERAL] != []
    retired = {one.id for one in now.skills if one.status is SkillStatus.RETIRED}
    assert retired == set(made.skills) == {"t001", "l001"} & {one.id for one in now.skills}
    assert log.verdict == made.verdict.to_dict()
    assert log.reason == f"internalized: {made.candidate} does without"
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        (verdict,) = [one for one in store.verdicts() if one.origin == "internalize"]
        assert verdict.body == made.verdict.to_dict()
        assert restore(config, store) == report.state
        assert {one.split for one in store.episodes(phase="internalize")} == {"train"}
    assert (path / "checkpoints" / "internalized.ckpt").is_file()
    assert "attic take door" not in (path / "bank" / "skills.md").read_text("utf-8")


async def test_what_is_learned_has_the_skill_in_no_prompt_and_the_rest_as_it_was(tmp_path):
    policy = Pupil()
    await played(tmp_path, policy=policy)
    taught = policy.shown[-48:]
    assert {told for room, told in taught if room == "attic"} == {False}
    assert {told for room, told in taught if room != "attic"} == {True}


async def test_the_sealed_test_shows_it_with_the_skill_without_it_before_and_after(tmp_path):
    _, _, report = await played(tmp_path)
    rates = {
        name: table.task_types["attic"].success_rate for name, table in report.test.tables.items()
    }
    assert rates["final"] == rates["internalized"] == 1.0
    assert rates["before_internalization"] < 0.7
    others = {name: table.task_types["hall"] for name, table in report.test.tables.items()}
    assert others["internalized"] == others["final"]


async def test_a_skill_that_the_weights_did_not_learn_stays_and_so_do_they(tmp_path):
    _, path, report = await played(tmp_path, policy=Pupil(learns=False))
    made = report.state.internalized
    assert made.verdict.decision is Decision.REJECT
    assert made.verdict.reason.startswith("Not proven:")
    assert made.verdict.effect < -0.1
    assert (made.version, report.bank_version, report.released) == (1, 1, 0)
    with BankStore.open(path / "bank" / "bank.sqlite", read_only=True) as bank:
        assert bank.newest == 1
        assert bank.log()[-1].event == "rejected"
    assert {"before_internalization", "internalized"} <= set(report.test.tables)


async def test_a_skill_that_no_train_task_gets_is_not_learned_and_stays(tmp_path):
    places = bank_of_places(tmp_path, "attic", "cellar", "hall", "shed")
    internalize = {**INTERNALIZE, "skills": ["shed"]}
    _, path, report = await played(tmp_path, **places, internalize=internalize)
    made = report.state.internalized
    assert (made.action, made.skills, made.tasks) == ("no_task", ("t004",), (0, 0))
    assert made.verdict is None
    assert "internalized" not in report.test.tables
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        assert not store.episodes(phase="internalize")


@pytest.mark.parametrize(("rest", "others"), [(0.0, 0), (0.2, 2), (0.5, 8), (0.9, 16)])
async def test_a_share_of_the_tasks_is_not_about_what_is_distilled(tmp_path, rest, others):
    places = bank_of_places(tmp_path, "attic", "cellar", "hall")
    internalize = {**INTERNALIZE, "rest": rest}
    policy = Pupil()
    _, _, report = await played(tmp_path, policy=policy, **places, internalize=internalize)
    made = report.state.internalized
    assert made.tasks == (8, others)
    assert made.coverage["episodes"] == 2 * (8 + others)
    taught = policy.shown[-made.coverage["rows"] :]
    assert {(room == "attic", told) for room, told in taught} <= {(True, False), (False, True)}
    assert made.accepted


async def test_where_no_episode_is_solved_there_is_nothing_to_learn(tmp_path):
    class Lost(Pupil):
        """What it is given leads it astray: it takes the next door."""

        def sample(self, contexts, *, temperature):
            wrong = [
                replace(one, skill=re.sub(r"door (\d)", _next_door, one.skill)) for one in contexts
            ]
            return super().sample(wrong, temperature=temperature)

    _, _, report = await played(tmp_path, policy=Lost())
    assert report.state.internalized.action == "no_success"
    assert report.state.internalized.verdict is None


async def test_the_expert_may_show_what_the_policy_learns(tmp_path):
    _, path, report = await played(
        tmp_path, internalize={**INTERNALIZE, "by": "expert", "skills": []}
    )
    assert report.state.internalized.accepted
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        agents = {one.agent for one in store.episodes(phase="internalize")}
    assert agents == {"scripted:visitor"}


async def test_release_and_retirement_share_one_alpha_and_no_draw(tmp_path):
    _, path, report = await played(
        tmp_path, tutor=Tutor(first=()), internalize={**INTERNALIZE, "skills": []}
    )
    state = report.state
    assert (state.ledger.planned, state.ledger.total) == (2, pytest.approx(0.05))
    assert state.release.alpha == pytest.approx(0.03)
    assert state.internalized.verdict.alpha == pytest.approx(0.02)
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        draws = sorted({one.draw // 1000 for one in store.episodes(phase="release")})
    assert draws == [1000, 1001]


async def test_what_was_not_released_is_not_what_skills_are_distilled_into(tmp_path):
    # Nothing is gained, so the cold start stays released, and is what learns.
    _, _, report = await played(tmp_path)
    assert not report.state.release.accepted
    assert report.state.internalized.base == report.proven == 0


def test_skills_are_named_by_id_category_or_place():
    skills = (
        BankSkill("t001", "a", "b", "c", TASK, category="heat"),
        BankSkill("t002", "a", "c", "c", TASK, scope="household 3"),
        BankSkill("t003", "a", "d", "c", TASK, status=SkillStatus.RETIRED),
    )
    bank = Bank(1, skills)
    for named, found in (("t001", ["t001"]), ("heat", ["t001"]), ("household 3", ["t002"])):
        assert [one.id for one in choose_skills(bank, [named])] == found
    assert [one.id for one in choose_skills(bank, [])] == ["t001", "t002"]
    with pytest.raises(ConfigError, match=r"names 'household 4', and no active .*'household 3'"):
        choose_skills(bank, ["household 4"])
    with pytest.raises(ConfigError, match="names 't003'"):
        choose_skills(bank, ["t003"])


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 1.0])
async def test_a_run_that_is_stopped_while_it_internalizes_ends_as_one_that_is_not(tmp_path, share):
    notes = Notebook()
    await played(tmp_path / "whole", notes)
    first = next(
        number
        for number, event in enumerate(notes.events)
        if isinstance(event, EpisodeFinished) and event.result.spec.phase == "internalize"
    )
    last = next(n for n, e in enumerate(notes.events) if isinstance(e, SkillsInternalized))
    moment = 1 + round(first + share * (last - first))
    config, tutor = config_of(tmp_path / "part"), Tutor(first=("attic", "cellar", "hall"))
    with pytest.raises(Stopped):
        await recipe(
            config, Notebook(stop_at=moment), maker=ObedientMaker(config, Pupil()), tutor=tutor
        )
    path = tmp_path / "part" / "runs" / "lanes"
    report = await resumed(path, maker=ObedientMaker(config, Pupil()), tutor=tutor)
    assert report.state.finished
    assert story(path) == story(tmp_path / "whole" / "runs" / "lanes")


async def test_a_design_that_could_retire_nothing_is_refused_before_it_starts(tmp_path):
    config = config_of(tmp_path, internalize={**INTERNALIZE, "margin": 0.05})
    with pytest.raises(ConfigError, match=r"no skill could be retired: 24 held-out tasks cannot"):
        await preflight_rl(config)


async def test_a_design_that_will_hardly_retire_anything_is_warned_about(tmp_path):
    write_tasks(tmp_path / "tasks", val=90)
    config = config_of(tmp_path, internalize={**INTERNALIZE, "margin": 0.05})
    (found,) = [one for one in await examine_rl(config) if one.name == "internalize"]
    assert "% of runs (a loss of 0.05 is to be ruled out on 90 val tasks); more val" in found.detail


@pytest.mark.parametrize(
    ("sections", "why"),
    [
        ({"bank": {"inject": "none"}, "distill": None}, "there is no skill to distill into the"),
        ({"models": {"expert": None}, "cold_start": None}, r"internalize\.by is 'expert', and"),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path, sections, why):
    with pytest.raises(ConfigError, match=why):
        config_of(tmp_path, internalize={**INTERNALIZE, "by": "expert"}, **sections)


async def test_a_language_model_learns_a_rule_and_its_prompts_hold_it_no_more(
    tmp_path, monkeypatch
):
    tiny_model().save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    config = config_of(
        tmp_path,
        policy={"kind": "hf", "model": str(tmp_path / "model"), "precision": "float32"},
        cold_start=None,
        grpo={"iterations": 2, "gate_every": 1, "group_size": 2, "tasks_per_iteration": 2},
        internalize={**INTERNALIZE, "by": "expert", "steps": 40, "learning_rate": 0.003},
        evaluation={"gate": {"kind": "explore", "draws": 2, "release_draws": 2}, "select": "last"},
    )
    prompts, learn = [], HfPolicy.target

    def watched(self, context, text):
        prompts.append("\n".join(one["content"] for one in context.messages))
        return learn(self, context, text)

    monkeypatch.setattr(HfPolicy, "target", watched)
    path, report = await recipe(config, tutor=Tutor(first=("attic", "cellar", "hall")))
    state, made = report.state, report.state.internalized
    assert list(state.policy_steps) == [1, 2]
    assert all(one.candidate.startswith("hf:") for one in state.policy_steps.values())
    assert made.surprise[1] < made.surprise[0] / 2
    assert made.verdict.pairs == 48
    attic = [one for one in prompts if "You are in the attic" in one]
    assert attic
    assert not any("In the attic take door" in one for one in attic)
    hall = [one for one in prompts if "You are in the hall" in one]
    assert hall
    assert all("In the hall take door" in one for one in hall)
    again, _ = await recipe(config, tutor=Tutor(first=("attic", "cellar", "hall")))
    assert story(again)["events"] == story(path)["events"]


def small(folder, **sections):
    """A network of its own in a tiny world, with nothing to internalize yet."""
    learning = {"steps": 30, "learning_rate": 0.01}
    return config_of(folder, internalize=None, cold_start=learning, **sections)


async def test_a_finished_run_is_what_skills_are_distilled_into_later(tmp_path):
    tutor = Tutor(first=("attic", "cellar", "hall"))
    first, done = await recipe(small(tmp_path), tutor=tutor)
    before = {one.name: one.read_bytes() for one in (first / "checkpoints").iterdir()}
    learning = ["steps=60", "learning_rate=0.01", "episodes=2", "margin=0.5"]
    overrides = [f"internalize.{one}" for one in learning]
    config = internalizing(first, skills=["attic"], overrides=overrides)
    path, report = await recipe(config, tutor=tutor)
    state = report.state
    assert path == first.with_name("lanes-internalized")
    assert done.released == 0
    assert state.cold_start["policy"] == done.state.cold_start["policy"]
    assert state.bank["version"] == done.bank_version
    assert state.iterations == {}
    # Nothing else is decided, so the retirement has all of alpha.
    assert state.internalized.verdict.alpha == pytest.approx(0.05)
    assert state.internalized.accepted
    assert {one.name: one.read_bytes() for one in (first / "checkpoints").iterdir()} == before


async def test_what_is_released_of_a_run_is_what_is_begun_with(tmp_path):
    tutor = Tutor(first=("attic", "cellar", "hall"))
    sections = {"cold_start": {"steps": 40, "learning_rate": 0.01}}
    internalize = {**INTERNALIZE, "steps": 60, "learning_rate": 0.01, "margin": 0.5}
    config = config_of(tmp_path, internalize=internalize, **sections)
    first, done = await recipe(config, tutor=tutor)
    assert done.released == INTERNALIZED
    again = internalizing(first, skills=["hall"])
    assert again.internalize.margin == 0.5
    _, report = await recipe(again, tutor=tutor)
    assert report.state.cold_start["policy"] == done.state.internalized.candidate
    kept = starting_bank(again)
    assert {one.category for one in kept.active} == {"", "cellar", "hall"}


@pytest.mark.parametrize(
    ("skills", "why"), [(["shed"], "names 'shed', and no active skill"), ([], "is not finished")]
)
async def test_a_run_that_cannot_be_internalized_is_refused(tmp_path, skills, why):
    config = small(tmp_path)
    if skills:
        path, _ = await recipe(config, tutor=Tutor(first=("attic",)))
    else:
        with pytest.raises(Stopped):
            await recipe(config, Notebook(stop_at=5))
        path = tmp_path / "runs" / "lanes"
    with pytest.raises(ConfigError, match=why):
        internalizing(path, skills=skills)


async def test_every_verdict_is_in_the_terminal_the_report_and_the_dashboard(tmp_path):
    sections = {"grpo": {"iterations": 2, "gate_every": 2}, "evolve": {"every": 2}}
    _, path, report = await played(tmp_path, tutor=Tutor(later=(("hall",),)), **sections)
    state = report.state
    reasons = [
        state.policy_steps[2].verdict.reason,
        state.evolutions[2].verdict.reason,
        state.release.reason,
        state.internalized.verdict.reason,
    ]
    with StringIO() as written:
        show_rl(Console(file=written, width=2000), state, report.iteration, scripted=True)
        terminal = written.getvalue()
    with TestClient(make_app(path.parent, token="t" * 32), base_url="http://127.0.0.1:8000") as web:
        web.cookies.set(COOKIE.format(port=8000), "t" * 32)
        pages = {name: unescape(web.get(f"/runs/lanes/{name}").text) for name in ("", "training")}
    for reason in reasons:
        assert reason in terminal
        assert reason in html_report(path) or reason in unescape(html_report(path))
        assert reason in pages[""]
    assert "internalize 2 skills: " in terminal
    assert "policy step of iterations 1 to 2: " in terminal
    assert {reasons[0], reasons[3]} <= {one for one in reasons if one in pages["training"]}
    assert pages[""].index(reasons[2]) < pages[""].index(reasons[3])
    begun = list(
        past_events(load_rl_config(path / "config.yaml"), RunStore.open(path / "run.sqlite"))
    )
    assert [type(one) for one in begun if isinstance(one, PolicyJudged | SkillsInternalized)] == [
        PolicyJudged,
        SkillsInternalized,
    ]
