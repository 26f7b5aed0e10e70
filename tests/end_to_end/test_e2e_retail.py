"""A whole training in the built-in store of tau_bench, with scripted models."""

from skillwright.config import RunConfig
from skillwright.jobs import NullCallback, run_training, start_run
from skillwright.worlds.tau_bench.scripted import read_rules
from skillwright.worlds.tau_bench.scripted.optimizer import LESSONS
from tau_built_in.generate import HERE


async def test_training_offline_makes_the_agent_better_on_customers_it_never_met(tmp_path):
    config = RunConfig.model_validate(
        {
            "run": {"root": str(tmp_path)},
            "models": {
                "target": {"backend": "scripted", "model": "retail"},
                "optimizer": {"backend": "scripted", "model": "retail_analyst"},
            },
            "env": {
                "name": "tau_bench",
                "config": {"user_strategy": "rule_based", "data_dir": str(HERE)},
                "data": {"kind": "tau_bench"},
            },
            "train": {"epochs": 3, "batch_size": 8},
            "evaluation": {"gate": {"kind": "strict"}},
        }
    )
    with start_run(config, "") as run:
        report = await run_training(run, NullCallback())
    tables = report.test.tables
    assert tables["initial"].overall.success_rate < 0.3
    assert tables["best"].overall.success_rate == 1.0
    assert set(LESSONS) <= read_rules(report.best_skill)
