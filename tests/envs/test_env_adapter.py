"""The documented adapter, in both of its releases."""

import random
import sys
from pathlib import Path

import pytest

from skillwright.core import ConfigError, ReflectRequest
from skillwright.datasets import BatchSpec
from skillwright.envs import EnvAdapter

LATER_RELEASE = """
from skillwright.envs import EnvAdapter

class Adapter(EnvAdapter):
    def build_train_env(self, batch_size, seed, **kwargs):
        return ("train", batch_size, seed, kwargs)

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return ("eval", env_num, split, seed, kwargs)

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        return []

    def get_task_types(self):
        return []
"""


class Benchmark(EnvAdapter):
    """As the later release allows: four methods."""

    def build_train_env(self, batch_size, seed, **kwargs):
        return ("train", batch_size, seed, kwargs)

    def build_eval_env(self, env_num, split, seed, **kwargs):
        return ("eval", env_num, split, seed, kwargs)

    def rollout(self, env_manager, skill_content, out_dir, **kwargs):
        return []

    def get_task_types(self):
        return []


class OlderBenchmark(Benchmark):
    """As the older reference demands: an own reflect, and no super() in setup."""

    def setup(self, cfg):
        self.configured = True

    def reflect(self, results, skill_content, out_dir, **kwargs):
        return [{"patch": {"edits": []}, "source_type": "failure"}, None]


class KeepingReflector:
    def __init__(self):
        self.requests = []

    def reflect(self, request):
        self.requests.append(request)
        return [{"patch": {"edits": []}, "source_type": "failure"}]


def asked(adapter, **kwargs):
    reflector = KeepingReflector()
    adapter.bind_reflector(reflector)
    adapter.reflect([{"id": "1"}], "skill", "out", **kwargs)
    return reflector.requests[0]


def test_an_adapter_must_write_the_four_methods_that_have_no_default():
    with pytest.raises(TypeError) as raised:
        EnvAdapter()
    for name in ("build_train_env", "build_eval_env", "rollout", "get_task_types"):
        assert name in str(raised.value)
    assert "reflect" not in str(raised.value)


def test_life_cycle_hooks_have_defaults():
    adapter = Benchmark()
    cfg = {"batch_size": 4}
    adapter.setup(cfg)
    assert adapter._cfg == cfg
    assert adapter._cfg is not cfg
    assert adapter.get_dataloader() is None
    assert adapter.requires_ray() is False


def test_an_adapter_of_the_older_release_runs_unchanged():
    adapter = OlderBenchmark()
    adapter.setup({"minibatch_size": 2})
    assert adapter.reflect([], "skill", "out", random_seed=1)[1] is None


def test_reflecting_without_a_reflector_names_the_next_move():
    with pytest.raises(ConfigError, match=r"Benchmark has no reflector: call bind_reflector"):
        Benchmark().reflect([], "skill", "out")


def test_the_default_reflect_asks_with_the_documented_defaults():
    request = asked(Benchmark())
    assert request == ReflectRequest([{"id": "1"}], "skill", Path("out/predictions"))
    assert (request.minibatch_size, request.edit_budget) == (8, 4)
    assert (request.analyst_workers, request.failure_only) == (16, False)


def test_the_default_reflect_takes_every_documented_keyword_and_ignores_others():
    request = asked(
        Benchmark(),
        prediction_dir="p",
        patches_dir="q",
        random_seed=7,
        step_buffer_context="before",
        meta_skill_context="memory",
        diagnostic_mode=True,
    )
    assert request.prediction_dir == Path("p")
    assert request.patches_dir == Path("q")
    assert request.seed == 7
    assert request.step_buffer_context == "before"
    assert request.meta_skill_context == "memory"


def test_settings_of_the_adapter_beat_the_configuration_which_beats_the_defaults():
    adapter = Benchmark()
    adapter.setup({"minibatch_size": 3, "edit_budget": 6, "failure_only": True})
    adapter.edit_budget = 2
    request = asked(adapter)
    assert request.minibatch_size == 3
    assert request.edit_budget == 2
    assert request.failure_only is True
    assert request.analyst_workers == 16


def test_reflectors_are_bound_to_one_adapter_only():
    bound, unbound = Benchmark(), Benchmark()
    bound.bind_reflector(KeepingReflector())
    with pytest.raises(ConfigError):
        unbound.reflect([], "skill", "out")


def test_prompts_of_the_benchmark_reach_the_reflector():
    class Own(Benchmark):
        def get_error_minibatch_prompt(self):
            return "Look at the chairs."

    assert asked(Own()).prompts == (("analyst_error", "Look at the chairs."),)
    assert asked(Benchmark()).prompts == ()


def test_a_planned_batch_is_built_by_its_phase_and_keywords_pass_through():
    adapter = Benchmark()
    train = BatchSpec("train", "train", seed=5, batch_size=2)
    held_out = BatchSpec("eval", "valid_seen", seed=5, batch_size=2)
    assert adapter.build_env_from_batch(train, out_root="r") == ("train", 2, 5, {"out_root": "r"})
    assert adapter.build_env_from_batch(held_out, out_root="r") == (
        "eval",
        2,
        "valid_seen",
        5,
        {"out_root": "r"},
    )


@pytest.mark.parametrize(
    ("item", "text"),
    [({"reference_text": " Paris \n"}, "Paris"), ({}, ""), ({"reference_text": None}, "")],
)
def test_the_reference_is_the_stripped_reference_text(item, text):
    assert Benchmark().build_reference_text(item) == text


def test_reference_metadata_names_the_field_and_shows_400_characters():
    adapter = Benchmark()
    assert adapter.get_reference_metadata({}) == {"fields": [], "preview": ""}
    assert adapter.get_reference_metadata({"reference_text": "x" * 500}) == {
        "fields": ["reference_text"],
        "preview": "x" * 400,
    }


def test_references_are_attached_to_copies_of_the_rows_by_id():
    rows = [{"id": "1"}, {"id": "2"}, {"id": "3", "reference_text": "own"}]
    items = [{"id": 1, "reference_text": "Paris"}, {"id": 3}]
    attached = Benchmark().attach_reference_context(rows, items)
    assert attached == [
        {"id": "1", "reference_text": "Paris"},
        {"id": "2"},
        {"id": "3", "reference_text": "own"},
    ]
    assert rows[0] == {"id": "1"}
    assert all(new is not old for new, old in zip(attached, rows, strict=True))


@pytest.mark.parametrize(("rows", "items"), [([{"id": "1"}], None), ([{"id": "1"}], []), ([], [1])])
def test_without_rows_or_items_nothing_is_attached(rows, items):
    attached = Benchmark().attach_reference_context(rows, items)
    assert attached == rows
    assert attached is not rows


ITEMS = [{"id": str(i), "task_type": "ab"[i % 2]} for i in range(12)]
ROWS = [{"id": str(i), "hard": int(i >= 6)} for i in range(12)]


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_representatives_cover_every_task_type_first(seed):
    chosen = Benchmark().select_representative_items(
        ROWS, ITEMS, n_failures=2, n_successes=3, seed=seed
    )
    failed, passed = chosen[:2], chosen[2:]
    assert {item["task_type"] for item in failed} == {"a", "b"}
    assert {item["task_type"] for item in passed[:2]} == {"a", "b"}
    assert all(int(item["id"]) < 6 for item in failed)
    assert all(int(item["id"]) >= 6 for item in passed)
    assert len(passed) == 3


def test_representatives_are_drawn_by_one_seed():
    def draw(seed):
        return Benchmark().select_representative_items(
            ROWS, ITEMS, n_failures=3, n_successes=3, seed=seed
        )

    assert draw(4) == draw(4)
    assert len({str(draw(seed)) for seed in range(10)}) > 1
    random.seed(0)
    assert draw(None) == draw(None)


def test_an_item_that_failed_once_does_not_stand_for_success_too():
    rows = [{"id": "0", "hard": 0}, {"id": "0", "hard": 1}, {"id": "absent", "hard": 1}]
    chosen = Benchmark().select_representative_items(rows, ITEMS, n_failures=5, n_successes=5)
    assert chosen == [ITEMS[0]]


def test_prompts_are_found_beside_an_adapter_in_a_package_of_environments(tmp_path, monkeypatch):
    package = tmp_path / "somebody" / "envs" / "chairs"
    (package / "prompts").mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "adapter.py").write_text(LATER_RELEASE, encoding="utf-8")
    (package / "prompts" / "analyst_error.md").write_text("Look at chairs.", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    from somebody.envs.chairs.adapter import Adapter

    adapter = Adapter()
    assert adapter._env_name() == "chairs"
    assert adapter.get_error_minibatch_prompt() == "Look at chairs."
    assert adapter.get_success_minibatch_prompt() is None
    assert asked(adapter).prompts == (("analyst_error", "Look at chairs."),)
    for name in [name for name in sys.modules if name.split(".")[0] == "somebody"]:
        del sys.modules[name]


def test_an_adapter_outside_such_a_package_has_no_prompts_of_its_own():
    assert Benchmark()._env_name() == ""
    assert Benchmark()._load_env_prompt("analyst_error") is None
