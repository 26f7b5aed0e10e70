"""Our episodes in TRL's `GRPOTrainer`, and a step of it beside a step of ours."""

import copy
import warnings
from types import SimpleNamespace

import pytest
import torch

from datasets import Dataset
from letters import NAME, tasks
from policy.tiny_models import tiny_model, tiny_tokenizer
from skillwright.core import ConfigError, DataError, PlainSkill
from skillwright.envs import deregister, register
from skillwright.plugins.trl.rollouts import TrlRollouts, refuse_unfit
from skillwright.policy import (
    AdvantageSettings,
    GroupSettings,
    GrpoObjective,
    GrpoSettings,
    teach,
    update,
)
from skillwright.policy.hf import HfPolicy, HfSettings
from skillwright.rollout import EngineDown, Limits

GROUP = 4
RATE = 1e-3


@pytest.fixture(autouse=True)
def letters():
    register(NAME, "letters:Letters")
    yield
    deregister(NAME)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny_model(dtype=torch.float64).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def trainer_of(folder, tmp_path):
    def make(rollouts, **settings):
        with warnings.catch_warnings():
            # TRL warns about its own experimental parts and about what torch deprecates.
            warnings.simplefilter("ignore")
            from trl import GRPOConfig, GRPOTrainer

            config = GRPOConfig(
                output_dir=str(tmp_path),
                use_cpu=True,
                bf16=False,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
                max_steps=1,
                logging_steps=1,
                per_device_train_batch_size=2 * GROUP,
                num_generations=GROUP,
                max_completion_length=6,
                learning_rate=RATE,
                lr_scheduler_type="constant",
                gradient_checkpointing=False,
                use_bias_correction_kl=False,
                model_init_kwargs={"dtype": torch.float64},
                **settings,
            )
            return GRPOTrainer(
                model=str(folder),
                args=config,
                reward_funcs=rollouts.reward,
                rollout_func=rollouts,
                train_dataset=Dataset.from_list(rollouts.dataset_rows()),
                processing_class=tiny_tokenizer(),
            )

    return make


def trained(trainer):
    """Take the trainer's step; return the loss that it logged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trainer.train().training_loss


def our_step(episodes, loss_type, beta):
    """Learn from the same episodes with our own update; return the policy and its report."""
    settings = HfSettings(precision="float64", weight_decay=0.0, max_grad_norm=1.0)
    policy = HfPolicy(tiny_model(dtype=torch.float64), tiny_tokenizer(), settings)
    policy.freeze_reference()
    rows = {id(one.result): one.turns for one in episodes}
    group = GroupSettings(GROUP, AdvantageSettings(eps=1e-4), penalty=0.0)
    taught, report = teach([one.result for one in episodes], lambda r: rows[id(r)], group)
    average = "sequences" if loss_type == "grpo" else "tokens"
    objective = GrpoObjective(dual_clip=None, kl_weight=beta, average=average)
    learned = update(
        policy,
        taught,
        GrpoSettings(
            objective=objective, learning_rate=RATE, minibatch_rows=None, rows="trajectories"
        ),
        seed=0,
    )
    return policy, learned, report


@pytest.mark.heavy
@pytest.mark.parametrize(("loss_type", "beta", "broken"), [("dapo", 0.05, 300), ("grpo", 0.0, 0)])
def test_a_step_of_trls_trainer_is_a_step_of_ours(trainer_of, loss_type, beta, broken):
    rollouts = TrlRollouts(
        tasks(broken=broken), PlainSkill("Be brief."), limits=Limits(retries=0), seed=1
    )
    start = {
        name: one.detach().clone()
        for name, one in tiny_model(dtype=torch.float64).named_parameters()
    }
    trainer = trainer_of(rollouts, loss_type=loss_type, beta=beta)
    loss = trained(trainer)
    rollouts.close()
    policy, learned, report = our_step(rollouts.episodes, loss_type, beta)

    assert len(rollouts.episodes) == 2 * GROUP
    assert (report.failures > 0) == (broken > 0)
    assert report.zero_variance == report.lone == 0
    # TRL's loss is 0 but for the divergence and rounding, since its ratio is 1: the gradient tells.
    assert learned.total().loss == pytest.approx(loss, abs=1e-4)
    norm = next(one["grad_norm"] for one in trainer.state.log_history if "grad_norm" in one)
    assert norm > 0.01
    assert learned.steps[0].grad_norm == pytest.approx(norm, rel=1e-4)
    ours = {name: one.detach() for name, one in policy.weights.trained().items()}
    theirs = {name: one.detach() for name, one in trainer.model.named_parameters()}
    assert ours.keys() == theirs.keys()
    step = torch.cat([(one - start[name]).flatten() for name, one in theirs.items()])
    apart = torch.cat([(one - ours[name]).flatten() for name, one in theirs.items()])
    assert float(step.abs().max()) > 0.5 * RATE
    assert float(apart.norm()) <= 1e-4 * float(step.norm())
    # A gradient near Adam's epsilon is divided by it: there a last digit moves a weight.
    assert float(apart.abs().max()) <= 0.01 * RATE


def test_an_episode_is_one_completion_with_the_worlds_words_masked(trainer_of):
    rollouts = TrlRollouts(tasks(), PlainSkill("Be brief."))
    trainer = trainer_of(rollouts)
    trainer.model.train()
    made = rollouts(["mug", "mug", "shelf"], trainer)
    rollouts.close()
    speech = tiny_tokenizer()
    assert trainer.model.training
    assert [one.result.task_id for one in rollouts.episodes] == ["mug", "mug", "shelf"]
    assert len({tuple(ids) for ids in made["completion_ids"]}) == 3
    for number, episode in enumerate(rollouts.episodes):
        prompt = speech.decode(made["prompt_ids"][number])
        assert "Say something.\n\n## Skill\n\nBe brief." in prompt
        ids, mask = made["completion_ids"][number], made["env_mask"][number]
        logprobs = made["logprobs"][number]
        assert len(ids) == len(mask) == len(logprobs)
        said = [turn.act.token_ids for turn in episode.result.trajectory.turns]
        assert [i for i, kept in zip(ids, mask, strict=True) if kept] == [*said[0], *said[1]]
        world = speech.decode([i for i, kept in zip(ids, mask, strict=True) if not kept])
        assert "Go on." in world
        assert all((p == 0.0) == (not kept) for p, kept in zip(logprobs, mask, strict=True))
        assert made["episode_reward"][number] == episode.result.reward


def test_a_failure_is_a_reward_of_none_and_one_masked_token(trainer_of):
    rollouts = TrlRollouts(tasks(broken=500), limits=Limits(retries=0), seed=1)
    trainer = trainer_of(rollouts)
    made = rollouts(["mug"] * 8, trainer)
    rollouts.close()
    rewards = rollouts.reward(["x"] * 8, made["episode_reward"])
    failed = [number for number, reward in enumerate(rewards) if reward is None]
    assert 0 < len(failed) < 8
    for number in failed:
        assert rollouts.episodes[number].result.failure.message.endswith("the floor gave way")
        assert made["env_mask"][number] == [0]
        assert len(made["completion_ids"][number]) == len(made["logprobs"][number]) == 1


def test_where_every_episode_fails_there_is_no_step(trainer_of):
    rollouts = TrlRollouts(tasks(broken=1000), limits=Limits(retries=0))
    trainer = trainer_of(rollouts)
    with pytest.raises(EngineDown, match="the floor gave way"):
        rollouts(["mug", "shelf"], trainer)
    rollouts.close()


@pytest.mark.parametrize(
    ("prompt", "said"),
    [("mgu", "'mug'"), ([{"role": "user", "content": "mug"}], "dataset_rows"), (None, "the id")],
)
def test_a_row_of_another_shape_is_refused(trainer_of, prompt, said):
    rollouts = TrlRollouts(tasks())
    trainer = trainer_of(rollouts)
    with pytest.raises(DataError, match=said):
        rollouts([prompt], trainer)


def test_no_tasks_or_one_twice_is_refused():
    for wrong in ([], tasks() + tasks()):
        with pytest.raises(DataError, match="each id once"):
            TrlRollouts(wrong)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"use_vllm": True}, "use_vllm"),
        ({"top_p": 0.9}, "top_p is 0.9"),
        ({"kind": "FSDP"}, "FSDP"),
    ],
)
def test_a_trainer_that_samples_otherwise_is_refused(changes, said):
    plain = {"use_vllm": False, "top_p": 1.0}
    kind = SimpleNamespace(value=changes.pop("kind", "NO"))
    trainer = SimpleNamespace(
        args=SimpleNamespace(**{**plain, **changes}),
        accelerator=SimpleNamespace(distributed_type=kind),
    )
    with pytest.raises(ConfigError, match=said):
        refuse_unfit(trainer)


def test_an_older_trl_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "trl-1.15.3.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: trl\nVersion: 1.15.3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=r"TRL is 1\.15\.3.*skillwright\[trl\]"):
        refuse_unfit(SimpleNamespace())


def test_sampling_leaves_what_learns_as_it_was(trainer_of):
    rollouts = TrlRollouts(tasks())
    trainer = trainer_of(rollouts)
    before = copy.deepcopy(trainer.model.state_dict())
    frozen = next(iter(trainer.model.parameters()))
    frozen.requires_grad_(requires_grad=False)
    rollouts(["mug", "shelf"], trainer)
    rollouts.close()
    assert not frozen.requires_grad
    assert all(torch.equal(one, before[n]) for n, one in trainer.model.state_dict().items())
