# As somebody else writes it.
# ruff: noqa: BLE001
"""Adapters that look for more of SkillOpt than there is, and score what they catch as a zero."""

from concurrent.futures import ThreadPoolExecutor

from skillopt.datasets.base import SplitDataLoader
from skillopt.envs.base import EnvAdapter
from skillopt.prompts import load_prompt


class MissingName(EnvAdapter):
    def __init__(self, split_dir: str = "", seed: int = 42):
        self.dataloader = SplitDataLoader(split_dir=split_dir, split_mode="split_dir", seed=seed)

    def setup(self, cfg):
        super().setup(cfg)
        self.dataloader.setup(cfg)

    def get_dataloader(self):
        return self.dataloader

    def build_env_from_batch(self, batch, **kwargs):
        return list(batch.payload or [])

    def build_train_env(self, batch_size, seed, **kwargs):
        return self.build_env_from_batch(self.dataloader.build_train_batch(batch_size, seed))

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return self.build_env_from_batch(self.dataloader.build_eval_batch(env_num, split, seed))

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(self._one, env_manager))

    def _one(self, item):
        row = {"id": item["id"], "hard": 0, "soft": 0.0, "fail_reason": ""}
        try:
            self._ask()
            row.update(hard=1, soft=1.0)
        except Exception:
            row["fail_reason"] = "the agent did not answer"
        return row

    def _ask(self):
        from skillopt.model import get_quantum_exec_config

        get_quantum_exec_config()

    def get_task_types(self):
        return []


class Wrapping(MissingName):
    """Says in words of its own that nothing came of it."""

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        rows = super().rollout(env_manager, skill_content, out_dir)
        raise RuntimeError(f"none of {len(rows)} items was answered")


class MissingModule(MissingName):
    def _ask(self):
        import skillopt.engine.trainer  # noqa: F401


class MissingPrompt(MissingName):
    def _ask(self):
        load_prompt("rollout_system", env="nowhere")


class GenericPrompt(MissingName):
    def _ask(self):
        assert load_prompt("analyst_error", env="nowhere").startswith("# ")


class Careful(MissingName):
    """Asks whether a name is there, which is no fault."""

    def _ask(self):
        import skillopt.model

        assert not hasattr(skillopt.model, "get_quantum_exec_config")


class MissingInReflect(Careful):
    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        return [{"id": item["id"], "hard": 0, "soft": 0.0} for item in env_manager]

    def reflect(self, results, skill_content, out_dir, **kwargs):
        try:
            from skillopt.gradient.reflect import summarize_everything

            return [summarize_everything(results)]
        except ImportError:
            return []
