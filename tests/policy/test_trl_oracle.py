"""The gradient of our loss is the gradient of TRL's, on the same batch of a tiny random model.

TRL's side is a real `GRPOTrainer` on a model that was saved to disk; it is handed a fixed batch
where its own loop would hand it one (`_compute_loss`).
"""

import warnings
from dataclasses import replace

import pytest
import torch

from datasets import Dataset
from policy.tiny_models import tiny_model, tiny_tokenizer
from samples import heavy
from skillwright.config import RlConfig
from skillwright.core.policy_settings import TIS_CAP
from skillwright.jobs.weights.wiring import grpo_settings
from skillwright.policy import GrpoLoss, GrpoObjective, Row, TokenContext
from skillwright.policy.hf import HfPolicy, HfSettings

PROMPTS = [(5, 6, 7), (8, 9), (10, 11, 12, 13), (14, 15)]
ANSWERS = [(20, 21, 22, 23, 24), (30, 31), (40, 41, 42), (50, 51, 52, 53)]
ADVANTAGES = (1.3, -0.7, -1.1, 0.9)
LONGEST = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny_model(dtype=torch.float64).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def trainer_of(folder, tmp_path, **asked):
    with warnings.catch_warnings():
        # TRL warns about its own experimental parts and about what torch deprecates.
        warnings.simplefilter("ignore")
        from trl import GRPOConfig, GRPOTrainer

        config = GRPOConfig(
            output_dir=str(tmp_path),
            use_cpu=True,
            bf16=False,
            report_to=[],
            per_device_train_batch_size=4,
            num_generations=2,
            max_completion_length=LONGEST,
            **{"epsilon": 0.2, "epsilon_high": 0.28, **asked},
            use_bias_correction_kl=False,
            temperature=0.8,
            gradient_checkpointing=False,
            model_init_kwargs={"dtype": torch.float64},
        )
        return GRPOTrainer(
            model=str(folder),
            args=config,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            train_dataset=Dataset.from_list([{"prompt": "go"}] * 4),
            processing_class=tiny_tokenizer(),
        )


def our_rows(policy):
    rows = [
        Row(
            context=TokenContext(prompt, (None,) * len(answer)),
            token_ids=answer,
            old_logprobs=(0.0,) * len(answer),
            # The second token of the last answer is the environment's.
            loss_mask=tuple(index != 1 or answer[0] != 50 for index in range(len(answer))),
            encoding=policy.encoding,
            temperature=0.8,
            advantage=advantage,
        )
        for prompt, answer, advantage in zip(PROMPTS, ANSWERS, ADVANTAGES, strict=True)
    ]
    moved = []
    # Ratios on both sides of both bounds, and beyond the dual clip, for both signs.
    shifts = (0.0, 1.5, -0.5, 0.1, -1.5)
    for number, (row, logprobs) in enumerate(zip(rows, policy.logprobs(rows), strict=True)):
        numbered = enumerate(zip(logprobs, row.loss_mask, strict=True), start=number)
        old = tuple(logprob - shifts[i % 5] * chosen for i, (logprob, chosen) in numbered)
        # An engine's, on both sides of the cap, and unknown for one token.
        gaps = (0.3, -0.2, 0.9, 0.0, -1.0)
        theirs = tuple(logprob - gaps[(i + number) % 5] for i, logprob in enumerate(old))
        theirs = (*theirs[:-1], float("nan")) if number == 0 else theirs
        moved.append(replace(row, old_logprobs=old, sampler_logprobs=theirs))
    return moved


def their_batch(rows, reference):
    longest_prompt, longest = max(map(len, PROMPTS)), max(map(len, ANSWERS))

    def padded(values, width, fill=0.0, left=False):
        lines = []
        for line in values:
            gap = [fill] * (width - len(line))
            lines.append([*gap, *line] if left else [*line, *gap])
        dtype = torch.long if isinstance(fill, int) else torch.float64
        return torch.tensor(lines, dtype=dtype)

    ones = [[1] * len(prompt) for prompt in PROMPTS]
    return {
        "prompt_ids": padded(PROMPTS, longest_prompt, 0, left=True),
        "prompt_mask": padded(ones, longest_prompt, 0, left=True),
        "completion_ids": padded(ANSWERS, longest, 0),
        "completion_mask": padded([[1] * len(a) for a in ANSWERS], longest, 0),
        "tool_mask": padded([[int(m) for m in row.loss_mask] for row in rows], longest, 0),
        "advantages": torch.tensor(ADVANTAGES, dtype=torch.float64),
        "old_per_token_logps": padded([r.old_logprobs for r in rows], longest),
        "ref_per_token_logps": padded(reference, longest),
        "num_items_in_batch": torch.tensor(float(sum(row.chosen for row in rows))),
    }


def their_weights(batch, rows):
    """TRL's importance weights, as its `_generate_and_score_completions` computes them."""
    width = batch["old_per_token_logps"].shape[1]
    sampler = torch.zeros_like(batch["old_per_token_logps"])
    for index, row in enumerate(rows):
        sampler[index, : len(row.token_ids)] = torch.tensor(row.sampler_logprobs)
    mask = batch["completion_mask"] * batch["tool_mask"]
    gap = torch.nan_to_num((batch["old_per_token_logps"] - sampler) * mask, nan=0.0)
    assert gap.shape == (len(rows), width)
    return torch.clamp(torch.exp(gap), max=TIS_CAP)


@pytest.mark.parametrize(
    ("dual", "loss_type", "average", "beta"),
    [
        (3.0, "grpo", "sequences", 0.05),
        (None, "bnpo", "tokens", 0.0),
        *heavy(
            (3.0, "grpo", "sequences", 0.0),
            (3.0, "bnpo", "tokens", 0.0),
            (3.0, "bnpo", "tokens", 0.05),
            (None, "grpo", "sequences", 0.0),
            (None, "grpo", "sequences", 0.05),
            (None, "bnpo", "tokens", 0.05),
        ),
    ],
)
def test_the_gradient_is_that_of_trl(folder, tmp_path, beta, loss_type, average, dual):
    objective = GrpoObjective(0.2, 0.28, dual, kl_weight=beta, average=average)
    asked = {"beta": beta, "loss_type": loss_type, "delta": dual}
    report = equal_to_trl(folder, tmp_path, objective, asked)
    assert (report.dual > 0) == (dual is not None)


RECIPES_OF_TRL = {
    "grpo": {"loss_type": "grpo", "beta": 0.04, "epsilon_high": 0.2},
    "dr_grpo": {"loss_type": "dr_grpo", "beta": 0.0, "epsilon_high": 0.2},
    "dapo": {"loss_type": "dapo", "beta": 0.0},
    "gspo": {
        "loss_type": "grpo",
        "beta": 0.0,
        "importance_sampling_level": "sequence",
        "epsilon": 3e-4,
        "epsilon_high": 4e-4,
    },
}
"""How TRL's page on each paper (paper_index) sets it."""


@pytest.mark.parametrize("sampler", ["own", "vllm"])
@pytest.mark.parametrize("name", RECIPES_OF_TRL)
def test_a_recipe_is_that_of_trl_with_and_without_truncated_importance_sampling(
    folder, tmp_path, name, sampler
):
    policy = {"kind": "hf", "model": "m", "recipe": name, "sampler": sampler}
    config = RlConfig(
        policy={**policy, "max_new_tokens": LONGEST}, distill=None, cold_start=None, evolve=None
    )
    objective = grpo_settings(config).objective
    assert objective.tis_cap == (None if sampler == "own" else TIS_CAP)
    report = equal_to_trl(folder, tmp_path, objective, RECIPES_OF_TRL[name])
    assert (report.capped > 0) == (sampler == "vllm")


def equal_to_trl(folder, tmp_path, objective, asked):
    """Compare loss and gradient with TRL's, and return our report."""
    settings = HfSettings(precision="float64", micro_tokens=16, max_new_tokens=LONGEST)
    policy = HfPolicy(tiny_model(dtype=torch.float64), tiny_tokenizer(), settings)
    other = HfPolicy(tiny_model(seed=0, dtype=torch.float64), tiny_tokenizer(), settings)
    # The reference is another model, near enough to stay below the clamp of k3.
    with torch.no_grad():
        generator = torch.Generator().manual_seed(3)
        for one in other.weights.model.parameters():
            one += 0.01 * torch.randn(one.shape, generator=generator, dtype=one.dtype)
    rows = our_rows(policy)
    reference = other.logprobs(rows)
    policy.weights._reference = other.weights.model
    policy._reference = "another model"

    report = policy.forward_backward(rows, GrpoLoss.over(rows, objective))
    ours = {name: one.grad for name, one in policy.weights.trained().items()}

    trainer = trainer_of(folder, tmp_path, **asked)
    trainer.model.eval()
    batch = their_batch(rows, reference)
    if objective.tis_cap is not None:
        trainer.use_vllm = True  # its own weights are those of `their_weights`
        batch["importance_sampling_ratio"] = their_weights(batch, rows)
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()
    theirs = {name: one.grad for name, one in trainer.model.named_parameters()}

    assert report.low > 0
    assert report.high > 0
    assert report.loss == pytest.approx(loss.item(), rel=1e-5)  # RoPE is single precision
    assert ours.keys() == theirs.keys()
    scale = max(float(one.abs().max()) for one in theirs.values())
    assert scale > 0
    for name, one in theirs.items():
        torch.testing.assert_close(ours[name], one, rtol=1e-5, atol=1e-6 * scale)
        assert (ours[name] - one).norm() <= 1e-5 * one.norm()
    return report
