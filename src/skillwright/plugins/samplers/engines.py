"""Sampling by vLLM or SGLang: free answers come from an engine that holds the policy's weights too.

Whenever the weights have changed, the engine takes them over: vLLM, which runs in this process,
from where they are, and SGLang from a folder that they are written to. The engine gives token ids
alone; the policy computes their log-probabilities itself, as training does.

Sources of the interfaces: vLLM's pages on offline inference, ``reload_weights`` in its
``v1/worker/gpu_model_runner.py``, and ``Engine`` in SGLang's ``srt/entrypoints/engine.py``. Neither
package is installed in our tests; vLLM 0.23 was run on a GPU (`benchmarks/grpo_step.py --vllm`).
"""

import os
import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar, Final, Literal, Protocol

import torch

from skillwright.core import ConfigError, RunError
from skillwright.core.waits import waiting
from skillwright.policy.hf import HfPolicy, save_folder
from skillwright.policy.hf.saving import merged

EngineKind = Literal["vllm", "sglang"]


@dataclass(frozen=True, slots=True)
class Asked:
    """How answers are drawn.

    Attributes:
        temperature: At least 0; 0 takes the likeliest.
        longest: Tokens after which an answer is cut.
        stop_ids: Tokens that end an answer.
    """

    temperature: float
    longest: int
    stop_ids: tuple[int, ...]


class _Library(Protocol):
    """What an installed engine is asked for.

    Attributes:
        reads_files: New weights have to be in the folder that it was made from.
    """

    reads_files: ClassVar[bool]

    def answers(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], asked: Asked
    ) -> list[tuple[int, ...]]:
        """Return an answer to each prompt, in order; it may lack the token that ends it."""
        ...

    def take_over(self, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
        """Answer with other weights, which it looks at now or finds in its folder."""
        ...


class _Vllm:
    """vLLM's offline engine."""

    reads_files: ClassVar[bool] = False

    def __init__(self, folder: str, dtype: str, most_tokens: int | None, share: float) -> None:
        # In this process: another one would have to be sent the weights.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        import vllm  # type: ignore[import-not-found]  # not installable with our torch

        self._vllm = vllm
        self._llm = vllm.LLM(
            model=folder,
            dtype=dtype,
            max_model_len=most_tokens,
            gpu_memory_utilization=share,
            skip_tokenizer_init=True,
            generation_config="vllm",  # not the model's own sampling settings
        )

    def answers(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], asked: Asked
    ) -> list[tuple[int, ...]]:
        drawn = [
            self._vllm.SamplingParams(
                temperature=asked.temperature,
                max_tokens=asked.longest,
                stop_token_ids=list(asked.stop_ids),
                seed=seed,
                detokenize=False,
            )
            for seed in seeds
        ]
        given = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        outputs = self._llm.generate(given, drawn, use_tqdm=False)
        return [tuple(one.outputs[0].token_ids) for one in outputs]

    def take_over(self, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # it copies on a stream of its own
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
        self._llm.reset_prefix_cache()  # it holds keys and values of the weights of before


class _Sglang:
    """SGLang's offline engine."""

    reads_files: ClassVar[bool] = True

    def __init__(self, folder: str, dtype: str, most_tokens: int | None, share: float) -> None:
        import sglang  # type: ignore[import-not-found]  # not installable with our torch

        self._folder = folder
        self._engine = sglang.Engine(
            model_path=folder,
            dtype=dtype,
            context_length=most_tokens,
            mem_fraction_static=share,
            skip_tokenizer_init=True,
            enable_deterministic_inference=True,  # else it has no seeds
        )

    def answers(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], asked: Asked
    ) -> list[tuple[int, ...]]:
        drawn = [
            {
                "temperature": asked.temperature,
                "max_new_tokens": asked.longest,
                "stop_token_ids": list(asked.stop_ids),
                "sampling_seed": seed,
            }
            for seed in seeds
        ]
        given = [list(prompt) for prompt in prompts]
        found = self._engine.generate(input_ids=given, sampling_params=drawn)
        return [_with_end(one["output_ids"], one["meta_info"]["finish_reason"]) for one in found]

    def take_over(self, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
        # It drops what it remembers of prompts by itself.
        taken, why, *_ = self._engine.update_weights_from_disk(self._folder)
        if not taken:
            raise RuntimeError(why)


def _with_end(token_ids: Sequence[int], reason: dict[str, Any] | None) -> tuple[int, ...]:
    """Return an answer with the token that ended it, which some versions leave out."""
    ended = (reason or {}).get("matched")
    if isinstance(ended, int) and (not token_ids or token_ids[-1] != ended):
        return (*token_ids, ended)
    return tuple(token_ids)


_LIBRARIES: Final[dict[EngineKind, Callable[[str, str, int | None, float], _Library]]] = {
    "vllm": _Vllm,
    "sglang": _Sglang,
}


class Engine:
    """An engine with a policy's weights; it is started when it is first asked.

    All calls come from one separate thread, because SGLang runs an event loop of its own.

    Args:
        kind: The package.
        policy: Whose weights they are.
        share: Share of a GPU's memory for weights and cache.
    """

    def __init__(self, kind: EngineKind, policy: HfPolicy, share: float) -> None:
        self._kind, self._policy, self._share = kind, policy, share
        self._library: _Library | None = None
        self._digest = ""
        scratch = mkdtemp(prefix="skillwright-weights-")
        weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        self._folder = Path(scratch) / "weights"
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=kind)

    @staticmethod
    def refuse_missing(kind: str) -> None:
        """Refuse an engine whose package is not installed.

        Raises:
            ConfigError: The message says what to install.
        """
        if find_spec(kind) is None:
            raise ConfigError(
                f"policy.sampler is {kind!r}, which is not installed here. Run:  pip install "
                f"{kind}  (it brings a torch of its own), or set policy.sampler: own"
            )

    def answers(
        self,
        digest: str,
        prompts: Sequence[Sequence[int]],
        seeds: Sequence[int],
        temperature: float,
    ) -> list[tuple[int, ...]]:
        """Return the tokens of an answer to each prompt, in order; see `SamplingEngine`.

        Raises:
            RunError: The engine could not be started, or could not do it.
        """
        speech, longest = self._policy.speech, self._policy.settings.max_new_tokens
        asked = Asked(temperature, longest, tuple(sorted(speech.stop_ids)))
        try:
            library = self._with_weights(digest)
            found = self._thread.submit(library.answers, prompts, seeds, asked).result()
        except (RuntimeError, ValueError, TypeError, AttributeError, ImportError) as error:
            raise RunError(
                f"sampling by {self._kind} failed: {type(error).__name__}: {error}. Set "
                "policy.sampler: own, or install a version that fits"
            ) from error
        return [one or (speech.end_id,) for one in found]

    def _with_weights(self, digest: str) -> _Library:
        """Return the engine with the weights of a digest."""
        if self._library is not None and digest == self._digest:
            return self._library
        if self._library is None or self._library.reads_files:
            # Anew, not over the old files, which the engine may still have mapped.
            shutil.rmtree(self._folder, ignore_errors=True)
            save_folder(self._policy, self._folder, "")
        if self._library is None:
            dtype = "bfloat16" if self._policy.weights.low else "float32"
            given = str(self._folder), dtype, self._policy.most_tokens, self._share
            with waiting(f"starting {self._kind}"):
                self._library = self._thread.submit(_LIBRARIES[self._kind], *given).result()
        else:
            self._thread.submit(self._library.take_over, merged(self._policy)).result()
        self._digest = digest
        return self._library
