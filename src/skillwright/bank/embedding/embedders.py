"""Measure the similarity of texts: by words, or by meaning with a local model."""

import hashlib
import math
import re
import threading
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from skillwright.core import BankSkill, ConfigError, ModelError

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Encodes texts as unit vectors whose dot product is their similarity.

    Both methods return one row per text, in order, and may be called from several threads.
    """

    @property
    def identity(self) -> str:
        """Id of the vectors: equal if and only if the vectors are equal."""

    @property
    def delta(self) -> float:
        """Similarity above which a skill is injected, calibrated for this embedder."""

    def encode_queries(self, texts: list[str]) -> Vectors:
        """Encode task descriptions. Unit rows, shape ``[n, d]``."""

    def encode_skills(self, texts: list[str]) -> Vectors:
        """Encode texts of skills. Unit rows, shape ``[n, d]``."""


def unit_rows(rows: npt.ArrayLike) -> Vectors:
    """Scale rows of shape ``[n, d]`` to length 1; zero rows stay zero."""
    matrix = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return (matrix / np.where(lengths > 0, lengths, 1)).astype(np.float32)


# Lexical similarity: no model, no download, the same on every machine.
#
# A text becomes a bag of stemmed words and of their four-letter pieces, hashed into a fixed number
# of signed buckets. Weights are fixed and do not depend on the bank, so adding a skill changes no
# other score: function words and words of every instruction weigh little, all others the same.
# Pieces share a part of their word's weight, so that "reheating" matches "heat". A word counts by
# the square root of its frequency. Meanings are not known, except the few synonyms below.


DIMENSIONS: Final = 1024
VERSION: Final = 2
"""Increases when the vector of a text changes."""

_WORD: Final = re.compile(r"[^\W\d_]+|\d+")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|_")
_PIECE: Final = 4
_PIECES_WEIGH: Final = 0.35  # of their word, all together
_COMMON_WEIGHS: Final = 0.1

_COMMON: Final = """
    a about above after again all also always an and any are as at avoid back be because been
    before being below between both but by can cannot case check could did do does doing dollar
    done down each either else ensure even every few find first for from further get give given
    go goal goals had has have having he her here his how i if in instead into is it item its
    itself just keep know last least less like look lower made make many may me mean might more
    most much must my need needed needs never new next no nor not nothing now of off on once one
    only onto or other our out over own per price put rather right same see several she should
    since so some something still such take task tasks than that the their them then there these
    they thing things this those through thus to too under unless until up upon use used uses
    using very want wants was way we well were what when whenever where whether which while who
    whose why will with within without would yes yet you your
    """

_SAME: Final = {
    "hot": "heat", "warm": "heat", "cold": "cool", "chill": "cool", "wash": "clean",
    "rinse": "clean", "lamp": "light", "desklamp": "light", "floorlamp": "light", "both": "two",
    "pair": "two", "second": "two",
}  # fmt: skip


class LexicalEmbedder:
    """Encodes texts by their words."""

    identity = f"lexical-{VERSION}-{DIMENSIONS}"
    delta = 0.05  # at SkillRL's 0.4, 70% of the seed banks' tasks get no skill of their category

    def encode_queries(self, texts: list[str]) -> Vectors:
        """Encode task descriptions; see `Embedder`."""
        return self._encode(texts)

    def encode_skills(self, texts: list[str]) -> Vectors:
        """Encode texts of skills; see `Embedder`."""
        return self._encode(texts)

    def _encode(self, texts: list[str]) -> Vectors:
        rows = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word, count in Counter(words_of(text)).items():
                for place, weight in _places(word):
                    row[place] += weight * math.sqrt(count)
        return unit_rows(rows)


def words_of(text: str) -> list[str]:
    """Return the stems of a text's words in order; ``pick_two`` and ``SinkBasin`` have two each."""
    return [_stem(word) for word in _WORD.findall(_CAMEL.sub(" ", text).lower())]


def is_common(stem: str) -> bool:
    """Return whether a stem is of a function word, or of a word of every instruction."""
    return stem in _COMMON_STEMS


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    for suffix in ("ings", "ing", "edly", "ed", "ies", "es", "ly", "s"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word.removesuffix(suffix) + ("y" if suffix == "ies" else "")
            break
    return word.removesuffix("e") if len(word) > 4 else word


@lru_cache(maxsize=65_536)
def _places(word: str) -> tuple[tuple[int, float], ...]:
    """Return (bucket, signed weight) of a word and of its pieces."""
    weight = _COMMON_WEIGHS if word in _COMMON_STEMS else 1.0
    word = _SAME_STEMS.get(word, word)
    places = [_place(f"w:{word}", weight)]
    padded = f"<{word}>"
    pieces = [padded[at : at + _PIECE] for at in range(len(padded) - _PIECE + 1)]
    if pieces:
        share = weight * math.sqrt(_PIECES_WEIGH / len(pieces))
        places += [_place(f"p:{piece}", share) for piece in pieces]
    return tuple(places)


def _place(feature: str, weight: float) -> tuple[int, float]:
    number = zlib.crc32(feature.encode())
    return number % DIMENSIONS, weight if number & 0x8000_0000 else -weight


_COMMON_STEMS: Final = frozenset(map(_stem, _COMMON.split()))
_SAME_STEMS: Final = {_stem(word): _stem(same) for word, same in _SAME.items()}


DEFAULT_MODEL: Final = "all-MiniLM-L6-v2"

_INSTALL: Final = "pip install 'skillwright[embed]'"
_SAMPLED: Final = 64


class SentenceTransformerEmbedder:
    """Encodes texts with a local sentence-transformers model.

    Queries and skills are encoded with the model's own prompts, or with those given here.
    Source: Reimers and Gurevych, Sentence-BERT (arXiv:1908.10084).

    Args:
        model: A folder, or a Hugging Face name; the local cache is searched before the network.
        device: Device such as ``cuda:1``.
        delta: Least similarity of an injected skill. 0.2 is calibrated for MiniLM on the seed
            banks; at the 0.4 of SkillRL's paper most tasks get no skill of their category.
            Calibrate other encoders (`calibrate`).
        query_prompt: Prefix of each query, for an encoder that needs one and does not define it
            (``"query: "`` for E5).
        skill_prompt: Prefix of each skill's text.
        local_files_only: Never download.

    Raises:
        ConfigError: The extra is not installed, or the model does not exist.
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
        """Hash what determines the vectors: parts of every tensor, prompts and longest input.

        The name is not enough: its weights change, and equal weights have many names.
        """
        found = hashlib.sha256()
        for name, tensor in sorted(self._model.state_dict().items()):
            sample = tensor.detach().flatten()[:_SAMPLED].double().cpu().numpy()
            found.update(f"{name}{tuple(tensor.shape)}".encode() + sample.tobytes())
        prompts = [self._model.prompts, self._prompts, self._model.max_seq_length]
        found.update(repr(prompts).encode())
        return found.hexdigest()[:16]


_HUB_S: Final = 10.0


def _load(name: str, device: str, local_files_only: bool) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ConfigError(
            f"embedder {name!r} needs sentence-transformers: {_INSTALL}. "
            "The embedder 'lexical' needs nothing."
        ) from error
    faults: list[Exception] = []
    # The hub is tried last, and never for paths.
    never_ask = local_files_only or name.startswith((".", "/", "~")) or name.count("/") > 1
    for only_local in (True,) if never_ask else (True, False):
        try:
            if not only_local:
                _find_on_hub(name)
            return SentenceTransformer(name, device=device, local_files_only=only_local)
        except (OSError, ValueError, RuntimeError) as error:
            faults.append(error)
    last = " ".join(str(faults[-1]).split())[:300]
    raise ConfigError(
        f"there is no sentence-transformers model {name!r}: no folder, and nothing under that name "
        f"in the Hugging Face cache{'' if never_ask else ' or on the hub'} ({last}). Give "
        "the path of a folder with the model, download it once with network, or use 'lexical'."
    ) from faults[-1]


def _find_on_hub(name: str) -> None:
    """Query the hub once for a model: loading would request file after file, with retries.

    Raises:
        OSError: The hub does not have the model, or cannot be reached.
    """
    from huggingface_hub import HfApi

    full = name if "/" in name else f"sentence-transformers/{name}"
    try:
        HfApi().model_info(full, timeout=_HUB_S)
    except Exception as error:  # the errors of whatever library the hub's client is made of
        raise OSError(f"{type(error).__name__}: {error}") from error


MOST_QUERIES = 16_384
"""Cached query vectors: 25 MB for MiniLM, more than the tasks of ALFWorld."""


class VectorStore(Protocol):
    """A store of skills' vectors by content digest, such as `BankStore`."""

    def vectors(self, embedder_id: str) -> Mapping[str, Vectors]:
        """Return all vectors of an embedder, each of shape ``[d]``, by content digest."""

    def keep_vectors(self, embedder_id: str, vectors: Mapping[str, Vectors]) -> None:
        """Store vectors, each of shape ``[d]``, by content digest."""


class Encoder:
    """An embedder that encodes each text once. Safe to share between threads.

    Args:
        embedder: The embedder to cache.
        store: Persistent store of skills' vectors; ``None`` caches in memory only.
        most_queries: Cached query vectors; the least recently used is dropped first.
    """

    def __init__(
        self, embedder: Embedder, store: VectorStore | None = None, most_queries: int = MOST_QUERIES
    ) -> None:
        self.embedder = embedder
        self._store = store
        self._most_queries = most_queries
        self._queries: OrderedDict[str, Vectors] = OrderedDict()
        self._skills: dict[str, Vectors] = {}
        self._guard = threading.RLock()

    def queries(self, texts: Iterable[str]) -> dict[str, Vectors]:
        """Return the vector of each distinct text, shape ``[d]``; new ones are encoded together."""
        with self._guard:
            wanted = dict.fromkeys(texts)
            new = [text for text in wanted if text not in self._queries]
            fresh = self._checked(new, self.embedder.encode_queries(new)) if new else {}
            found = {text: fresh[text] if text in fresh else self._recall(text) for text in wanted}
            self._queries.update(fresh)
            while len(self._queries) > self._most_queries:
                self._queries.popitem(last=False)
            return found

    def skills(self, skills: Sequence[BankSkill]) -> Vectors:
        """Return one row per skill, in order; new ones are encoded together and stored.

        Returns:
            Shape ``[n, d]``; ``[0, 0]`` for no skills.
        """
        if not skills:
            return np.zeros((0, 0), dtype=np.float32)
        with self._guard:
            texts = [skill.text for skill in skills]
            pairs = zip(skills, texts, strict=True)
            # Digests are expensive, so only those of new skills are computed.
            self._learn({text: skill for skill, text in pairs if text not in self._skills})
            return np.stack([self._skills[text] for text in texts])

    def _learn(self, new: Mapping[str, BankSkill]) -> None:
        if not new:
            return
        digests = {text: skill.content_digest for text, skill in new.items()}
        kept = self._kept()
        found = {text: kept[key] for text, key in digests.items() if key in kept}
        unknown = [text for text in digests if text not in found]
        if unknown:
            fresh = self._checked(unknown, self.embedder.encode_skills(unknown), found)
            if self._store is not None:
                by_digest = {digests[text]: row for text, row in fresh.items()}
                self._store.keep_vectors(self.embedder.identity, by_digest)
            found |= fresh
        self._skills.update(found)

    def _checked(
        self, texts: Sequence[str], rows: Vectors, kept: Mapping[str, Vectors] | None = None
    ) -> dict[str, Vectors]:
        """Return rows by text; wrong rows are refused, because stored ones would hide skills."""
        name = self.embedder.identity
        if np.shape(rows)[:1] != (len(texts),) or np.ndim(rows) != 2 or not np.isfinite(rows).all():
            raise ModelError(
                f"embedder {name!r} gave an array of shape {np.shape(rows)} for {len(texts)} "
                "texts; one row of finite numbers per text was expected"
            )
        known = next(
            (one for group in (kept or {}, self._skills) for one in group.values()), rows[0]
        )
        if known.shape != rows[0].shape:
            raise ConfigError(
                f"embedder {name!r} gives {len(rows[0])} numbers per text, and vectors that are "
                f"kept under the same name have {len(known)}: another model is behind the name. "
                "Name the model that made them, or give the new one another name."
            )
        return dict(zip(texts, rows, strict=True))

    def _kept(self) -> Mapping[str, Vectors]:
        return {} if self._store is None else self._store.vectors(self.embedder.identity)

    def _recall(self, text: str) -> Vectors:
        self._queries.move_to_end(text)
        return self._queries[text]
