"""The checks of an environment find what they are for, and nothing else."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwright.core import DataError, EnvError
from skillwright.envs import TextEnv, check_env, deregister, register
from skillwright.envs.drive import fuzz_action

GUESS = f"{Path(__file__).resolve().parent.parent / 'rollout_worlds.py'}:Guess"
NAMES = [
    "extras are JSON",
    "spec pickles",
    "builds",
    "opens",
    "steps",
    "rewards lie in [0, 1]",
    "repeats by seed",
    "ends within max_turns",
    "survives any action",
    "closes twice",
    "metrics are numbers",
    "tells category and scope",
    "gold solutions win",
]


class Sound(TextEnv):
    """Passes every check; the others below each break one rule."""

    def init(self, prompt):
        opening = {"role": "user", "content": "Say yes."}
        return [*prompt, opening], {"observation": "Say yes.", "admissible_commands": ["yes", "no"]}

    def step(self, action):
        self.turns += 1
        if action == "yes":
            return self.finish("Thanks.", reward=1.0)
        return self.reply("Say yes.", metadata={"admissible_commands": ["yes", "no"]})

    def get_metrics(self):
        return {"turns": self.turns}


class Unbuildable(Sound):
    def __init__(self, env_config=None):
        super().__init__(env_config)


class NoExamples(Sound):
    def examples(self):
        return [{}]


class Greedy(Sound):
    def __init__(self, env_config=None, extras=None):
        super().__init__(env_config, extras)
        extras.get("rooms", []).append("mine")


class Mute(Sound):
    def init(self, prompt):
        return list(prompt)


class Unstorable(Sound):
    def step(self, action):
        return self.reply("Hm.", metadata={"world": object()})


class Forgetful(Sound):
    def step(self, action):
        output = super().step(action)
        del output["done"]
        return output


class Moody(Sound):
    rng = random.Random(0)

    def step(self, action):
        self.turns += 1
        return self.reply(str(Moody.rng.random()))


class Shared(Sound):
    """Equal when played one after the other, not side by side."""

    told = 0

    def init(self, prompt):
        Shared.told = 0
        return super().init(prompt)

    def step(self, action):
        self.turns += 1
        Shared.told += 1
        return self.reply(f"{Shared.told}")


class Endless(Sound):
    def step(self, action):
        return self.reply("On we go.")


class Fragile(Sound):
    def step(self, action):
        self.turns += 1
        if action.startswith("<action>") and "</action>" not in action:
            raise IndexError("no closing tag")
        return super().step(action)


class OnceClosed(Sound):
    open = True

    def close(self):
        if not self.open:
            raise EnvError("closed already")
        self.open = False


class Immeasurable(Sound):
    def get_metrics(self):
        return {"mood": float("nan")}


class Generous(Sound):
    def step(self, action):
        return {**super().step(action), "reward": 0.5}


class Echo(Sound):
    """Stores what a model wrote, in a shape that is no JSON."""

    def step(self, action):
        self.turns += 1
        return self.reply("Hm.", metadata={"said": {1, 2} if "<" in action else action})


class Uncategorized(Sound):
    @classmethod
    def category(cls, task):
        return None


class WrongGold(Sound):
    @staticmethod
    def gold_actions(extras):
        return ["no", "no"]


class Configured(Sound):
    @staticmethod
    def gold_actions(extras, env_config=None):
        return ["no", env_config["word"]]


def checked(env_class, extras=None, **kwargs):
    name = f"test_{env_class.__name__}"
    register(name, f"{__name__}:{env_class.__name__}")
    try:
        return check_env(name, extras_list=[{"max_turns": 6, **(extras or {})}], **kwargs)
    finally:
        deregister(name)


def failed(report):
    return {check.name: check.detail for check in report.checks if not check.ok}


def test_a_sound_environment_passes_every_check():
    report = checked(Sound)
    assert failed(report) == {}
    assert report.ok
    assert [check.name for check in report.checks] == NAMES
    details = {check.name: check.detail for check in report.checks}
    assert details["survives any action"] == "1000 actions"
    assert details["metrics are numbers"] == "turns"
    assert details["gold solutions win"].startswith("a static gold_actions(extras)")
    assert details["builds"].endswith("ms at most")
    assert [check.name for check in report.checks if not check.asked] == ["gold solutions win"]


def test_gold_solutions_are_played_where_they_are_offered():
    report = check_env(GUESS, extras_list=[{"seed": seed, "upper": 9} for seed in range(3)])
    assert failed(report) == {}
    assert report.checks[-1].detail == "3 tasks solved"


@pytest.mark.parametrize(
    ("env_class", "check", "finding", "next_move"),
    [
        (Mute, "opens", "init returned [", "init(prompt) returns (messages, metadata)"),
        (Unstorable, "steps", "cannot be stored", "plain JSON"),
        (Forgetful, "steps", "lacks 'done'", "a StepOutput"),
        (Moody, "repeats by seed", "task 0: reply 1 differs", "random.Random(extras['seed'])"),
        (Shared, "repeats by seed", "task 0: reply 1 differs", "share no state"),
        (Endless, "ends within max_turns", "max_turns = 6", "Count self.turns"),
        (Fragile, "survives any action", "IndexError('no closing tag')", "never raises"),
        (OnceClosed, "closes twice", "closed already", "harmless"),
        (Immeasurable, "metrics are numbers", "metric 'mood' is nan", "finite numbers"),
        (Generous, "rewards lie in [0, 1]", "add up to 3.0", "over its steps"),
        (Echo, "survives any action", "is no plain JSON", "never raises"),
        (Uncategorized, "tells category and scope", "(None, '')", "return a text"),
        (WrongGold, "gold solutions win", "the episode continues after 2 of 2", "gold_actions"),
        (WrongGold, "gold solutions win", "rewarded 0.0, not 1", "gold_actions(extras)"),
    ],
)
def test_a_broken_rule_is_found_and_the_next_move_named(env_class, check, finding, next_move):
    found = failed(checked(env_class))
    assert finding in found[check]
    assert next_move in found[check]


def test_a_sound_part_is_not_blamed_for_a_broken_one():
    for env_class in (Moody, Endless, Fragile, OnceClosed, Immeasurable, Generous, WrongGold):
        assert len(failed(checked(env_class))) == 1


def test_a_solution_that_depends_on_the_settings_is_told_them():
    report = checked(Configured, env_config={"word": "yes"})
    assert failed(report) == {}
    assert report.checks[-1].detail == "1 tasks solved"


def test_nothing_more_is_run_on_what_cannot_be_built():
    report = checked(Unbuildable)
    assert [check.name for check in report.checks] == NAMES[:3]
    assert "Class(env_config=..., extras=...)" in report.checks[-1].detail


def test_a_constructor_that_changes_its_extras_is_found():
    found = failed(checked(Greedy, {"rooms": []}))
    assert "changes the extras" in found["builds"]


def test_extras_that_are_no_json_are_found():
    found = failed(checked(Sound, {"room": {1, 2}}))
    assert "extras 0 are not plain JSON" in found["extras are JSON"]


def test_a_report_is_equal_for_equal_seeds_but_for_the_time():
    def facts(seed):
        checks = checked(Fragile, seed=seed).checks
        return [(check.name, check.ok, check.detail) for check in checks if check.name != "builds"]

    assert facts(1) == facts(1)
    assert facts(1) != facts(2)


def test_a_report_can_be_written_as_json():
    report = checked(Endless)
    data = report.to_dict()
    assert data["ok"] is False
    assert data["checks"][0] == {
        "name": "extras are JSON",
        "ok": True,
        "detail": "1 tasks",
        "asked": True,
    }


def test_an_unknown_environment_and_a_check_of_nothing_are_refused():
    with pytest.raises(DataError, match="no environment 'nowhere'"):
        check_env("nowhere", extras_list=[{}])
    with pytest.raises(DataError, match=r"examples\(\) raised TypeError"):
        check_env(f"{__name__}:NoExamples")
    with pytest.raises(DataError, match="at least one task"):
        check_env(GUESS, extras_list=[])


@given(st.integers(0, 2**31), st.lists(st.text(min_size=1), max_size=3))
def test_fuzzed_actions_depend_on_their_seed_alone(seed, admissible):
    action = fuzz_action(random.Random(seed), admissible)
    assert isinstance(action, str)
    assert fuzz_action(random.Random(seed), admissible) == action


def test_the_household_games_keep_the_contract():
    games = [{"generated": {"split": "train", "index": index}} for index in range(6)]
    assert failed(check_env("alfworld", extras_list=games)) == {}
