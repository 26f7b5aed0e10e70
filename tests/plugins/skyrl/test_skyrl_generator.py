"""A generator for SkyRL's trainer: our episodes as its rows."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from letters import NAME, tasks
from policy.tiny_models import tiny_tokenizer
from skillwright.bank import BankSource, seed_bank
from skillwright.core import ConfigError, DataError, PlainSkill
from skillwright.envs import deregister, register
from skillwright.plugins.skyrl import read_rollouts, register_with_skyrl, task_rows
from skillwright.plugins.skyrl.generator import (
    GeneratorOptions,
    ScriptedEngine,
    SkyRLGenerator,
)
from skillwright.rollout import EngineDown, Limits
from skillwright.worlds.alfworld import generated_tasks


@pytest.fixture(autouse=True)
def letters():
    register(NAME, "integrations.letters:Letters")
    yield
    deregister(NAME)


@dataclass
class TrajectoryID:
    """As SkyRL's."""

    instance_id: str
    repetition_id: int


def sampling(**changes):
    return SimpleNamespace(max_generate_length=32, temperature=1.0, **changes)


@dataclass
class Config:
    """SkyRL's ``generator`` section, as far as it is read."""

    step_wise_trajectories: bool = True
    batched: bool = False
    vision_language_generator: bool = False
    max_turns: int = 5
    max_input_length: int = 4096
    chat_template_kwargs: dict = field(default_factory=dict)
    sampling_params: object = field(default_factory=sampling)


class Engine(ScriptedEngine):
    """Answers in a tokenizer's own words, a longer one each time."""

    def __init__(self, tokenizer, *, wrong=None):
        super().__init__(tokenizer, "look")
        self.tokenizer, self.wrong, self.sessions = tokenizer, wrong, []

    async def generate(self, input_batch, model=None):
        given = await super().generate(input_batch, model)
        self.sessions += input_batch["session_ids"]
        said = "look " * (self.asked % 7)
        ids = [*self.tokenizer.encode(said, add_special_tokens=False), self.tokenizer.eos_token_id]
        given["response_ids"], given["responses"] = [ids], [said]
        given["response_logprobs"] = [[-0.5 - self.asked / 100] * len(ids)]
        return self.wrong(given) if self.wrong else given


def batch_of(rows, n=2, phase="train", step=3):
    """Return what SkyRL's trainer makes of rows: each one as often as its group has episodes."""
    many = [(number, row, one) for number, row in enumerate(rows) for one in range(n)]
    return {
        "prompts": [row["prompt"] for _, row, _ in many],
        "env_classes": [row["env_class"] for _, row, _ in many],
        "env_extras": [
            {name: of for name, of in row.items() if name not in ("prompt", "env_class")}
            for _, row, _ in many
        ],
        "sampling_params": {"temperature": 1.0, "max_tokens": 32, "logprobs": 1},
        "trajectory_ids": [TrajectoryID(str(number), one) for number, _, one in many],
        "batch_metadata": SimpleNamespace(global_step=step, training_phase=phase),
    }


def generator_of(engine=None, config=None, **options):
    tokenizer = tiny_tokenizer()
    engine = engine or Engine(tokenizer)
    options.setdefault("limits", Limits(retries=0))
    made = SkyRLGenerator(
        config or Config(),
        SimpleNamespace(),
        engine,
        tokenizer,
        "policy",
        options=GeneratorOptions(**options),
    )
    return made, engine


async def test_a_row_per_turn_has_the_tokens_that_were_sampled():
    made, engine = generator_of()
    given = batch_of(task_rows(tasks(), PlainSkill("Be brief.")))
    out = await made.generate(given)
    rows = len(out["response_ids"])
    assert rows == 8  # two tasks, two episodes each, two turns each
    lists = [value for value in out.values() if isinstance(value, list)]
    assert {len(one) for one in lists} == {rows}
    for number in range(rows):
        size = len(out["response_ids"][number])
        assert out["loss_masks"][number] == [1] * size
        assert len(out["rollout_logprobs"][number]) == len(out["rewards"][number]) == size
        assert all(p < 0 for p in out["rollout_logprobs"][number])
    assert out["trajectory_ids"] == [one for one in given["trajectory_ids"] for _ in range(2)]
    assert out["is_last_step"] == [False, True] * 4
    assert sorted(engine.finished) == sorted(set(engine.sessions))
    assert len(engine.finished) == 4


async def test_a_turns_prompt_continues_the_one_before_with_the_very_tokens():
    made, _ = generator_of()
    out = await made.generate(batch_of(task_rows(tasks())))
    for first in range(0, 8, 2):
        said = out["prompt_token_ids"][first] + out["response_ids"][first]
        assert out["prompt_token_ids"][first + 1][: len(said)] == said


async def test_the_reward_stands_on_the_last_token_of_an_episode():
    made, _ = generator_of()
    out = await made.generate(batch_of(task_rows(tasks())))
    sums = [sum(one) for one in out["rewards"]]
    assert [sums[i] for i in range(0, 8, 2)] == [0.0] * 4
    assert any(sums)
    assert all(one[-1] == sum(one) for one in out["rewards"])
    mean = sum(sums) / 4
    assert out["rollout_metrics"]["environment/mean_reward"] == pytest.approx(mean)


async def test_all_episodes_of_a_group_are_given_the_skills_of_their_row():
    rows = task_rows(tasks(), BankSource(seed_bank("alfworld")))
    made, _ = generator_of()
    out = await made.generate(batch_of(rows, n=3))
    speech = tiny_tokenizer()
    openings = [speech.decode(out["prompt_token_ids"][number]) for number in range(0, 12, 2)]
    assert len({*openings[:3]}) == len({*openings[3:]}) == 1
    skills = rows[0]["prompt"][0]["content"]
    assert skills.startswith("## Skill\n\n")
    assert f"Say something.\n\n{skills}" in openings[0]


async def test_a_failed_episode_leaves_its_group_in_training_and_the_mean_in_evaluation(caplog):
    rows = task_rows(tasks(broken=400))
    for phase in ("train", "eval"):
        made, _ = generator_of()
        out = await made.generate(batch_of(rows, n=8, phase=phase))
        failures = out["rollout_metrics"]["environment/failures"]
        present = {(one.instance_id, one.repetition_id) for one in out["trajectory_ids"]}
        assert 0 < failures < 16
        assert len(present) == 16 - failures
        assert {one.instance_id for one in out["trajectory_ids"]} == {"0", "1"}
        assert all(any(mask) for mask in out["loss_masks"])
        assert f"{failures} of 16 episodes failed and are left out" in caplog.text
        caplog.clear()


async def test_a_group_of_which_nothing_is_left_is_one_masked_row_in_training():
    rows = [*task_rows(tasks()[:1]), *task_rows(tasks(broken=1000)[1:])]
    made, _ = generator_of()
    out = await made.generate(batch_of(rows, n=3))
    placeholders = [n for n, one in enumerate(out["trajectory_ids"]) if one.instance_id == "1"]
    assert len(placeholders) == 1
    assert out["loss_masks"][placeholders[0]] == [0]
    assert out["rewards"][placeholders[0]] == [0.0]
    assert out["is_last_step"][placeholders[0]] is True
    evaluated = await made.generate(batch_of(rows, n=3, phase="eval"))
    assert {one.instance_id for one in evaluated["trajectory_ids"]} == {"0"}


async def test_where_nothing_has_a_reward_there_is_no_score():
    made, _ = generator_of()
    with pytest.raises(EngineDown, match="the floor gave way"):
        await made.generate(batch_of(task_rows(tasks(broken=1000))))


async def test_an_episode_that_a_limit_ended_counts_for_nothing_in_training_only():
    rows = task_rows(tasks()[:1])
    made, _ = generator_of(config=Config(max_turns=1))
    out = await made.generate(batch_of(rows))
    assert sum(map(sum, out["rewards"])) == 0.0
    assert out["is_last_step"] == [True, True]


async def test_what_the_engine_does_wrong_is_a_failure_that_says_so():
    def raises(given):
        raise ConnectionError("the server hung up")

    def cut(given):
        return given | {"response_logprobs": [[-1.0]]}

    def empty(given):
        return given | {"response_ids": [[]], "stop_reasons": ["abort"]}

    for wrong, said in ((raises, "hung up"), (cut, "log-probabilities"), (empty, "no answer")):
        made, _ = generator_of(Engine(tiny_tokenizer(), wrong=wrong))
        with pytest.raises(EngineDown, match=said):
            await made.generate(batch_of(task_rows(tasks())))


async def test_without_log_probabilities_there_are_none():
    made, _ = generator_of(
        Engine(tiny_tokenizer(), wrong=lambda given: given | {"response_logprobs": None})
    )
    out = await made.generate(batch_of(task_rows(tasks())))
    assert out["rollout_logprobs"] is None


async def test_a_prompt_over_the_limit_ends_the_episode_there():
    made, _ = generator_of(config=Config(max_input_length=70))
    out = await made.generate(batch_of(task_rows(tasks()), phase="eval"))
    assert out["is_last_step"] == [True] * 4


async def test_episodes_of_training_are_kept_for_the_bank(tmp_path):
    made, _ = generator_of(rollouts=tmp_path / "rollouts")
    rows = task_rows(tasks(broken=300), PlainSkill("Be brief."))
    await made.generate(batch_of(rows, n=4, step=7))
    await made.generate(batch_of(rows, phase="eval", step=7))
    names = sorted(path.name for path in (tmp_path / "rollouts").iterdir())
    assert names == ["eval_000007.jsonl", "step_000007.jsonl"]
    kept = read_rollouts(tmp_path / "rollouts" / names[1])
    assert len(kept) == 8
    assert {one.spec.phase for one in kept} == {"train"}
    assert any(one.failure for one in kept)
    assert any(one.trajectory.turns for one in kept)
    assert all(not turn.prompt for one in kept for turn in one.trajectory.turns)


async def test_a_real_environment_with_a_bank_plays_to_its_end():
    games = generated_tasks("train", 1, seed=0)
    rows = task_rows(games, BankSource(seed_bank("alfworld")))
    tokenizer = tiny_tokenizer()
    engine = ScriptedEngine(tokenizer, "<action>look</action>")
    made, _ = generator_of(engine, Config(max_turns=3, max_input_length=50_000))
    out = await made.generate(batch_of(rows))
    assert len(out["response_ids"]) == 6
    assert engine.asked == 6


async def test_an_environment_that_is_unknown_here_is_named():
    made, _ = generator_of()
    rows = [row | {"env_class": "tests_leters"} for row in task_rows(tasks())]
    with pytest.raises(DataError, match="tests_letters"):
        await made.generate(batch_of(rows))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda given: given.pop("trajectory_ids"), "trajectory_ids missing"),
        (lambda given: given["prompts"].pop(), "prompts 3"),
        (lambda given: given["env_extras"][0]["extra_info"].pop("split"), "'split'"),
        (lambda given: given["prompts"].__setitem__(0, []), "different skills"),
    ],
)
async def test_a_batch_of_another_shape_is_refused(change, said):
    made, _ = generator_of()
    given = batch_of(task_rows(tasks(), PlainSkill("Be brief.")))
    given["env_extras"] = [
        {**one, "extra_info": dict(one["extra_info"])} for one in given["env_extras"]
    ]
    change(given)
    with pytest.raises(DataError, match=said):
        await made.generate(given)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (Config(step_wise_trajectories=False), "step_wise_trajectories=true"),
        (Config(batched=True), r"generator\.batched"),
    ],
)
def test_rows_of_another_shape_are_not_offered(config, said):
    with pytest.raises(ConfigError, match=said):
        generator_of(config=config)


def test_skyrls_own_generator_shows_the_agent_the_same_prompt():
    skyrl_gym = pytest.importorskip("skyrl_gym")
    games = generated_tasks("train", 2, seed=0)
    rows = task_rows(games, BankSource(seed_bank("alfworld")))
    register_with_skyrl(["alfworld"])
    for row in rows:
        columns = {name: of for name, of in row.items() if name not in ("prompt", "env_class")}
        # A table has every column in every row.
        extras = {**columns, "max_turns": 5, "game_file": None}
        env = skyrl_gym.make("alfworld", env_config={}, extras=extras)
        messages, _ = env.init(row["prompt"])
        assert [one["role"] for one in messages] == ["system", "user"]
        assert messages[0]["content"].endswith(row["prompt"][0]["content"])
        env.close()
