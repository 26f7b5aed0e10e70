"""Models as every job opens them: behind their cache, and programs fenced off from the run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from skillwright.config.env import EnvSection
from skillwright.core import ChatModel
from skillwright.models import EndpointConfig, ExecConfig, HttpClient, ModelConfig
from skillwright.models.cache import cached
from skillwright.runs import RunStore

MakeModel = Callable[[ModelConfig, HttpClient], ChatModel]

_KEPT_FAILURES = 20


@contextmanager
def opened_mind(
    config: ModelConfig,
    client: HttpClient,
    make: MakeModel,
    store: RunStore,
    env: EnvSection | None = None,
    *more: Path,
) -> Iterator[ChatModel]:
    """Make the model of a role, with the cache before it that its settings name.

    A program sees neither the folder of the store nor the data: it would find the answers there,
    whether it acts, proposes or teaches. What it printed when it failed is kept in that folder.

    Args:
        config: The model.
        client: Sends requests to endpoints.
        make: Makes the model.
        store: Of the job.
        env: What is played, where the job plays.
        more: Further places that a program may not see, such as other runs.
    """
    data = getattr(env.data, "path", None) if env is not None else None
    path = config.cache if isinstance(config, EndpointConfig) else None
    hidden = (store.folder, *([Path(data)] if data else []), *more)
    with cached(make(_fenced(config, store.folder, hidden), client), path) as model:
        yield model


def _fenced(config: ModelConfig, folder: Path, hidden: tuple[Path, ...]) -> ModelConfig:
    if not isinstance(config, ExecConfig):
        return config
    kept = {"keep_output": str(folder / "exec"), "keep_failures": _KEPT_FAILURES}
    fenced: ModelConfig = config.model_copy(
        update={
            **(kept if config.keep_output is None else {}),
            "hidden": (*config.hidden, *map(str, hidden)),
        }
    )
    return fenced
