"""SkyRL's trainer, or its evaluation, with our environments, episodes and skills.

    python launch.py train KEY=VALUE...             # GRPO; as in alfworld_grpo.sh
    python launch.py eval KEY=VALUE...              # tau_bench_eval.sh
    python launch.py train --dry-run KEY=VALUE...   # everything up to the first GPU

Keys are SkyRL's, ``environment.skyrl_gym.NAME.*`` are those of our environment NAME, and
``skillwright.*`` those below. Written for SkyRL 0.3, whose engines need Python 3.12. A dry run
reads configuration, tokenizer and data sets, plays a few episodes with an engine that always gives
one answer, and looks through the rows as SkyRL's trainer does; it ends with 0 where all of it
works, with 1 where SkyRL refuses, and with 2 where something was asked wrongly.
"""

import argparse
import asyncio
import importlib
import sys
import typing
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typing_extensions

from skillwright.core import DataError, SkillwrightError
from skillwright.plugins.skyrl import register_with_skyrl
from skillwright.plugins.skyrl.generator import (
    GeneratorOptions,
    ScriptedEngine,
    SkyRLGenerator,
)
from skillwright.rollout import Limits, PromptStyle
from skillwright.worlds.tau_bench import TauBenchEnvConfig

if sys.version_info < (3, 12):
    # SkyRL hands typed dictionaries to pydantic, which takes those of typing from Python 3.12 on.
    typing.TypedDict = typing_extensions.TypedDict

INSTALL = "pip install 'skillwright[skyrl]' 'skyrl[fsdp]==0.3.0'"

try:
    from skyrl.train.config import EnvironmentConfig, SkyRLGymConfig, SkyRLTrainConfig
    from skyrl.train.config.config import BaseConfig
    from skyrl.train.dataset import PromptDataset
    from skyrl.utils.tok import get_tokenizer
except ImportError as error:
    sys.exit(f"error: SkyRL cannot be imported ({error}); {INSTALL}")


@dataclass
class GymConfig(SkyRLGymConfig):
    """The gym's settings, and ours under the names of environments."""

    tau_bench: TauBenchEnvConfig = field(default_factory=TauBenchEnvConfig)


@dataclass
class EnvConfig(EnvironmentConfig):
    """Which environment is played where a row names none."""

    env_class: str = "alfworld"
    skyrl_gym: GymConfig = field(default_factory=GymConfig)


@dataclass
class OurConfig(BaseConfig):
    """What SkyRL has no setting for."""

    rollouts: str = ""
    """A folder that gets what was played, step by step."""
    history_turns: int = 0
    """Exchanges that a prompt holds; 0 for all of them."""
    episode_timeout_s: float = 600.0
    """A deadline of one attempt at an episode."""
    retries: int = 2
    """Further attempts at an episode that failed."""
    max_concurrent: int = 1024
    """Episodes at once."""
    dry_answer: str = "<action>look</action>"
    """What the engine of a dry run says."""


@dataclass
class Config(SkyRLTrainConfig):
    """SkyRL's settings with ours."""

    environment: EnvConfig = field(default_factory=EnvConfig)
    skillwright: OurConfig = field(default_factory=OurConfig)


def generator_of(config: Config, client: Any, tokenizer: Any, model: str | None) -> SkyRLGenerator:
    """Return what plays the episodes."""
    ours = config.skillwright
    limits = Limits(
        episode_timeout_s=ours.episode_timeout_s,
        max_concurrent=ours.max_concurrent,
        retries=ours.retries,
    )
    options = GeneratorOptions(
        limits,
        PromptStyle(ours.history_turns or None),
        Path(ours.rollouts).expanduser() if ours.rollouts else None,
        config.trainer.seed,
    )
    gym = config.environment.skyrl_gym
    return SkyRLGenerator(config.generator, gym, client, tokenizer, model, options=options)


def experiment(kind: str, config: Config) -> Any:
    """Return SkyRL's experiment with our generator; called in the process that plays."""
    main_base = importlib.import_module("skyrl.train.entrypoints.main_base")
    main_generate = importlib.import_module("skyrl.train.entrypoints.main_generate")
    servers = importlib.import_module("skyrl.backends.skyrl_train.inference_servers.utils")
    register_with_skyrl()
    theirs: Any = main_base.BasePPOExp if kind == "train" else main_generate.EvalOnlyEntrypoint

    class Experiment(theirs):
        def get_generator(self, cfg: Config, tokenizer: Any, client: Any) -> SkyRLGenerator:
            return generator_of(cfg, client, tokenizer, servers.resolve_policy_model_name(cfg))

    return Experiment(config)


def play(kind: str, config: Config) -> dict[str, Any]:
    """Train, or evaluate; runs in a process of the cluster."""
    made = experiment(kind, config)
    if kind == "train":
        made.run()
        return {}
    client = made.get_inference_client()
    return dict(asyncio.run(made.run(client)))


def validate(kind: str, config: Config) -> None:
    """Have SkyRL look through its configuration."""
    checks = importlib.import_module("skyrl.train.utils.utils")
    if kind == "train":
        checks.validate_cfg(config)
    else:
        checks.validate_generator_cfg(config)


def launch(kind: str, config: Config) -> None:
    """Start Ray, and have SkyRL train or evaluate in it."""
    validate(kind, config)
    ray = importlib.import_module("ray")
    importlib.import_module("skyrl.train.utils.utils").initialize_ray(config)
    played = ray.get(ray.remote(num_cpus=1)(play).remote(kind, config))
    for name, value in sorted(played.items()):
        print(f"{name}: {value}")


# The dry run.


def rehearse(kind: str, config: Config) -> dict[str, Any]:
    """Do what comes before the first GPU, as far as it is ours; return a few episodes' rows."""
    tokenizer = get_tokenizer(config.trainer.policy.model.path, padding_side="left")
    sets = {"val": config.data.val_data}
    if kind == "train":
        sets = {"train": config.data.train_data, **sets}
    rows = {name: read_rows(config, name, files, tokenizer) for name, files in sets.items()}
    drawn = config.generator
    per_prompt = drawn.n_samples_per_prompt if kind == "train" else drawn.eval_n_samples_per_prompt
    first = rows["train" if kind == "train" else "val"][:2]
    client = ScriptedEngine(tokenizer, config.skillwright.dry_answer)
    config.skillwright.rollouts = ""
    generator = generator_of(config, client, tokenizer, None)
    output = asyncio.run(generator.generate(batch_of(first, per_prompt, kind)))
    metrics = output["rollout_metrics"]
    print(
        f"{metrics['environment/episodes']} episodes of {len(first)} rows: "
        f"{metrics['environment/failures']} failures, "
        f"mean turns {metrics['environment/mean_turns']:g}, {client.asked} answers asked for"
    )
    return dict(output)


def read_rows(config: Config, name: str, files: list[str], tokenizer: Any) -> list[tuple[Any, ...]]:
    """Read a data set as SkyRL does; it drops rows whose prompts are too long."""
    limit = config.trainer.max_prompt_length
    paths = [str(Path(file).expanduser()) for file in files]
    missing = [path for path in paths if not Path(path).is_file()]
    if missing:
        raise DataError(f"data.{name}_data: there is no file {missing[0]!r}; rows.py writes it")
    rows = PromptDataset(paths, tokenizer, limit, num_workers=1)
    least = config.trainer.train_batch_size if name == "train" else 1
    if len(rows) < least:
        raise DataError(
            f"data.{name}_data has {len(rows)} rows within trainer.max_prompt_length = {limit}, "
            f"and {least} are needed; write more, or raise the limit"
        )
    kept = [rows[number] for number in range(len(rows))]
    names = Counter(env or config.environment.env_class for _, env, _, _ in kept)
    environments = ", ".join(f"{count} of {env}" for env, count in sorted(names.items()))
    print(f"{name}: {len(kept)} rows ({environments})")
    return kept


def batch_of(rows: list[tuple[Any, ...]], times: int, kind: str) -> dict[str, Any]:
    """Return what SkyRL's trainer hands to a generator: each row as often as its group is large."""
    many = [(row, number) for row in rows for number in range(times)]
    phase = "train" if kind == "train" else "eval"
    return {
        "prompts": [row[0] for row, _ in many],
        "env_classes": [row[1] for row, _ in many],
        "env_extras": [dict(row[2]) for row, _ in many],
        "sampling_params": None,
        "trajectory_ids": [TrajectoryName(row[3], number) for row, number in many],
        "batch_metadata": SimpleNamespace(global_step=1, training_phase=phase),
    }


@dataclass(frozen=True)
class TrajectoryName:
    """As SkyRL's ``TrajectoryID``."""

    instance_id: str
    repetition_id: int

    def to_string(self) -> str:
        """Return it as SkyRL writes it."""
        return f"{self.instance_id}_{self.repetition_id}"


def look_through(kind: str, config: Config, output: dict[str, Any]) -> None:
    """Have SkyRL's own modules look through configuration and rows; needs no GPU."""
    for name in ("main_base", "main_generate"):
        importlib.import_module(f"skyrl.train.entrypoints.{name}")
    validate(kind, config)
    rows = importlib.import_module("skyrl.train.utils.trainer_utils")
    rows.validate_generator_output(len(output["response_ids"]), output, step_wise=True)
    count = len(output["response_ids"])
    if config.generator.merge_stepwise_output:
        merging = importlib.import_module("skyrl.train.generators.utils")
        merged = len(merging.merge_stepwise_output(output)["response_ids"])
        print(f"SkyRL joins {count} rows into {merged}")
    print(f"SkyRL accepts the configuration and {count} rows")


def dry_run(kind: str, config: Config) -> int:
    """Do everything up to the first GPU; return the exit code."""
    output = rehearse(kind, config)
    try:
        look_through(kind, config, output)
    except Exception as error:  # noqa: BLE001 - whatever SkyRL has against it is the answer
        print(f"SkyRL refuses: {type(error).__name__}: {str(error).splitlines()[0]}")
        return 1
    print("next: Ray, and the engines on their GPUs")
    return 0


def main() -> int:
    """Read the settings; train, evaluate, or rehearse."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("train", "eval"))
    parser.add_argument("--dry-run", action="store_true", help="stop before the first GPU")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    asked = parser.parse_intermixed_args()
    try:
        config = Config.from_cli_overrides(asked.settings)
        if asked.dry_run:
            return dry_run(asked.kind, config)
    except (SkillwrightError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    launch(asked.kind, config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
