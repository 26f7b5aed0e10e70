"""A step of GRPO, rollout and update: ours against TRL's trainer, on the same random model.

Both sides get the same weights, chat prompts, group size, answer length, reward, KL weight and
optimizer, one step per batch, and one thread of a CPU; each runs in a process of its own, and the
sides take turns. An episode is one answer, which suits TRL best: it has no cache to keep from turn
to turn. Every episode differs in reward, so that no group is skipped.

    .venv/bin/python benchmarks/grpo_step.py            # a tiny model, one of SmolLM2-135M's shape
    .venv/bin/python benchmarks/grpo_step.py --turns 4  # and what a kept cache saves, ours alone
    .venv/bin/python benchmarks/grpo_step.py --variants # which of TRL's settings are its fastest

TRL runs with the settings that were its fastest (`Job.theirs`). Where there is a GPU, a random
model of the shape of Qwen2.5-1.5B takes part too, in bfloat16, with master weights on both sides.
The figures are medians and quartiles over steps, without each process's first. CPU figures are CPU
time: with one thread that is what a quiet machine's clock would show. What TRL's generation takes
is its sampling, and the rest of its step is training; of ours, what `sample` takes is.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

import torch

from measuring import Check, Kind, at_least, ratios_of, report

ROUNDS = 3
VLLM_SHARE = 0.3  # of the GPU's memory; TRL's usual one
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Job:
    """What both sides do with a model of some shape."""

    shape: dict[str, Any]  # of a Qwen2 model, or a Llama one
    target: float  # our episodes per second by TRL's, round by round
    prompts: int = 8
    group: int = 8
    answer: int = 64  # most tokens
    skills: int = 4  # lines in the prompt
    steps: int = 4  # that count, after one that does not
    theirs: tuple[tuple[str, Any], ...] = ()  # TRL's fastest settings
    llama: bool = False

    @property
    def episodes(self) -> int:
        """Episodes of a step."""
        return self.prompts * self.group


def parts(rows: int, accumulated: int, **others: Any) -> tuple[tuple[str, Any], ...]:
    """Return the settings under which TRL takes so many rows at a time."""
    sizes = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": accumulated}
    return tuple((sizes | others).items())


JOBS = {
    "tiny": Job(
        {
            "vocab_size": 512,
            "hidden_size": 128,
            "intermediate_size": 384,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
        },
        target=3.0,
        theirs=parts(16, 4),
    ),
    # Few prompts and short answers, so that a step takes TRL about half a minute.
    "smollm2": Job(
        {
            "vocab_size": 49_152,
            "hidden_size": 576,
            "intermediate_size": 1536,
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "tie_word_embeddings": True,
        },
        target=1.3,
        prompts=2,
        group=4,
        answer=32,
        skills=1,
        steps=2,
        theirs=parts(8, 1),
        llama=True,
    ),
    "1.5b": Job(
        {
            "vocab_size": 151_936,
            "hidden_size": 1536,
            "intermediate_size": 8960,
            "num_hidden_layers": 28,
            "num_attention_heads": 12,
            "num_key_value_heads": 2,
            "tie_word_embeddings": True,
        },
        target=3.0,
        answer=256,
        theirs=parts(16, 4),
    ),
}
VARIANTS = {
    "all rows at once": {"tiny": parts(64, 1), "smollm2": parts(8, 1), "1.5b": parts(64, 1)},
    "a half at once": {"1.5b": parts(32, 2)},
    "a quarter at once": {"tiny": parts(16, 4), "smollm2": parts(2, 4), "1.5b": parts(16, 4)},
    "an eighth at once": {"tiny": parts(8, 8), "smollm2": parts(1, 8), "1.5b": parts(8, 8)},
    "a static cache": {
        "tiny": parts(16, 4, cache_implementation="static"),
        "smollm2": parts(8, 1, cache_implementation="static"),
        "1.5b": parts(16, 4, cache_implementation="static"),
    },
    "continuous batching": {"1.5b": parts(16, 4, use_transformers_continuous_batching=True)},
    # No master weights: steps of 1e-6 vanish. In them alone its generation is compiled.
    "bfloat16 weights": {"1.5b": parts(16, 4, model_init_kwargs={"dtype": "bfloat16"})},
    "bfloat16 weights, a static cache": {
        "1.5b": parts(16, 4, model_init_kwargs={"dtype": "bfloat16"}, cache_implementation="static")
    },
    "compiled": {
        "tiny": parts(16, 4, torch_compile=True),
        "smollm2": parts(8, 1, torch_compile=True),
    },
    "eager attention": {
        "tiny": parts(16, 4, model_init_kwargs={"dtype": "float32", "attn_implementation": "eager"})
    },
}


def conversation(number: int, skills: int) -> list[dict[str, str]]:
    """Return a task as an agent reads it.

    About 340 tokens of a byte-level tokenizer with four skills, 170 with one.
    """
    lines = [f"- [g{n:03}] Look around: open what is closed, then take it." for n in range(skills)]
    text = "\n".join(lines)
    return [
        {"role": "system", "content": f"You are in a kitchen.\n\n## Skill\n\n{text}"},
        {"role": "user", "content": f"Your task is to: heat mug {number} and put it on shelf 1."},
    ]


def reward_of(token_ids: Sequence[int]) -> float:
    """Give nearly every answer another reward; most tokens of a large vocabulary have no text."""
    return sum(token_ids) % 97 / 96


def write_model(folder: Path, shape: str) -> None:
    """Save a random model and a byte-level tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import (
        LlamaConfig,
        LlamaForCausalLM,
        PreTrainedTokenizerFast,
        Qwen2Config,
        Qwen2ForCausalLM,
    )

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
    settings = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    settings |= {"max_position_embeddings": 4096, **JOBS[shape].shape}
    if JOBS[shape].llama:
        LlamaForCausalLM(LlamaConfig(**settings)).save_pretrained(folder)
    else:
        Qwen2ForCausalLM(Qwen2Config(**settings)).save_pretrained(folder)


def ours(folder: Path, shape: str, *, vllm: bool) -> list[dict[str, float]]:
    """Play and learn with our own backend."""
    from skillwright.core import TurnContext
    from skillwright.plugins.samplers.engines import Engine
    from skillwright.policy import (
        AdvantageSettings,
        GrpoObjective,
        GrpoSettings,
        group_advantages,
        update,
    )
    from skillwright.policy.hf import HfPolicy, HfSettings

    job = JOBS[shape]
    policy = HfPolicy.load_pretrained(str(folder), HfSettings(max_new_tokens=job.answer))
    if vllm:
        policy.engine = Engine("vllm", policy, VLLM_SHARE)
    policy.freeze_reference()
    settings = GrpoSettings(
        objective=GrpoObjective(kl_weight=0.01, dual_clip=None), learning_rate=1e-6
    )
    steps = []
    for step in range(job.steps + 1):
        begin = clock()
        contexts = [
            TurnContext(
                tuple(conversation(task, job.skills)), seed=10_000 * step + 100 * task + draw
            )
            for task in range(job.prompts)
            for draw in range(job.group)
        ]
        sampled = policy.sample(contexts, temperature=1.0)
        middle = clock()
        rows = []
        for first in range(0, len(sampled), job.group):
            group = sampled[first : first + job.group]
            rewards = [reward_of(one.row.token_ids) for one in group]
            advantages = group_advantages(rewards, AdvantageSettings())
            rows += [
                replace(one.row, advantage=a) for one, a in zip(group, advantages, strict=True)
            ]
        update(policy, rows, settings, seed=step)
        tokens = sum(len(row.token_ids) for row in rows)
        steps.append(figures(job.episodes, clock() - begin, middle - begin, tokens))
    return steps


def theirs(
    folder: Path, shape: str, scratch: Path, variant: str = "", *, vllm: bool
) -> list[dict[str, float]]:
    """Play and learn with TRL's trainer, watched from outside."""
    warnings.simplefilter("ignore")
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from datasets import Dataset

    job = JOBS[shape]
    fastest = dict(VARIANTS[variant][shape] if variant else job.theirs)
    if vllm:
        longest = 4096  # the model's
        fastest |= {"use_vllm": True, "vllm_gpu_memory_utilization": VLLM_SHARE}
        fastest |= {"vllm_max_model_length": longest}
    steps: list[dict[str, float]] = []
    times = {"begin": 0.0, "sampling": 0.0, "tokens": 0}

    class Watch(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            times["begin"] = clock()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            spent = clock() - times["begin"]
            steps.append(figures(job.episodes, spent, times["sampling"], int(times["tokens"])))

    def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
        times["tokens"] = sum(map(len, completion_ids))
        return [reward_of(one) for one in completion_ids]

    cuda = torch.cuda.is_available()
    config = GRPOConfig(
        output_dir=str(scratch),
        use_cpu=not cuda,
        bf16=cuda,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        max_steps=job.steps + 1,
        num_generations=job.group,
        max_completion_length=job.answer,
        temperature=1.0,
        beta=0.01,
        loss_type="bnpo",
        learning_rate=1e-6,
        lr_scheduler_type="constant",
        gradient_checkpointing=False,
        **({"model_init_kwargs": {"dtype": torch.float32}} | fastest),
    )
    trainer = GRPOTrainer(
        model=str(folder),
        args=config,
        reward_funcs=reward,
        train_dataset=Dataset.from_list(
            [{"prompt": conversation(n, job.skills)} for n in range(job.prompts)]
        ),
        callbacks=[Watch()],
    )
    generate = trainer._generate_single_turn

    def timed(*given: Any, **named: Any) -> Any:
        begin = clock()
        found = generate(*given, **named)
        times["sampling"] = clock() - begin
        return found

    trainer._generate_single_turn = timed
    trainer.train()
    return steps


def clock() -> float:
    """Return seconds: of the CPU, or of the wall where a GPU works."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return perf_counter()
    return process_time()


def figures(episodes: int, spent: float, sampling: float, tokens: int) -> dict[str, float]:
    """Return what a step came to, of its seconds and those of them that went into sampling."""
    return {
        "episodes_per_s": episodes / spent,
        "sampled_per_s": tokens / sampling,
        "trained_per_s": tokens / (spent - sampling),
        "step_s": spent,
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
        talks = [tuple(conversation(n, 4)) for n in range(8) for _ in range(8)]
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


SIDES = ("ours", "trl")
FOUND = "found:"  # an engine prints behind it


def run_side(
    side: str, folder: Path, shape: str, variant: str = "", *, vllm: bool = False
) -> dict[str, Any]:
    """Run one side in a process of its own."""
    command = [sys.executable, __file__, "--side", side, "--model", str(folder), "--shape", shape]
    command += ["--variant", variant] if variant else []
    command += ["--vllm"] if vllm else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr[-3000:]}")
    lines = [line for line in done.stdout.splitlines() if line.startswith(FOUND)]
    found: dict[str, Any] = json.loads(lines[-1].removeprefix(FOUND))
    return found


def compare(shape: str, folder: Path, rounds: int, *, vllm: bool) -> tuple[Check, dict[str, Any]]:
    """Let both sides take turns; return the check and their figures."""
    results: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side in SIDES:
            results[side].append(run_side(side, folder, shape, vllm=vllm))
    summary = {"shape": shape} | {side: summed(runs) for side, runs in results.items()}
    ours_per_s, theirs_per_s = (
        [median(step["episodes_per_s"] for step in run["steps"][1:]) for run in results[side]]
        for side in ("ours", "trl")
    )
    name = f"episodes per second, rollout and update, {shape}"
    ratios = ratios_of(ours_per_s, theirs_per_s)
    return at_least(name, Kind.PEER, ratios, JOBS[shape].target), summary


def summed(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return medians and quartiles over all steps but each run's first, and the highest peak."""
    steps = [step for run in runs for step in run["steps"][1:]]
    found: dict[str, Any] = {"n": len(steps)}
    for name in steps[0]:
        low, middle, high = quantiles([step[name] for step in steps], n=4)
        found[name] = [round(number, 2) for number in (middle, low, high)]
    return found | {"peak_mb": round(max(run["peak_mb"] for run in runs))}


def try_variants(shape: str, folder: Path) -> None:
    """Print how long a step of TRL's takes under each of its settings that could be its fastest."""
    for variant, jobs in VARIANTS.items():
        if shape in jobs:
            try:
                found = summed([run_side("trl", folder, shape, variant)])
            except SystemExit as failed:
                found = {"failed": str(failed)[-300:]}
            print(f"{shape:8} trl, {variant}: {found}", flush=True)


def one_side(options: argparse.Namespace, scratch: Path) -> int:
    """Print what one side did, for `run_side`."""
    if options.side == "ours":
        steps = ours(options.model, options.shape, vllm=options.vllm)
    else:
        job = (options.model, options.shape, scratch, options.variant)
        steps = theirs(*job, vllm=options.vllm)
    print(FOUND, json.dumps({"steps": steps, "peak_mb": peak_mb()}))
    return 0


def main() -> int:
    """Compare, print a table, and the checks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--model", type=Path, help="where random models are kept, or are to be")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--shape", choices=JOBS, help="this one alone")
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--vllm", action="store_true", help="sample with vLLM on both sides")
    parser.add_argument("--variant", choices=VARIANTS, default="")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        if options.side:
            return one_side(options, Path(scratch))
        shapes = ["tiny", "smollm2", *(["1.5b"] if torch.cuda.is_available() else [])]
        shapes = [options.shape] if options.shape else shapes
        folders = {shape: (options.model or Path(scratch)) / shape for shape in shapes}
        for shape, folder in folders.items():
            if not folder.exists():
                write_model(folder, shape)
        if options.variants:
            for shape, folder in folders.items():
                try_variants(shape, folder)
            return 0
        results = [
            compare(shape, folder, options.rounds, vllm=options.vllm)
            for shape, folder in folders.items()
        ]
        for _, result in results:
            for side in SIDES:
                shown = "  ".join(f"{name} {value}" for name, value in result[side].items())
                print(f"{result['shape']:8} {side:5} {shown}")
        if options.turns:
            unit = "s" if torch.cuda.is_available() else "CPU s"
            print(f"{options.turns} turns, {unit}:", turns(folders[shapes[0]], options.turns))
    return report([check for check, _ in results], results=[result for _, result in results])


if __name__ == "__main__":
    sys.exit(main())
