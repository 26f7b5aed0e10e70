"""A stand-in for vLLM with the part of its offline interface that is used: same names, same types.

Other arguments than these are refused. Whoever changes it looks at the interface first.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace

from answering import Held

made = []


@dataclass
class SamplingParams:
    temperature: float = 1.0
    max_tokens: int = 16
    stop_token_ids: list = field(default_factory=list)
    seed: int | None = None
    logprobs: int | None = None
    detokenize: bool = True


class LLM:
    gives_logprobs = True

    def __init__(
        self,
        model,
        *,
        dtype,
        max_model_len,
        gpu_memory_utilization,
        skip_tokenizer_init,
        generation_config,
        logprobs_mode,
    ):
        if max_model_len == 13:
            raise RuntimeError("Engine core initialization failed")
        assert dtype in ("float32", "bfloat16")
        assert 0 < gpu_memory_utilization < 1
        assert (skip_tokenizer_init, generation_config) == (True, "vllm")
        assert logprobs_mode == "processed_logprobs"
        self.held = Held(model)
        made.append(self)

    def generate(self, prompts, sampling_params, *, use_tqdm):
        assert not use_tqdm
        found = []
        for prompt, asked in zip(prompts, sampling_params, strict=True):
            assert not asked.detokenize  # there is no tokenizer
            assert asked.logprobs == 0
            ids, logprobs = self.held.answer(
                prompt["prompt_token_ids"],
                temperature=asked.temperature,
                longest=asked.max_tokens,
                stop_ids=asked.stop_token_ids,
                seed=asked.seed,
            )
            known = [
                {token: SimpleNamespace(logprob=logprob)}
                for token, logprob in zip(ids, logprobs, strict=True)
            ]
            output = SimpleNamespace(token_ids=ids, logprobs=known if self.gives_logprobs else None)
            found.append(SimpleNamespace(outputs=[output]))
        return found

    def collective_rpc(self, method, *, kwargs):
        assert (method, list(kwargs)) == ("reload_weights", ["weights_iterator"])
        self.held.take(kwargs["weights_iterator"])

    def reset_prefix_cache(self):
        self.held.forget()
