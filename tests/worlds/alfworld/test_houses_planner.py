"""The planner wins from every state, and patience alone wins every generated game."""

import random
import re
from dataclasses import replace

import pytest

from skillwright.core import DataError
from skillwright.worlds.alfworld import World, generate_problem, load_game, plan
from skillwright.worlds.alfworld.generate import STEP_LIMIT
from skillwright.worlds.alfworld.tables import ALL_TASK_TYPES, LOOK, PICK_TWO


def play_at_random(world, steps, rng):
    for _ in range(steps):
        world.act(rng.choice(world.admissible()))


def finish(world):
    commands = plan(world)
    for command in commands:
        assert command in world.admissible()
        world.act(command)
    return commands


@pytest.mark.parametrize("index", range(24))
def test_a_plan_wins_from_the_middle_of_a_game(index):
    rng = random.Random(index)
    for steps in (5, 30, 80):
        world = World(generate_problem("val", index))
        play_at_random(world, steps, rng)
        finish(world)
        assert world.solved


def test_planning_leaves_the_world_as_it_is():
    world = World(generate_problem("val", 5))
    before = (world.location, world.held, world.opened, world.contents.copy(), world.admissible())
    assert plan(world) == plan(world)
    after = (world.location, world.held, world.opened, world.contents, world.admissible())
    assert before == after


def test_every_command_of_a_plan_brings_the_next_plan_one_command_nearer():
    for index in range(24):
        world = World(generate_problem("test", index))
        left = len(plan(world))
        while left:
            world.act(plan(world)[0])
            assert len(plan(world)) == left - 1
            left -= 1
        assert world.solved


def test_a_won_game_needs_no_plan():
    world = World(generate_problem("val", 0))
    finish(world)
    assert plan(world) == []


def test_a_game_that_cannot_be_won_has_no_plan():
    problem = generate_problem("val", 0)
    gone = tuple(thing for thing in problem.things if thing.otype != problem.params["object"])
    assert plan(replace(problem, things=gone)) == []


def test_an_unknown_task_type_is_refused_by_name():
    problem = replace(generate_problem("val", 0), task_type="pick_and_place")
    with pytest.raises(DataError, match="Did you mean 'pick_and_place_simple'"):
        plan(problem)


def test_plans_speak_the_dialect_of_the_game():
    problem = replace(generate_problem("val", 0), dialect="2.1.1")
    world = World(problem)
    assert any(re.fullmatch(r"put .* in/on .*", command) for command in finish(world))
    assert world.solved


def test_official_games_are_planned(reference_data):
    for path in sorted((reference_data / "alfworld" / "games").iterdir()):
        world = World(load_game(path))
        assert 0 < len(finish(world)) <= STEP_LIMIT
        assert world.solved


class PatientSearcher:
    """Looks into everything in turn, and does a task's steps as soon as it meets the object.

    It knows the task, which receptacles have doors, and what observations say.
    """

    def __init__(self, problem):
        self.world = World(problem)
        self.family = next(f for f in ALL_TASK_TYPES if f.name == problem.task_type)
        self.params = problem.params
        self.places = re.findall(r"a (\w+ \d+)", self.world.intro())
        self.closed = {place.name for place in problem.receptacles if place.openable}
        self.steps = 0

    def act(self, command):
        self.steps += 1
        seen = self.world.act(command)
        assert seen != "Nothing happens.", command
        return seen

    def go(self, place):
        return self.act(f"go to {place}") if f"go to {place}" in self.world.admissible() else ""

    def look_into(self, place):
        seen = self.go(place)
        if place in self.closed:
            seen = self.act(f"open {place}")
            self.closed.remove(place)
        return seen

    def first(self, rtype):
        return next(place for place in self.places if place.split()[0] == rtype)

    def deliver(self, thing):
        if self.family.verb:
            appliance = self.first(self.family.appliance)
            self.go(appliance)
            self.act(f"{self.family.verb} {thing} with {appliance}")
        target = self.first(self.params["target"])
        self.look_into(target)
        self.act(f"move {thing} to {target}")

    def run(self):
        lamp = ""
        skipped = self.params.get("target") if self.family.name == PICK_TWO else None
        for place in self.places:
            if place.split()[0] == skipped:
                continue
            seen = self.look_into(place)
            things = re.findall(r"a (\w+ \d+)", seen)
            lamp = next((place for t in things if t.split()[0] == self.params.get("toggle")), lamp)
            for thing in things:
                if self.world.solved:
                    return
                if thing.split()[0] == self.params["object"] and not self.world.held:
                    self.go(place)
                    self.act(f"take {thing} from {place}")
                    if self.family.name != LOOK:
                        self.deliver(thing)
            if lamp and self.world.held and self.family.name == LOOK:
                self.go(lamp)
                self.act(f"use {self.params['toggle']} 1")
            if self.world.solved:
                return


@pytest.mark.parametrize("household", [None, 4])
def test_a_patient_searcher_wins_every_game_in_time(household):
    for index in range(120):
        searcher = PatientSearcher(generate_problem("train", index, household=household))
        searcher.run()
        assert searcher.world.solved
        assert searcher.steps < STEP_LIMIT
