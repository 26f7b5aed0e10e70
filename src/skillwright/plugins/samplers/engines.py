"""Sample unconstrained answers by vLLM or SGLang, with a copy of the policy's weights.

When the weights have changed, the engine reloads them: vLLM, which runs in this process, from
memory, SGLang from a folder. The engine returns token ids with its log-probabilities; the policy
computes its own, as in training, and truncated importance sampling weights by the difference.

Sources of the interfaces: vLLM's pages on offline inference, ``reload_weights`` in its
``v1/worker/gpu_model_runner.py``, and ``Engine`` in SGLang's ``srt/entrypoints/engine.py``. Neither
package is installed in our tests; vLLM 0.23 was run on a GPU (`benchmarks/grpo_step.py --vllm`).
"""

import math
import os
import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from skillwright.policy.hf.sampling import EngineAnswer
from skillwright.policy.hf.saving import merged

EngineKind = Literal["vllm", "sglang"]


@dataclass(frozen=True, slots=True)
class Asked:
    """Sampling settings.

    Attributes:
        temperature: At least 0; 0 is greedy.
        longest: Maximum tokens of an answer.
        stop_ids: Tokens that end an answer.
    """

    temperature: float
    longest: int
    stop_ids: tuple[int, ...]


class _Library(Protocol):
    """The interface of an installed engine.

    Attributes:
        reads_files: Whether it reads new weights from its folder.
    """

    reads_files: ClassVar[bool]

    def answers(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], asked: Asked
    ) -> list[EngineAnswer]:
        """Return an answer to each prompt, in order; possibly empty."""

    def take_over(self, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
        """Load other weights, from ``weights`` or from its folder."""


class _Vllm:
    """vLLM's offline engine."""

    reads_files: ClassVar[bool] = False

    def __init__(self, folder: str, dtype: str, most_tokens: int | None, share: float) -> None:
        # In this process, so that the weights need not be sent.
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        import vllm  # type: ignore[import-not-found]  # not installable with our torch

        self._vllm = vllm
        self._llm = vllm.LLM(
            model=folder,
            dtype=dtype,
            max_model_len=most_tokens,
            gpu_memory_utilization=share,
            skip_tokenizer_init=True,
            generation_config="vllm",  # ignore the model's own sampling settings
            logprobs_mode="processed_logprobs",  # at the temperature of sampling
        )

    def answers(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], asked: Asked
    ) -> list[EngineAnswer]:
        drawn = [
            self._vllm.SamplingParams(
                temperature=asked.temperature,
                max_tokens=asked.longest,
                stop_token_ids=list(asked.stop_ids),
                seed=seed,
                logprobs=0,  # of the sampled token alone
                detokenize=False,
            )
            for seed in seeds
        ]
        given = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        outputs = self._llm.generate(given, drawn, use_tqdm=False)
        return [_from_vllm(one.outputs[0]) for one in outputs]

    def take_over(self, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # it copies on its own stream
        self._llm.collective_rpc("reload_weights", kwargs={"weights_iterator": weights})
        self._llm.reset_prefix_cache()  # its keys and values are of the old weights


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
            enable_deterministic_inference=True,  # required for seeds
        )

    def answers(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], asked: Asked
    ) -> list[EngineAnswer]:
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
        found = self._engine.generate(input_ids=given, sampling_params=drawn, return_logprob=True)
        return [_from_sglang(one["output_ids"], one["meta_info"]) for one in found]

    def take_over(self, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
        # It resets its prefix cache by itself.
        taken, why, *_ = self._engine.update_weights_from_disk(self._folder)
        if not taken:
            raise RuntimeError(why)


def _from_vllm(output: Any) -> EngineAnswer:
    token_ids = tuple(output.token_ids)
    by_token = output.logprobs or [{}] * len(token_ids)
    known = [one.get(token) for token, one in zip(token_ids, by_token, strict=True)]
    return token_ids, tuple(math.nan if one is None else float(one.logprob) for one in known)


def _from_sglang(token_ids: Sequence[int], about: Mapping[str, Any]) -> EngineAnswer:
    """Return an answer with the token that ended it, which some versions leave out."""
    said = list(token_ids)
    ended = (about["finish_reason"] or {}).get("matched")
    if isinstance(ended, int) and (not said or said[-1] != ended):
        said.append(ended)
    known = [
        math.nan if one[0] is None else one[0] for one in about.get("output_token_logprobs", ())
    ]
    return tuple(said), (*known, *[math.nan] * len(said))[: len(said)]


_LIBRARIES: Final[dict[EngineKind, Callable[[str, str, int | None, float], _Library]]] = {
    "vllm": _Vllm,
    "sglang": _Sglang,
}


class Engine:
    """An engine with a policy's weights, started on first use.

    All calls come from one separate thread, because SGLang runs an event loop of its own.

    Args:
        kind: Name of the package.
        policy: Policy whose weights it uses.
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
            ConfigError: It is not installed; the message has the command.
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
    ) -> list[EngineAnswer]:
        """Return an answer to each prompt, in order; see `SamplingEngine`.

        Raises:
            RunError: The engine did not start, or failed.
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
        return [one if one[0] else ((speech.end_id,), (math.nan,)) for one in found]

    def _with_weights(self, digest: str) -> _Library:
        """Return the engine with the weights of a digest."""
        if self._library is not None and digest == self._digest:
            return self._library
        if self._library is None or self._library.reads_files:
            # Into new files, because the engine may still map the old ones.
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
