"""A group of two environments, each with its own rows, tools and rubric."""

import plus_sums
import stock_room
import verifiers as vf


def load_environment(broken: str = "") -> vf.Environment:
    sums = plus_sums.load_environment(num_train=6, num_eval=0)
    stock = stock_room.load_environment(broken)
    return vf.EnvGroup(envs=[sums, stock], env_names=["sums", "stock"])
