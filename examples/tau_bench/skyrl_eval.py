"""SkyRL's evaluation with our environment: its own entry point, and one more name in its gym.

Settings of the environment are ``environment.skyrl_gym.tau_bench.*``; skyrl_eval.sh shows how it is
started. Written for SkyRL 0.3.
"""

import asyncio
import sys
from dataclasses import dataclass, field

import ray
from skyrl.train.config import EnvironmentConfig, SkyRLGymConfig, SkyRLTrainConfig
from skyrl.train.entrypoints.main_generate import EvalOnlyEntrypoint
from skyrl.train.utils.utils import initialize_ray, validate_generator_cfg

from skillwright.envs.tau_bench import TauBenchEnvConfig
from skillwright.integrations import register_with_skyrl


@dataclass
class GymConfig(SkyRLGymConfig):
    """The gym's settings, and ours under the name of the environment."""

    tau_bench: TauBenchEnvConfig = field(default_factory=TauBenchEnvConfig)


@dataclass
class EnvConfig(EnvironmentConfig):
    """Which environment is played."""

    env_class: str = "tau_bench"
    skyrl_gym: GymConfig = field(default_factory=GymConfig)


@dataclass
class Config(SkyRLTrainConfig):
    """SkyRL's settings with ours."""

    environment: EnvConfig = field(default_factory=EnvConfig)


@ray.remote(num_cpus=1)
def evaluate(config: Config) -> dict:
    """Play the data set; environments are built in this process, so it knows their names."""
    register_with_skyrl(["tau_bench"])
    entrypoint = EvalOnlyEntrypoint(config)
    client = entrypoint.get_inference_client()
    return asyncio.run(entrypoint.run(client))


def main() -> None:
    """Read the settings and evaluate."""
    config = Config.from_cli_overrides(sys.argv[1:])
    validate_generator_cfg(config)
    initialize_ray(config)
    for name, value in sorted(ray.get(evaluate.remote(config)).items()):
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
