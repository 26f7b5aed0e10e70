"""A stand-in for SGLang with the part of its offline engine that is used: same names, same types.

Other arguments than these are refused. Whoever changes it looks at the interface first.
"""

import asyncio

from answering import Held

made = []


class Engine:
    gives_logprobs = True

    def __init__(
        self,
        *,
        model_path,
        dtype,
        context_length,
        mem_fraction_static,
        skip_tokenizer_init,
        enable_deterministic_inference,
    ):
        assert dtype in ("float32", "bfloat16")
        assert 0 < mem_fraction_static < 1
        assert (skip_tokenizer_init, enable_deterministic_inference) == (True, True)
        self.held = Held(model_path)
        made.append(self)

    def generate(self, *, input_ids, sampling_params, return_logprob):
        assert return_logprob

        async def later():
            return [self._one(*one) for one in zip(input_ids, sampling_params, strict=True)]

        return asyncio.run(later())  # refused where a loop is running

    def _one(self, prompt, asked):
        stop_ids = asked["stop_token_ids"]
        ids, logprobs = self.held.answer(
            prompt,
            temperature=asked["temperature"],
            longest=asked["max_new_tokens"],
            stop_ids=stop_ids,
            seed=asked["sampling_seed"],
        )
        reason = {"type": "length", "length": len(ids)}
        if ids[-1] in stop_ids:
            ids, reason = ids[:-1], {"type": "stop", "matched": ids[-1]}
        about = {"finish_reason": reason}
        if self.gives_logprobs:
            about["output_token_logprobs"] = [(one, 0, None) for one in logprobs]
        return {"output_ids": ids, "meta_info": about}

    def update_weights_from_disk(self, model_path):
        if model_path != self.held.folder:
            return False, "no such folder", 0
        self.held.read()
        self.held.forget()
        return True, "Succeeded to update model weights.", 0
