"""The mind behind tau-bench's simulated users, which is an endpoint beside the agent's."""

from typing import cast

from skillwright.config.env import EnvSection
from skillwright.envs.tau_bench import UserSetting, make_user, read_config
from skillwright.envs.tau_bench.user_endpoint import user_endpoint
from skillwright.envs.tau_bench.user_model import ModelUser
from skillwright.jobs.parts.tau_report import TAU_BENCH
from skillwright.models import ModelConfig


def user_mind(env: EnvSection) -> ModelConfig | None:
    """Return the model that plays the users; ``None`` where no model does.

    Raises:
        DataError: A setting is wrong.
        ConfigError: A setting of the model is wrong.
    """
    if env.name != TAU_BENCH:
        return None
    config = read_config(env.config)
    setting = UserSetting(config, split="", task_index=0, replies=config.user_replies)
    user = make_user(config.user_strategy, setting)
    return cast("ModelConfig", user_endpoint(config)) if isinstance(user, ModelUser) else None
