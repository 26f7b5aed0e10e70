"""What can be wrong is said in a sentence with the next move, or has defined behavior."""

from dataclasses import replace

import pytest
import torch

from policy.tiny_models import tiny_model, tiny_tokenizer
from rl_world import (
    Notebook,
    Obedient,
    ObedientMaker,
    Tutor,
    lanes_config,
    lanes_settings,
    recipe,
    resumed,
    rule,
    story,
    write_tasks,
)
from skillwright.bank import TeacherDown
from skillwright.config import validated_rl
from skillwright.config.rl import HfPolicyConfig
from skillwright.core import ConfigError, ModelRefused, ModelTimeout, StopReason
from skillwright.jobs.weights import IterationEnded
from skillwright.jobs.weights.preflight import preflight_rl
from skillwright.jobs.weights.wiring import PolicyMaker
from skillwright.policy import ModelMissing, NoChatTemplate, NotFinite, OutOfMemory
from skillwright.policy.backend import memory_watched
from skillwright.policy.hf.model import TRAINING_MEMORY
from skillwright.rollout import EngineDown
from skillwright.runs import RunStore


async def test_a_base_model_that_is_not_there_is_found_out_before_anything_is_written(tmp_path):
    config = lanes_config(tmp_path, policy={"kind": "hf", "model": str(tmp_path / "no-model")})
    with pytest.raises(ModelMissing, match="is not on this machine") as found:
        await preflight_rl(config)
    assert "hf download" in str(found.value)
    assert not (tmp_path / "runs").exists()


async def test_a_tokenizer_without_a_chat_template_is_found_out_before_anything_is_written(
    tmp_path,
):
    folder = saved_model(tmp_path / "model", template=False)
    config = lanes_config(tmp_path, policy={"kind": "hf", "model": str(folder)})
    with pytest.raises(NoChatTemplate):
        await preflight_rl(config)
    assert not (tmp_path / "runs").exists()


def saved_model(folder, *, template=True):
    model, tokenizer = tiny_model(), tiny_tokenizer()
    if not template:
        tokenizer.chat_template = None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


async def test_an_environment_without_a_list_of_commands_is_no_place_for_a_scorer(tmp_path):
    write_tasks(tmp_path / "tasks", unlisted=True)
    with pytest.raises(ConfigError, match="offers none"):
        await preflight_rl(lanes_config(tmp_path))


async def test_a_gate_that_nothing_could_pass_is_found_out_before_anything_is_written(tmp_path):
    gate = {"gate": {"kind": "paired"}, "val_tasks": 3}
    with pytest.raises(ConfigError, match="the paired gate cannot prove a gain on 3 val tasks"):
        await preflight_rl(lanes_config(tmp_path, evaluation=gate))


async def test_an_episode_that_outgrows_the_context_is_cut_and_lost_and_the_others_continue(
    tmp_path,
):
    folder = saved_model(tmp_path / "model")
    config = lanes_config(
        tmp_path,
        policy={"kind": "hf", "model": str(folder), "context_tokens": 142, "precision": "float32"},
        distill=None,
        bank={"start": "empty"},
        evolve=None,
        cold_start=None,
        grpo={"iterations": 1, "tasks_per_iteration": 2, "keep_rollouts": True},
        evaluation={"test": False, "val_tasks": 3},
    )
    path, report = await recipe_of(config)
    one = report.state.iterations[1]
    with RunStore.open(path / "run.sqlite", read_only=True) as store:
        episodes = [store.load_episode(row.id) for row in store.episodes(phase="grpo")]
    cut = [episode for episode in episodes if episode.stop_reason is StopReason.CONTEXT]
    assert cut
    assert one.truncated == len(cut)
    assert one.episodes == len(episodes) == 8


async def recipe_of(config):
    return await recipe(config, maker=PolicyMaker(config))


async def test_a_reward_that_is_no_number_is_a_fault_of_the_environment_and_never_a_score(
    tmp_path,
):
    write_tasks(tmp_path / "tasks", worth="nan")
    config = lanes_config(tmp_path, rollout={"retries": 0})
    with pytest.raises(EngineDown, match="reward is nan, which is no score"):
        await recipe(config, maker=ObedientMaker(config))


async def test_a_group_with_one_survivor_is_dropped_and_counted(tmp_path):
    config = lanes_config(
        tmp_path,
        evolve=None,
        grpo={"iterations": 1, "tasks_per_iteration": 1},
        rollout={"retries": 0, "give_up_after": None, "max_failure_share": None},
    )
    maker = ObedientMaker(config, Frail())
    notes = Notebook()
    await recipe(config, notes, maker=maker)
    (one,) = [event.record for event in notes.of(IterationEnded)]
    assert (one.lone, one.failures, one.episodes, one.rows, one.steps) == (1, 3, 1, 0, 0)


class Frail(Obedient):
    """In training one episode wins, and all others break their environment."""

    def __init__(self):
        super().__init__()
        self.survived = False

    def _choose(self, context, temperature):
        sampled = super()._choose(context, temperature)
        if not self.reference or not temperature:
            return sampled
        room = context.messages[1]["content"].split()[-1].rstrip(".")
        act = replace(sampled.act, text="break" if self.survived else rule(room)[-12:-1])
        self.survived = True
        return replace(sampled, act=act)


async def test_memory_that_is_spent_stops_the_run_and_says_which_three_settings_to_lower(
    tmp_path,
):
    def no_memory(number):
        if number == 3:
            with memory_watched("training", TRAINING_MEMORY):
                raise torch.OutOfMemoryError("out of memory. Tried to allocate 2 GiB")

    config = lanes_config(tmp_path)
    maker = ObedientMaker(config, Obedient(no_memory))
    with pytest.raises(OutOfMemory) as found:
        await recipe(config, maker=maker)
    for name in TRAINING_MEMORY:
        assert name in str(found.value)
        assert name.removeprefix("policy.") in HfPolicyConfig.model_fields


class Overflowing(PolicyMaker):
    """Makes the real policy, one of whose updates meets an advantage that is no number."""

    def make(self, recipe):
        policy, passes = super().make(recipe), []
        learn = policy.forward_backward

        def forward_backward(rows, loss):
            if policy.reference:  # the cold start has ended
                passes.append(rows)
            bad = len(passes) == 3
            given = [replace(row, advantage=float("nan")) for row in rows] if bad else rows
            return learn(given, loss)

        policy.forward_backward = forward_backward
        return policy


async def test_a_loss_that_is_no_number_stops_the_run_and_a_resume_ends_as_if_it_had_not_been(
    tmp_path,
):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole, _ = await recipe(lanes_config(tmp_path / "one"))
    config = lanes_config(tmp_path / "two")
    named = r"the loss is nan over a batch of \d+ rows \(task train-\d+, episode train-\d+#\d+, t"
    with pytest.raises(NotFinite, match=named):
        await recipe(config, maker=Overflowing(config))
    path = tmp_path / "two" / "runs" / "lanes"
    assert not [kind for kind, _ in story(path)["events"] if kind == "finished"]
    await resumed(path)
    assert story(path)["events"] == story(whole)["events"]


async def test_a_teacher_that_gives_nothing_for_a_section_stops_the_run_before_there_is_a_bank(
    tmp_path,
):
    config = lanes_config(tmp_path)
    tutor = Tutor(fault=("# Distill: general", ModelTimeout("no answer in 60 s")))
    with pytest.raises(TeacherDown, match="the section 'general'"):
        await recipe(config, tutor=tutor, maker=ObedientMaker(config))


async def test_a_teacher_whose_key_is_refused_stops_the_run_and_a_resume_asks_again(tmp_path):
    config = lanes_config(tmp_path)
    tutor = Tutor(fault=("# Evolve", ModelRefused("401: no such key")))
    with pytest.raises(ModelRefused, match="the teacher was refused: 401"):
        await recipe(config, tutor=tutor, maker=ObedientMaker(config))
    report = await resumed(tmp_path / "runs" / "lanes", maker=ObedientMaker(config))
    assert report.state.evolutions[2].action == "accept"


async def test_a_teacher_that_fails_when_the_bank_evolves_leaves_it_as_it_is_and_says_so(
    tmp_path,
):
    config = lanes_config(tmp_path)
    tutor = Tutor(fault=("# Evolve", ModelTimeout("no answer in 60 s")))
    _, report = await recipe(config, tutor=tutor, maker=ObedientMaker(config))
    one = report.state.evolutions[2]
    assert (one.action, one.version) == ("teacher_failed", 1)
    assert "no answer in 60 s" in one.notes[0]


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"grpo": {"group_size": 1}}, "grpo.group_size"),
        ({"grpo": {"rows": "trajectories"}}, "a scorer learns from single turns"),
        ({"cold_start": {"rows": "trajectories"}}, "a scorer learns from single turns"),
        ({"models": {}}, "distill and evolve need models.teacher"),
        ({"models": {"teacher": {"backend": "scripted", "model": "searcher"}}}, "cannot be the te"),
        ({"bank": {"inject": "none"}}, "set evolve: null"),
        ({"distill": None, "evolve": None, "bank": {"inject": "trajectories"}}, "plays none"),
        ({"evlove": None}, "Did you mean 'evolve'"),
        ({"policy": {"kind": "scorer", "model": "x"}}, "policy"),
        ({"evaluation": {"gate": {"kind": "open"}}}, "evaluation.gate"),
        ({"run": {"parity": True}}, "run.parity"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused_in_a_sentence(tmp_path, sections, message):
    settings = lanes_settings(tmp_path)
    for name, values in sections.items():
        merges = isinstance(values, dict) and values and name in settings
        settings[name] = {**settings[name], **values} if merges else values
    if sections.get("models") == {}:
        settings["models"] = {}
    with pytest.raises(ConfigError) as found:
        validated_rl(settings, "test")
    assert message in str(found.value)


async def test_a_bank_that_is_not_there_is_said_to_be(tmp_path):
    with pytest.raises(ConfigError, match="there is no bank"):
        await preflight_rl(lanes_config(tmp_path, bank={"start": "nowhere.json"}))
    with pytest.raises(ConfigError, match="there is no seed bank for"):
        await preflight_rl(lanes_config(tmp_path, bank={"start": "seed"}))


async def test_weights_that_cannot_be_built_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="make width a multiple of heads"):
        await preflight_rl(lanes_config(tmp_path, policy={"width": 15}))
