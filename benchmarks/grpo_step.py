"""A step of GRPO, rollout and update: ours against TRL's trainer, on the same random model.

Both sides get the same weights, chat prompts, group size, answer length, reward, KL weight and
optimizer, one step per batch, and one thread; each runs in a process of its own, and the sides take
turns. An episode is one answer, which suits TRL best: it has no cache to keep from turn to turn.
Every episode differs in reward, so that no group is skipped.

    .venv/bin/python benchmarks/grpo_step.py            # a tiny model on the CPU
    .venv/bin/python benchmarks/grpo_step.py --turns 4  # and what a kept cache saves, ours alone

Where there is a GPU, a random model of the shape of Qwen2.5-1.5B takes part too, in bfloat16.
The figures are medians over steps, without each process's first. CPU figures are CPU time: with
one thread that is what a quiet machine's clock would show.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

import torch

from measuring import Check, Kind, at_least, ratios_of, report

ROUNDS, STEPS, PROMPTS, GROUP = 3, 4, 8, 8
TARGET = 2.2
"""Our episodes per second by TRL's, round by round."""
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "vocab_size": 512,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    },
    "1.5b": {
        "vocab_size": 151_936,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
}
ANSWER = {"tiny": 64, "1.5b": 256}
SKILLS = "\n".join(f"- [g{n:03}] Look around: open what is closed, then take it." for n in range(4))


def conversation(number: int) -> list[dict[str, str]]:
    """Return a task as an agent reads it; about 300 tokens of a byte-level tokenizer."""
    return [
        {"role": "system", "content": f"You are in a kitchen.\n\n## Skill\n\n{SKILLS}"},
        {"role": "user", "content": f"Your task is to: heat mug {number} and put it on shelf 1."},
    ]


def reward_of(text: str) -> float:
    """Give nearly every answer another reward."""
    return sum(map(ord, text)) % 97 / 96


def write_model(folder: Path, shape: str) -> None:
    """Save a random model and a byte-level tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    vocabulary = {token: i for i, token in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    ends = {"eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **ends)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    special = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = Qwen2Config(max_position_embeddings=4096, **special, **SHAPES[shape])
    Qwen2ForCausalLM(config).save_pretrained(folder)


def ours(folder: Path, shape: str, _: Path) -> list[dict[str, float]]:
    """Play and learn with our own backend."""
    from skillwright.core import TurnContext
    from skillwright.policy import (
        AdvantageSettings,
        GrpoObjective,
        GrpoSettings,
        group_advantages,
        update,
    )
    from skillwright.policy.hf import HfPolicy, HfSettings

    policy = HfPolicy.load_pretrained(str(folder), HfSettings(max_new_tokens=ANSWER[shape]))
    policy.freeze_reference()
    settings = GrpoSettings(GrpoObjective(kl_weight=0.01, dual_clip=None), learning_rate=1e-6)
    steps = []
    for step in range(STEPS + 1):
        begin = clock()
        contexts = [
            TurnContext(tuple(conversation(task)), seed=10_000 * step + 100 * task + draw)
            for task in range(PROMPTS)
            for draw in range(GROUP)
        ]
        sampled = policy.sample(contexts, temperature=1.0)
        middle = clock()
        rows = []
        for first in range(0, len(sampled), GROUP):
            group = sampled[first : first + GROUP]
            rewards = [reward_of(one.act.text) for one in group]
            advantages = group_advantages(rewards, AdvantageSettings())
            rows += [
                replace(one.row, advantage=a) for one, a in zip(group, advantages, strict=True)
            ]
        update(policy, rows, settings, seed=step)
        steps.append(figures(begin, middle, clock(), sum(len(r.token_ids) for r in rows)))
    return steps


def theirs(folder: Path, shape: str, scratch: Path) -> list[dict[str, float]]:
    """Play and learn with TRL's trainer, watched from outside."""
    warnings.simplefilter("ignore")
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from datasets import Dataset

    steps: list[dict[str, float]] = []
    times = {"begin": 0.0, "middle": 0.0, "tokens": 0}

    class Watch(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            times["begin"] = clock()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            steps.append(figures(times["begin"], times["middle"], clock(), int(times["tokens"])))

    def reward(completions: list[Any], completion_ids: list[list[int]], **_: Any) -> list[float]:
        # Called before anything is learned from the answers. TRL has read the reference by then,
        # which ours does later: that pass counts as sampling there, and as training here.
        times["middle"] = clock()
        times["tokens"] = sum(map(len, completion_ids))
        return [reward_of(one[0]["content"]) for one in completions]

    cuda = torch.cuda.is_available()
    config = GRPOConfig(
        output_dir=str(scratch),
        use_cpu=not cuda,
        bf16=cuda,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        max_steps=STEPS + 1,
        per_device_train_batch_size=PROMPTS * GROUP,
        num_generations=GROUP,
        max_completion_length=ANSWER[shape],
        temperature=1.0,
        beta=0.01,
        loss_type="bnpo",
        learning_rate=1e-6,
        lr_scheduler_type="constant",
        gradient_checkpointing=False,
        model_init_kwargs={"dtype": torch.float32},
    )
    trainer = GRPOTrainer(
        model=str(folder),
        args=config,
        reward_funcs=reward,
        train_dataset=Dataset.from_list([{"prompt": conversation(n)} for n in range(PROMPTS)]),
        callbacks=[Watch()],
    )
    trainer.train()
    return steps


def clock() -> float:
    """Return seconds: of the CPU, or of the wall where a GPU works."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return perf_counter()
    return process_time()


def figures(begin: float, middle: float, end: float, tokens: int) -> dict[str, float]:
    """Return what a step came to."""
    return {
        "episodes_per_s": PROMPTS * GROUP / (end - begin),
        "sampled_per_s": tokens / (middle - begin),
        "trained_per_s": tokens / (end - middle),
        "step_s": end - begin,
        "tokens": float(tokens),
    }


def peak_mb() -> float:
    """Return the most memory that was in use: the GPU's, or the process's."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def turns(folder: Path, count: int) -> dict[str, float]:
    """Return seconds of sampling episodes of several turns, with and without a kept cache."""
    from skillwright.core import TurnContext
    from skillwright.policy.hf import HfPolicy, HfSettings

    spent = {}
    for keep in (True, False):
        settings = HfSettings(max_new_tokens=16, keep_cache=keep)
        policy = HfPolicy.load_pretrained(str(folder), settings)
        talks = [tuple(conversation(n)) for n in range(PROMPTS) for _ in range(GROUP)]
        begin = clock()
        for turn in range(count):
            contexts = [TurnContext(talk, seed=64 * turn + n) for n, talk in enumerate(talks)]
            acts = [one.act for one in policy.sample(contexts, temperature=1.0)]
            seen = {"role": "user", "content": "You see a mug 1, a shelf 2 and a fridge 1. " * 3}
            talks = [
                (*talk, {"role": "assistant", "content": act.text}, seen)
                for talk, act in zip(talks, acts, strict=True)
            ]
        spent["kept" if keep else "read again"] = round(clock() - begin, 2)
    return spent


SIDES: dict[str, Callable[[Path, str, Path], list[dict[str, float]]]] = {
    "ours": ours,
    "trl": theirs,
}


def run_side(side: str, folder: Path, shape: str) -> dict[str, Any]:
    """Run one side in a process of its own."""
    command = [sys.executable, __file__, "--side", side, "--model", str(folder), "--shape", shape]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def compare(shape: str, folder: Path) -> tuple[Check, dict[str, Any]]:
    """Let both sides take turns; return the check and their figures."""
    write_model(folder, shape)
    results: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(ROUNDS):
        for side in SIDES:
            results[side].append(run_side(side, folder, shape))
    summary: dict[str, Any] = {"shape": shape}
    for side, runs in results.items():
        steps = [step for run in runs for step in run["steps"][1:]]
        summary[side] = {
            name: round(median(step[name] for step in steps), 2) for name in steps[0]
        } | {"peak_mb": round(max(run["peak_mb"] for run in runs))}
        low, _, high = quantiles([step["episodes_per_s"] for step in steps], n=4)
        summary[side]["spread"] = [round(low, 2), round(high, 2)]
    ours_per_s, theirs_per_s = (
        [median(step["episodes_per_s"] for step in run["steps"][1:]) for run in results[side]]
        for side in ("ours", "trl")
    )
    name = f"episodes per second, rollout and update, {shape}"
    ratios = ratios_of(ours_per_s, theirs_per_s)
    return at_least(name, Kind.PEER, ratios, TARGET), summary


def main() -> int:
    """Compare, print a table, and the checks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--turns", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        if options.side:
            steps = SIDES[options.side](options.model, options.shape, Path(scratch))
            print(json.dumps({"steps": steps, "peak_mb": peak_mb()}))
            return 0
        results = [compare("tiny", Path(scratch) / "tiny")]
        if torch.cuda.is_available():
            results.append(compare("1.5b", Path(scratch) / "large"))
        for _, result in results:
            for side in SIDES:
                shown = "  ".join(f"{name} {value}" for name, value in result[side].items())
                print(f"{result['shape']:5} {side:5} {shown}")
        if options.turns:
            unit = "s" if torch.cuda.is_available() else "CPU s"
            print(f"{options.turns} turns, {unit}:", turns(Path(scratch) / "tiny", options.turns))
    return report([check for check, _ in results], results=[result for _, result in results])


if __name__ == "__main__":
    sys.exit(main())
