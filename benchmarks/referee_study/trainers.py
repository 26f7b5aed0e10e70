"""Trains one bench with one trainer, within a budget of plays.

Every trainer has its own recommended settings where the referee does not say otherwise; `SETTINGS`
says both.
"""

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from referee_study.adapters import OPEN, Methods, write_items
from referee_study.worlds import MOST_EDITS, Bench, Item, Row

BATCH = 20
"""Tasks of a step."""
PEERS = Path(sys.prefix) / "peers"
"""Where `make setup` installs SkillOpt."""
OVERSHOOT = 1.25
"""Plays that a training may take, as a share of its budget: gepa looks at it between steps."""


class Decision(NamedTuple):
    """A candidate, the text that it was to replace, and whether it did."""

    before: str
    after: str
    accepted: bool


class Trained(NamedTuple):
    """The outcome of a training."""

    released: str
    current: str
    decisions: list[Decision]


def skillopt_steps(bench: Bench, budget: int) -> int:
    """Return the epochs of SkillOpt that a budget pays: its baseline, then batch and val a step."""
    items = bench.world.items
    steps = (budget - len(items["val"])) // (BATCH + len(items["val"]))
    return max(steps // -(-len(items["train"]) // BATCH), 1)


def train_skillopt(bench: Bench, budget: int, seed: int, folder: Path) -> Trained:
    """Train with SkillOpt from the index.

    The package lacks its prompt files. The optimizer here reads none, so their names stand in.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    if str(PEERS) not in sys.path:
        sys.path.append(str(PEERS))
    import skillopt.prompts

    skillopt.prompts.load_prompt = lambda name, env=None: name
    from skillopt.datasets.base import SplitDataLoader
    from skillopt.engine.trainer import ReflACTTrainer
    from skillopt.envs.base import EnvAdapter

    class Adapter(Methods, EnvAdapter):
        def __init__(self) -> None:
            self.bench = bench
            self.loader = SplitDataLoader(split_dir=str(folder / "data"), split_mode="split_dir")

        def setup(self, cfg: dict[str, Any]) -> None:
            super().setup(cfg)
            self.loader.setup(cfg)

    write_items(bench.world.items, folder / "data")
    out = folder / "skillopt"
    settings = {
        "out_root": str(out),
        "skill_init": str(folder / "none.md"),
        "optimizer_model": "none",
        "target_model": "none",
        "num_epochs": skillopt_steps(bench, budget),
        "batch_size": BATCH,
        "accumulation": 1,
        "seed": seed,
        "edit_budget": MOST_EDITS,
        "lr_scheduler": "constant",
        "merge_batch_size": 8,
        "analyst_workers": 1,
        "use_gate": True,
        "gate_metric": "hard",
        "use_slow_update": False,
        "use_meta_skill": False,
        "sel_env_num": 0,
        "test_env_num": 0,
        "eval_test": False,
        "split_mode": "split_dir",
        "split_dir": str(folder / "data"),
    }
    with redirect_stdout(io.StringIO()):
        ReflACTTrainer(settings, Adapter()).train()
    decisions, current = [], ""
    for step in json.loads((out / "history.json").read_text(encoding="utf-8")):
        after = (out / "skills" / f"skill_v{step['step']:04d}.md").read_text(encoding="utf-8")
        made = out / "steps" / f"step_{step['step']:04d}" / "candidate_skill.md"
        if made.is_file():
            accepted = step["action"].startswith("accept")
            decisions.append(Decision(current, made.read_text(encoding="utf-8"), accepted))
        current = after
    released = (out / "best_skill.md").read_text(encoding="utf-8")
    return Trained(released, current, decisions)


class _Followed:
    """Follows what gepa decides."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def on_candidate_accepted(self, event: Any) -> None:
        del event
        self.decisions[-1] = self.decisions[-1]._replace(accepted=True)


class _GepaAdapter:
    """A bench as gepa plays it."""

    def __init__(self, bench: Bench, folder: Path, followed: _Followed) -> None:
        self._bench = bench
        self._folder = folder
        self._followed = followed

    def evaluate(
        self, batch: Sequence[Item], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        """Play a batch with a candidate."""
        from gepa.core.adapter import EvaluationBatch

        rows = self._bench.play(candidate["skill"], batch, self._folder)
        scores = [float(row["hard"]) for row in rows]
        return EvaluationBatch(rows, scores, rows if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> dict[str, list[Row]]:
        """Return the rows of a batch."""
        del candidate
        return dict.fromkeys(components_to_update, eval_batch.trajectories)

    def propose_new_texts(
        self,
        candidate: dict[str, str],
        reflective_dataset: dict[str, list[Row]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """Ask the optimizer."""
        del components_to_update
        before = candidate["skill"]
        after = self._bench.improve(before, reflective_dataset["skill"], self._folder)
        self._followed.decisions.append(Decision(before, after, accepted=False))
        return {"skill": after}


def train_gepa(bench: Bench, budget: int, seed: int, folder: Path) -> Trained:
    """Train with gepa from the index."""
    import gepa

    followed = _Followed()
    result = gepa.optimize(
        seed_candidate={"skill": ""},
        trainset=list(bench.world.items["train"]),
        valset=list(bench.world.items["val"]),
        adapter=_GepaAdapter(bench, folder, followed),
        max_metric_calls=budget,
        seed=seed,
        callbacks=[followed],
        logger=SimpleNamespace(log=lambda message: None),
    )
    best = result.best_candidate["skill"]
    return Trained(best, best, followed.decisions)


EPOCHS = {400: 1, 800: 2, 1600: 6, 3200: 14}
"""Epochs of Skillwright by budget, where the configuration has no budget of rollouts."""


def train_skillwright(bench: Bench, budget: int, seed: int, folder: Path) -> Trained:
    """Train with Skillwright and its default gate."""
    import skillwright as sw
    from skillwright.config.run import BudgetSection

    write_items(bench.world.items, folder / "data")
    with _opened(bench, f"{folder}") as name:
        settings: dict[str, Any] = {
            "run": {"name": "run", "root": str(folder / "runs"), "seed": seed},
            "env": {
                "name": "referee_study.adapters:RefereeAdapter",
                "config": {"bench": name},
                "data": {"kind": "split_dir", "path": str(folder / "data")},
            },
            "models": {
                "target": {"backend": "scripted", "model": "household"},
                "optimizer": {"backend": "scripted", "model": "analyst"},
            },
            "train": {"epochs": EPOCHS.get(budget, 1), "batch_size": BATCH},
            "optimizer": {
                "learning_rate": MOST_EDITS,
                "lr_scheduler": "constant",
                "use_slow_update": False,
                "use_meta_skill": False,
            },
            "evaluation": {"test": False},
        }
        if "rollouts" in BudgetSection.model_fields:
            settings["train"]["epochs"] = budget // BATCH
            settings["budget"] = {"rollouts": budget}
        run = sw.train(settings, progress=False)
    return _of_run(run)


def _of_run(run: Any) -> Trained:
    from skillwright.runs import RunFolder, RunStore

    state = run.summary.state
    with closing(RunStore.open(RunFolder.look(run.path).store_path, read_only=True)) as store:
        texts = {one.version: store.skill(one.version) for one in store.skills()}
    decisions, current = [], 0
    for step in state.steps:
        if step.skill_version is not None:
            decisions.append(Decision(texts[current], texts[step.skill_version], step.enters))
            current = step.skill_version if step.enters else current
    return Trained(run.skill, texts[state.skill_version], decisions)


@contextmanager
def _opened(bench: Bench, name: str) -> Iterator[str]:
    OPEN[name] = bench
    try:
        yield name
    finally:
        del OPEN[name]


Train = Callable[[Bench, int, int, Path], Trained]
TRAINERS: dict[str, Train] = {
    "Skillwright": train_skillwright,
    "SkillOpt 0.2.0": train_skillopt,
    "gepa 0.1.4": train_gepa,
}
