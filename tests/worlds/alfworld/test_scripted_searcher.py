"""The household expert as a chat model does as the one that plays from observations."""

import pytest

from household_expert import Searcher
from skillwright.core import PlainSkill, Purpose, Sampling
from skillwright.models import HttpClient, make_model, parse_model_config
from skillwright.rollout import PromptStyle, render
from skillwright.worlds.alfworld import AlfworldEnv, habits_text, household
from skillwright.worlds.alfworld.generate import household_tasks
from skillwright.worlds.alfworld.scripted.agent import ScriptedSearcher

GAMES = household_tasks("train", 12, homes=range(4))


def conversation(env, skill):
    opening, metadata = env.init([])
    return list(render(PromptStyle(), opening, (), skill)), metadata


@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize("game", GAMES[:6], ids=lambda task: task.task_type)
async def test_it_gives_the_commands_that_the_expert_gives(game, knows):
    skill = habits_text(household(game.extras["generated"]["household"])) if knows else ""
    env, expert, model = AlfworldEnv(extras=dict(game.extras)), Searcher(skill), ScriptedSearcher()
    messages, metadata = conversation(env, skill)
    done = False
    while not done:
        wanted = expert.act(metadata["observation"], metadata["admissible_commands"])
        answer = await model.complete(
            messages, sampling=Sampling(seed=len(messages)), purpose=Purpose.ROLLOUT
        )
        assert answer.text == wanted
        reply = env.step(answer.text)
        messages += [{"role": "assistant", "content": answer.text}, *reply["observations"]]
        metadata, done = reply["metadata"], reply["done"]


async def test_it_can_be_named_in_a_configuration_and_says_that_it_is_a_program():
    async with HttpClient() as client:
        config = parse_model_config({"backend": "scripted", "model": "searcher"})
        model = make_model(config, client)
        teacher = make_model(config.model_copy(update={"model": "household_teacher"}), client)
    assert (model.identity, model.is_scripted) == ("scripted:searcher", True)
    assert teacher.identity == "scripted:household_teacher"
    answer = await model.complete([{"role": "user", "content": "hello"}], purpose=Purpose.CHECK)
    assert answer.text == "look"


def test_knowing_the_home_pays():
    def wins(skill_of):
        won = 0
        for game in GAMES:
            env, expert = AlfworldEnv(extras=dict(game.extras)), None
            _, metadata = env.init([])
            expert = Searcher(skill_of(game).text)
            done = False
            while not done:
                command = expert.act(metadata["observation"], metadata["admissible_commands"])
                reply = env.step(command)
                metadata, done = reply["metadata"], reply["done"]
            won += metadata["won"]
        return won

    home = {n: habits_text(household(n)) for n in range(4)}
    told = wins(lambda game: PlainSkill(home[game.extras["generated"]["household"]]))
    assert told > wins(lambda game: PlainSkill("")) + 4
