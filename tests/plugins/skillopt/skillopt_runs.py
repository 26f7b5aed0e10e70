"""Runs of adapters that import from `skillopt` alone: rooms with doors, models behind HTTP."""

import json
import re
from contextlib import contextmanager
from pathlib import Path

import yaml

from doors import ALL_RULES, Coach, Walker, llms, look, rule, write_tasks
from mock_openai import answer_with
from served import served
from skillwright.config.run import validated
from skillwright.core import Completion, Usage
from skillwright.jobs import EvalPlan, NullCallback, run_evaluation, start_run

ADAPTERS = Path(__file__).parent / "skillopt_adapters"
DOCUMENTED = f"{ADAPTERS / 'documented.py'}:RoomsAdapter"
LATER = f"{ADAPTERS / 'later.py'}:RoomsAdapter"
SWALLOWING = f"{ADAPTERS / 'documented.py'}:Swallowing"
PLAN = EvalPlan("test", 1)


class Doorman(Coach):
    """Tells adapters the rule of every room that they name; else it coaches."""

    def __init__(self):
        super().__init__([[ALL_RULES]])

    async def complete(self, messages, **kwargs):
        if len(messages) == 1:
            return Completion("ready")
        if messages[0]["content"] != "Name the doors.":
            return await super().complete(messages, **kwargs)
        text = "\n".join(map(rule, re.findall(r"\w+", messages[1]["content"])))
        return Completion(text, usage=Usage(calls=1, input_tokens=5, output_tokens=7))


@contextmanager
def written(folder, walker=None, doorman=None, **sections):
    """Serve both models, and write a configuration that asks them."""
    write_tasks(folder / "tasks")
    llms = {"walker": walker or Walker(), "doorman": doorman or Doorman()}
    with served(answer_with(llms)) as server:
        llm = {
            "backend": "openai_chat",
            "base_url": server.base_url,
            "api_key": server.api_key,
            "max_attempts": 1,
        }
        settings = {
            "run": {"root": str(folder / "runs")},
            "models": {
                "target": {**llm, "model": "walker"},
                "optimizer": {**llm, "model": "doorman"},
            },
            "env": {"config": {"split_dir": str(folder / "tasks"), "split_mode": "split_dir"}},
            "train": {"epochs": 1, "batch_size": 6},
        }
        for name, values in sections.items():
            settings[name] = {**settings.get(name, {}), **values}
        path = folder / "rooms.yaml"
        path.write_text(yaml.safe_dump(settings), encoding="utf-8")
        yield path, server


def told(result):
    """Return what a command printed with --json."""
    return json.loads(result.stdout)


def usage(path):
    """Return what a run consumed, by purpose."""
    with look(Path(path)) as store:
        return store.usage_by_purpose()


def rereading(folder, adapter, retries=0, file="rereading.py"):
    """Return the configuration of an adapter, by default one that continues from its own files."""
    write_tasks(folder / "tasks")
    settings = {
        "run": {"root": str(folder / "runs"), "name": "x"},
        "models": {
            "target": {"backend": "scripted", "model": "household"},
            "optimizer": {"backend": "scripted", "model": "analyst"},
        },
        "env": {
            "name": f"{ADAPTERS / file}:{adapter}",
            "compat": "skillopt",
            "config": {"split_dir": str(folder / "tasks")},
        },
        "rollout": {"retries": retries},
    }
    return validated(settings, "x")


async def evaluated(config, walker):
    """Evaluate the empty skill; return the run's folder and the report."""
    with start_run(config, "", PLAN) as run:
        report = await run_evaluation(run, PLAN, NullCallback(), llms(walker))
        return run.folder.path, report
