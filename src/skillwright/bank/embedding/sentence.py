"""Similarity by meaning, with an encoder of sentence-transformers that runs here.

Source: Reimers and Gurevych, Sentence-BERT (arXiv:1908.10084); `all-MiniLM-L6-v2` by default.
"""

import hashlib
import threading
from pathlib import Path
from typing import Any, Final

import numpy as np

from skillwright.bank.embedding.embedder import Vectors, unit_rows
from skillwright.core import ConfigError

DEFAULT_MODEL: Final = "all-MiniLM-L6-v2"

_INSTALL: Final = "pip install 'skillwright[embed]'"
_SAMPLED: Final = 64


class SentenceTransformerEmbedder:
    """Encodes texts with a sentence-transformers model, loaded at once.

    Queries and skills are encoded as the model was trained for it: with the prompts that it comes
    with, or those that are given here.

    Args:
        model: A folder, or a Hugging Face name. A name is looked for in the local cache first;
            nothing is asked of the network when it is there.
        device: Where it runs, such as ``cuda:1``; never a GPU unless it is named.
        delta: The similarity that a skill must exceed. 0.2 is calibrated for MiniLM on the seed
            banks; at the 0.4 of SkillRL's paper most tasks are told no skill of their category.
            Other encoders have other scales: calibrate theirs (`calibrate`).
        query_prompt: Put before each query, for an encoder that wants one and does not bring it
            (``"query: "`` for E5).
        skill_prompt: Put before each skill's text, likewise.
        local_files_only: Never download.

    Raises:
        ConfigError: The extra is not installed, or there is no such model.
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        device: str = "cpu",
        delta: float = 0.2,
        query_prompt: str | None = None,
        skill_prompt: str | None = None,
        local_files_only: bool = False,
    ) -> None:
        self.delta = delta
        self._model = _load(model, device, local_files_only)
        self._prompts = {"query": query_prompt, "document": skill_prompt}
        self._one_encodes = threading.Lock()  # tokenizers are not safe to share between threads
        self.identity = f"sentence:{Path(model).name}#{self._fingerprint()}"

    def encode_queries(self, texts: list[str]) -> Vectors:
        """Encode task descriptions; see `Embedder`."""
        return self._encode(texts, "query")

    def encode_skills(self, texts: list[str]) -> Vectors:
        """Encode texts of skills; see `Embedder`."""
        return self._encode(texts, "document")

    def _encode(self, texts: list[str], side: str) -> Vectors:
        if not texts:
            return np.zeros((0, self._model.get_embedding_dimension()), dtype=np.float32)
        encode = self._model.encode_query if side == "query" else self._model.encode_document
        with self._one_encodes:
            rows = encode(texts, prompt=self._prompts[side], show_progress_bar=False)
        return unit_rows(rows)

    def _fingerprint(self) -> str:
        """Digest what decides the vectors: some of every tensor, the prompts, the longest input.

        The folder or name does not tell: weights behind it change, and equal ones have many names.
        """
        found = hashlib.sha256()
        for name, tensor in sorted(self._model.state_dict().items()):
            sample = tensor.detach().flatten()[:_SAMPLED].double().cpu().numpy()
            found.update(f"{name}{tuple(tensor.shape)}".encode() + sample.tobytes())
        prompts = [self._model.prompts, self._prompts, self._model.max_seq_length]
        found.update(repr(prompts).encode())
        return found.hexdigest()[:16]


def _load(name: str, device: str, local_files_only: bool) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ConfigError(
            f"embedder {name!r} needs sentence-transformers: {_INSTALL}. "
            "The embedder 'lexical' needs nothing."
        ) from error
    faults: list[Exception] = []
    # The hub is asked last, and never for what can only be a path: without network that takes long.
    never_ask = local_files_only or name.startswith((".", "/", "~")) or name.count("/") > 1
    for only_local in (True,) if never_ask else (True, False):
        try:
            return SentenceTransformer(name, device=device, local_files_only=only_local)
        except (OSError, ValueError, RuntimeError) as error:
            faults.append(error)
    last = " ".join(str(faults[-1]).split())[:300]
    raise ConfigError(
        f"there is no sentence-transformers model {name!r}: no folder, and nothing under that name "
        f"in the Hugging Face cache{'' if never_ask else ' or on the hub'} ({last}). Give "
        "the path of a folder with the model, download it once with network, or use 'lexical'."
    ) from faults[-1]
