"""The benchmark interface of SkillOpt's trainer.

Source: SkillOpt (microsoft/SkillOpt), API reference of June 2026 and the later release. Adapters
for either run unchanged: `reflect` may be overridden, as the older one requires, or inherited, as
the later one allows.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from skillwright.core import ConfigError, Reflector, ReflectRequest
from skillwright.datasets import BaseDataLoader, BatchSpec

Row = dict[str, Any]

PREVIEW_CHARS = 400
FAILED_BELOW = 1e-9


class EnvAdapter(ABC):
    """Connects a trainer to a benchmark: builds batches of episodes, plays them, reflects.

    A subclass implements `build_train_env`, `build_eval_env`, `rollout` and `get_task_types`. All
    methods may block: they are called sequentially in the adapter's own thread. A method may be
    ``async def`` instead; it is awaited in the run's event loop, where rollouts of several batches
    may overlap. Methods with ``**kwargs`` must accept unknown names.
    """

    _cfg: Mapping[str, Any] = {}
    _reflector: Reflector | None = None

    def setup(self, cfg: dict[str, Any]) -> None:
        """Receive the run's flat configuration, once, before all other calls."""
        self._cfg = dict(cfg)

    def get_dataloader(self) -> BaseDataLoader | None:
        """Return the data loader that plans batches, or ``None`` to plan them by seeds."""
        return None

    def requires_ray(self) -> bool:
        """Tell whether Ray must be started before the first rollout."""
        return False

    @abstractmethod
    def build_train_env(self, batch_size: int, seed: int, **kwargs: Any) -> Any:
        """Return an environment manager for a train batch: any object that `rollout` takes.

        Args:
            batch_size: Episodes in the batch.
            seed: Chooses the batch.
            **kwargs: ``out_root``, the run's folder.
        """

    @abstractmethod
    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs: Any) -> Any:
        """Return an environment manager for a fixed split.

        Args:
            env_num: Episodes; 0 means the whole split.
            split: ``train``, ``valid_seen`` (val) or ``valid_unseen`` (test).
            seed: The run's seed.
            **kwargs: ``out_root``, the run's folder.
        """

    @abstractmethod
    def rollout(
        self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any
    ) -> list[Row]:
        """Play a batch with a skill.

        Args:
            env_manager: Result of a ``build_*`` method.
            skill_content: The skill text.
            out_dir: Folder for ``predictions/<id>/conversation.json``, which the default `reflect`
                reads.
            **kwargs: ``use_eval_feedback=True`` in train rollouts.

        Returns:
            One row per episode. ``id`` (str), ``hard`` (0 or 1, or smoothed in [0, 1]) and
            ``soft`` (in [0, 1]) are required, other keys optional. A failed episode has no scores
            and must not be among the rows.
        """

    @abstractmethod
    def get_task_types(self) -> list[str]:
        """Return the distinct task types, for stratified samples and reports; may be empty."""

    def reflect(
        self, results: list[Row], skill_content: str, out_dir: str, **kwargs: Any
    ) -> list[Row | None]:
        """Propose edits from rollout rows by the bound reflector.

        ``analyst_workers``, ``failure_only``, ``minibatch_size`` and ``edit_budget`` are taken from
        the adapter's attributes, else from the configuration, else from the defaults of
        `ReflectRequest`.

        Args:
            results: Rows of `rollout`.
            skill_content: The skill text of the rollouts.
            out_dir: The step's folder.
            **kwargs: ``prediction_dir`` (default ``<out_dir>/predictions``), ``patches_dir``,
                ``random_seed``, ``step_buffer_context``, ``meta_skill_context``; others are
                ignored.

        Returns:
            Per minibatch ``{"patch": {"edits": [...]}, "source_type": "failure" | "success"}``,
            or ``None`` for a dropped one.

        Raises:
            ConfigError: No reflector is bound.
        """
        if self._reflector is None:
            raise ConfigError(
                f"{type(self).__name__} has no reflector: call bind_reflector(...) before "
                "reflect(), or override reflect() with an own one"
            )
        patches_dir = kwargs.get("patches_dir")
        request = ReflectRequest(
            results=results,
            skill=skill_content,
            prediction_dir=Path(kwargs.get("prediction_dir") or Path(out_dir) / "predictions"),
            seed=kwargs.get("random_seed"),
            step_buffer_context=kwargs.get("step_buffer_context") or "",
            meta_skill_context=kwargs.get("meta_skill_context") or "",
            patches_dir=Path(patches_dir) if patches_dir else None,
            prompts=self._own_prompts(),
            **self._reflect_settings(),
        )
        return self._reflector.reflect(request)

    def bind_reflector(self, reflector: Reflector) -> None:
        """Set the reflector that the default `reflect` calls."""
        self._reflector = reflector

    def build_env_from_batch(self, batch: BatchSpec, **kwargs: Any) -> Any:
        """Return an environment manager for a planned batch."""
        if batch.phase == "train":
            return self.build_train_env(batch_size=batch.batch_size, seed=batch.seed, **kwargs)
        return self.build_eval_env(
            env_num=batch.batch_size, split=batch.split, seed=batch.seed, **kwargs
        )

    def build_reference_text(self, item: Mapping[str, Any]) -> str:
        """Return the text about the right answer that analysts see and the agent does not."""
        return str(item.get("reference_text") or "").strip()

    def get_reference_metadata(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return the source fields of the reference text, and its first 400 characters."""
        text = self.build_reference_text(item)
        if not text:
            return {"fields": [], "preview": ""}
        return {"fields": ["reference_text"], "preview": text[:PREVIEW_CHARS]}

    def attach_reference_context(
        self, results: Sequence[Row] | None, items: Sequence[Mapping[str, Any]] | None
    ) -> list[Row]:
        """Return copies of the rows, each with its item's ``reference_text``, joined by id."""
        if not results or not items:
            return list(results or ())
        texts = {str(item.get("id")): self.build_reference_text(item) for item in items}
        rows = []
        for result in results:
            text = texts.get(str(result.get("id")))
            rows.append({**result, "reference_text": text} if text else dict(result))
        return rows

    def select_representative_items(
        self,
        results: Sequence[Row],
        items: Sequence[Row],
        *,
        n_failures: int,
        n_successes: int,
        seed: int | None = None,
    ) -> list[Row]:
        """Choose representative items of a batch: first one of every task type, then any.

        Args:
            results: Rows of `rollout`.
            items: The rows' items, joined by id; rows without an item are skipped.
            n_failures: Maximum items whose row failed (``hard`` is 0 or missing).
            n_successes: Maximum items whose row passed.
            seed: Seed of the choice; ``None`` takes the first rows.

        Returns:
            Distinct items, failures first.
        """
        by_id = {str(item.get("id")): item for item in items}
        rng = None if seed is None else random.Random(seed)
        chosen: dict[str, Row] = {}
        for wanted, passed in ((n_failures, False), (n_successes, True)):
            free = by_id.keys() - chosen.keys()
            rows = [row for row in results if _passed(row) is passed and str(row.get("id")) in free]
            if rng is not None:
                rng.shuffle(rows)
            ids = [str(row.get("id")) for row in _one_per_type_first(rows, by_id)]
            chosen |= {row_id: by_id[row_id] for row_id in list(dict.fromkeys(ids))[:wanted]}
        return list(chosen.values())

    def get_error_minibatch_prompt(self) -> str | None:
        """Return this benchmark's prompt for analysts of failures; ``None`` means the generic."""
        return self._load_env_prompt("analyst_error")

    def get_success_minibatch_prompt(self) -> str | None:
        """Return this benchmark's prompt for analysts of successes; ``None`` means the generic."""
        return self._load_env_prompt("analyst_success")

    def _env_name(self) -> str:
        """Return ``name`` for an adapter in a module ``*.envs.name.*``, or else ``""``."""
        return _env_package(type(self).__module__).rpartition(".")[2]

    def _load_env_prompt(self, name: str) -> str | None:
        """Read ``prompts/<name>.md`` of the adapter's package, or return ``None``."""
        package = _env_package(type(self).__module__)
        if not package:
            return None
        file = resources.files(package) / "prompts" / f"{name}.md"
        return file.read_text(encoding="utf-8") if file.is_file() else None

    def _own_prompts(self) -> tuple[tuple[str, str], ...]:
        prompts = {
            "analyst_error": self.get_error_minibatch_prompt(),
            "analyst_success": self.get_success_minibatch_prompt(),
        }
        return tuple((name, text) for name, text in prompts.items() if text)

    def _reflect_settings(self) -> dict[str, Any]:
        """Return the settings that the adapter or the configuration has; the rest are defaults."""
        kinds: dict[str, Callable[[Any], Any]] = {
            "analyst_workers": int,
            "failure_only": bool,
            "minibatch_size": int,
            "edit_budget": int,
        }
        given = {name: getattr(self, name, self._cfg.get(name)) for name in kinds}
        return {name: kinds[name](value) for name, value in given.items() if value is not None}


def _env_package(module: str) -> str:
    before, found, after = module.partition(".envs.")
    name, _, inside = after.partition(".")
    return f"{before}{found}{name}" if inside else ""


def _passed(row: Mapping[str, Any]) -> bool:
    return float(row.get("hard") or 0.0) >= FAILED_BELOW


def _one_per_type_first(rows: Sequence[Row], by_id: Mapping[str, Row]) -> list[Row]:
    """Prepend the first row of every task type; it is also in its original position."""
    firsts: dict[str, Row] = {}
    for row in rows:
        item = by_id[str(row.get("id"))]
        kind = row.get("task_type") or item.get("task_type") or item.get("subtype") or "unknown"
        firsts.setdefault(str(kind), row)
    return [*firsts.values(), *rows]
