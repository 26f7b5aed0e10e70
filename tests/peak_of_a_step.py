"""The peak of a training step and of sampling, as the kernel counts it, in a process of its own.

    MALLOC_MMAP_THRESHOLD_=65536 python peak_of_a_step.py '{"shape": {...}, "settings": {...}, ...}'

Freed memory goes back to the kernel at once with this threshold; else the peak would count holes.
"""

import gc
import json
import sys
from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from policy.tiny_models import tiny_tokenizer
from skillwright.core import TurnContext
from skillwright.policy import GrpoLoss, GrpoObjective, Row, TokenContext
from skillwright.policy.hf import HfPolicy, HfSettings, Lora

torch.set_num_threads(1)
TINY = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def held(name):
    """Return a line of the kernel's account of this process, in bytes."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def policy(shape, settings):
    """Return an untrained policy of a shape."""
    torch.manual_seed(0)
    ids = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))
    model = Qwen2ForCausalLM(Qwen2Config(**shape, max_position_embeddings=4096, **ids))
    rank = settings.get("lora")
    others = {name: value for name, value in settings.items() if name != "lora"}
    lora = Lora(rank=rank) if rank else None
    return HfPolicy(model, tiny_tokenizer(), HfSettings(device="cpu", lora=lora, **others))


def step(backend, asked):
    """Take a step on rows of which nothing is shared."""
    drawn = torch.Generator().manual_seed(1)
    rows, answer = [], asked["answer"]
    most = backend.weights.config.vocab_size
    for number in range(asked["rows"]):
        ids = torch.randint(0, most, (asked["length"],), generator=drawn).tolist()
        context = TokenContext(tuple(ids[:-answer]), (None,) * answer)
        old, mask = (-5.0,) * answer, (True,) * answer
        said = tuple(ids[-answer:])
        rows.append(Row(context, said, old, mask, backend.encoding, advantage=1.0 - number))
    objective = GrpoObjective(kl_weight=asked["kl_weight"])
    backend.forward_backward(rows, GrpoLoss.over(rows, objective))
    backend.optim_step(1e-5)


def sample(backend, asked):
    """Sample answers to prompts that are all different."""
    words = "take the mug and heat it " * (asked["length"] // 12)
    texts = [f"{number} {words}" for number in range(asked["rows"])]
    turns = [
        TurnContext(({"role": "user", "content": text},), number)
        for number, text in enumerate(texts)
    ]
    found = backend.sample(turns, temperature=1.0)
    return max(len(one.row.context.prompt_ids) for one in found)


def main(asked):
    """Say the peaks over what the process held before."""
    warm = policy(TINY, asked["settings"])
    warm.freeze_reference()
    small = {**asked, "rows": 3, "length": 40, "answer": 8}
    step(warm, small)
    sample(warm, small)
    del warm
    gc.collect()
    before = held("VmRSS")
    backend = policy(asked["shape"], asked["settings"])
    if asked["kl_weight"]:
        backend.freeze_reference()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak begins anew
    for _ in range(2):
        step(backend, asked)
    peak = held("VmHWM") - before
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    prompt = sample(backend, asked)
    found = {"training": peak, "sampling": held("VmHWM") - before, "prompt": prompt}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
