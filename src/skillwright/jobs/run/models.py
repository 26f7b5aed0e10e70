"""Make the models of a job from their settings, with a cache and a sandbox.

A program that acts as a model cannot read the run or the data, which contain the answers.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skillwright.bank import Teacher, TeacherDown, TeacherFault
from skillwright.config.env import EnvSection
from skillwright.core import ChatModel, Sampling
from skillwright.core.seeds import derive_seed
from skillwright.datasets import cache_dir
from skillwright.jobs.run.memory import StoredCalls
from skillwright.models import EndpointConfig, HttpClient, ModelConfig
from skillwright.models.cache import cached
from skillwright.runs import RunStore

MakeModel = Callable[[ModelConfig, HttpClient], ChatModel]
"""Makes a model from its settings; notebooks and tests may pass their own function."""
TEACHER_TOKENS = 8_192
"""Default maximum tokens of a teacher's answer."""


@contextmanager
def open_model(
    config: ModelConfig,
    client: HttpClient,
    make: MakeModel,
    store: RunStore,
    env: EnvSection | None = None,
    *more: Path,
) -> Iterator[ChatModel]:
    """Make the model of a role, with the configured cache.

    A program cannot read the folder of the store and the data. Its output after an error is stored
    in that folder.
    """
    path = config.cache if isinstance(config, EndpointConfig) else None
    hidden = (store.folder, *(_data_paths(env) if env is not None else ()), *more)
    with cached(make(config.fenced(store.folder, hidden), client), path) as model:
        yield model


def make_teacher(calls: StoredCalls, llm: ModelConfig, seed: int, stage: str) -> Teacher:
    """Return a model in the role of the teacher, with the stage's own seed."""
    most = getattr(llm, "max_tokens", None) or TEACHER_TOKENS
    return Teacher(
        calls, sampling=Sampling(max_tokens=most), seed=derive_seed("teacher", seed, stage)
    )


@contextmanager
def asked_anew(model: ChatModel, faults: Sequence[TeacherFault]) -> Iterator[None]:
    """Have failed requests answered anew by the next command, if this one stops for them."""
    try:
        yield
    except TeacherDown:
        if isinstance(model, StoredCalls):
            model.forget(fault.prompt_digest for fault in faults)
        raise


def _data_paths(env: EnvSection) -> list[Path]:
    """List the paths that may hold answers: the data, and every path in the settings.

    Any text in the settings of an environment that names a file or folder counts, except for the
    working directory and its parents.
    """
    variables = (value for name, value in os.environ.items() if name.startswith("SKILLWRIGHT_"))
    data = env.data.model_dump().get("path")
    return [*paths_named([*texts_in(data), *texts_in(env.config), *variables]), cache_dir()]


def paths_named(named: Iterable[str]) -> list[Path]:
    """Return the existing paths among texts, without the working directory and its parents."""
    places = [Path(text) for text in named if text]
    here = Path.cwd()
    return [one for one in places if _exists(one) and not here.is_relative_to(one.resolve())]


def texts_in(settings: Any) -> Iterator[str]:
    """Yield every text in settings, at any depth."""
    match settings:
        case str():
            yield settings
        case Mapping():
            yield from (text for value in settings.values() for text in texts_in(value))
        case list() | tuple():
            yield from (text for value in settings for text in texts_in(value))


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except (OSError, ValueError):  # too long for a name, or not one
        return False
