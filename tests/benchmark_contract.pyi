"""The documented contract of a benchmark in SkillOpt's form; a test compares the code with it.

Source: SkillOpt (microsoft/SkillOpt), API reference of June 2026 and the next release.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from skillwright.core import Reflector
from skillwright.core.skill import SourceType
from skillwright.datasets.split import Item
from skillwright.envs.adapter import Row

class EnvAdapter(ABC):
    @abstractmethod
    def build_train_env(self, batch_size: int, seed: int, **kwargs: Any) -> Any: ...
    @abstractmethod
    def build_eval_env(self, env_num: int, split: str, seed: int, **kwargs: Any) -> Any: ...
    @abstractmethod
    def rollout(
        self, env_manager: Any, skill_content: str, out_dir: str, **kwargs: Any
    ) -> list[Row]: ...
    @abstractmethod
    def get_task_types(self) -> list[str]: ...
    def setup(self, cfg: dict[str, Any]) -> None: ...
    def get_dataloader(self) -> BaseDataLoader | None: ...
    def requires_ray(self) -> bool: ...
    def reflect(
        self, results: list[Row], skill_content: str, out_dir: str, **kwargs: Any
    ) -> list[Row | None]: ...
    def bind_reflector(self, reflector: Reflector) -> None: ...
    def build_env_from_batch(self, batch: BatchSpec, **kwargs: Any) -> Any: ...
    def build_reference_text(self, item: Mapping[str, Any]) -> str: ...
    def get_reference_metadata(self, item: Mapping[str, Any]) -> dict[str, Any]: ...
    def attach_reference_context(
        self, results: Sequence[Row] | None, items: Sequence[Mapping[str, Any]] | None
    ) -> list[Row]: ...
    def select_representative_items(
        self,
        results: Sequence[Row],
        items: Sequence[Row],
        *,
        n_failures: int,
        n_successes: int,
        seed: int | None = None,
    ) -> list[Row]: ...
    def get_error_minibatch_prompt(self) -> str | None: ...
    def get_success_minibatch_prompt(self) -> str | None: ...

class BaseDataLoader(ABC):
    @abstractmethod
    def build_train_batch(self, batch_size: int, seed: int, **kwargs: Any) -> BatchSpec: ...
    @abstractmethod
    def build_eval_batch(self, env_num: int, split: str, seed: int, **kwargs: Any) -> BatchSpec: ...
    def setup(self, cfg: dict[str, Any]) -> None: ...
    def set_out_root(self, out_root: str) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
    def get_train_size(self) -> int | None: ...
    @staticmethod
    def make_base_seeds(steps_per_epoch: int, accumulation: int, seed: int) -> list[int]: ...
    @staticmethod
    def shuffle_epoch_seeds(base_seeds: Sequence[int], epoch: int, seed: int) -> list[int]: ...
    def plan_train_epoch(
        self,
        *,
        epoch: int,
        steps_per_epoch: int,
        accumulation: int,
        batch_size: int,
        seed: int,
        **kwargs: Any,
    ) -> list[BatchSpec]: ...

class SplitDataLoader(BaseDataLoader):
    def __init__(
        self,
        split_dir: str = "",
        data_path: str = "",
        split_mode: str = "ratio",
        split_ratio: str = "2:1:7",
        split_seed: int = 42,
        split_output_dir: str = "",
        seed: int = 42,
        limit: int | Mapping[str, int] = 0,
        **kwargs: Any,
    ) -> None: ...
    def load_raw_items(self, data_path: str) -> list[Item]: ...
    def load_split_items(self, split_path: str) -> list[Item]: ...
    def get_split_items(self, split: str) -> list[Item]: ...

@dataclass(slots=True)
class BatchSpec:
    phase: str
    split: str
    seed: int
    batch_size: int
    payload: object | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

EditOp = Literal["append", "insert_after", "replace", "delete"]

@dataclass
class Edit:
    op: EditOp
    content: str = ""
    target: str = ""
    support_count: int | None = None
    source_type: SourceType | None = None
    merge_level: int | None = None
    update_origin: str = ""
    update_target: str = ""

@dataclass
class Patch:
    edits: list[Edit] = field(default_factory=list)
    reasoning: str = ""
    ranking_details: dict[str, Any] | None = None

def apply_edit(skill: str, edit: Edit) -> str: ...
def apply_patch(skill: str, patch: Patch) -> str: ...
def apply_patch_with_report(skill: str, patch: Patch) -> tuple[str, list[dict[str, Any]]]: ...
def skill_hash(text: str) -> str: ...

@dataclass
class RolloutResult:
    id: str
    hard: float
    soft: float
    n_turns: int = 0
    fail_reason: str = ""
    task_type: str = ""
    task_description: str = ""
    predicted_answer: str = ""
    question: str = ""
    reference_text: str = ""
    target_system_prompt: str = ""
    target_user_prompt: str = ""
    spreadsheet_preview: str = ""
    extras: dict[str, Any] = field(default_factory=dict)

@dataclass
class RawPatch:
    patch: Patch
    source_type: str = "failure"
    batch_size: int = 0
    failure_summary: list[FailureSummaryEntry] = field(default_factory=list)

@dataclass
class FailureSummaryEntry:
    failure_type: str
    count: int = 0
    description: str = ""

@dataclass
class SlowUpdateResult:
    reasoning: str = ""
    slow_update_content: str = ""
    action: str = ""
    time_s: float | None = None
    prev_hard: float | None = None
    curr_hard: float | None = None
    selection_hard: float | None = None
    selection_soft: float | None = None
    candidate_hash: str = ""
    update_origin: str = ""
    update_target: str = ""

GateAction = Literal["accept_new_best", "accept", "reject"]
GateMetric = Literal["hard", "soft", "mixed"]

@dataclass(frozen=True, slots=True)
class GateResult:
    action: GateAction
    current_skill: str
    current_score: float
    best_skill: str
    best_score: float
    best_step: int

def evaluate_gate(
    candidate_skill: str,
    cand_hard: float,
    current_skill: str,
    current_score: float,
    best_skill: str,
    best_score: float,
    best_step: int,
    global_step: int,
    *,
    cand_soft: float = 0.0,
    metric: str = "hard",
    mixed_weight: float = 0.5,
    use_semantic_density: bool = False,
    semantic_density_weight: float = 0.05,
    leading_words: Sequence[str] | None = None,
) -> GateResult: ...
def select_gate_score(
    hard: float,
    soft: float,
    metric: str = "hard",
    mixed_weight: float = 0.5,
    *,
    skill_content: str = "",
    use_semantic_density: bool = False,
    semantic_density_weight: float = 0.05,
    leading_words: Sequence[str] | None = None,
) -> float: ...
def compute_semantic_density(text: str, leading_words: Sequence[str] | None = None) -> float: ...
def compute_score(rows: Sequence[Any]) -> tuple[float, float]: ...

class LRScheduler(ABC):
    def __init__(self, max_lr: int = 8, min_lr: int = 2, total_steps: int = 8) -> None: ...
    @abstractmethod
    def get_lr(self, step: int) -> int: ...
    def step(self) -> int: ...
    def state_dict(self) -> dict[str, int]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

def build_scheduler(
    mode: str = "constant", max_lr: int = 8, min_lr: int = 2, total_steps: int = 8
) -> LRScheduler: ...
