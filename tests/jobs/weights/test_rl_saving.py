"""A run's policy as files: which weights, in which form, and what is refused."""

import pytest

from hf_world import hf_config, write_tiny
from policy.tiny_models import tiny_model
from rl_world import Notebook, lanes_config, recipe, resumed, story
from skillwright.core import ConfigError, RunError
from skillwright.jobs.weights import START, start_rl, supervised
from skillwright.jobs.weights.saving import save_run_policy
from skillwright.jobs.weights.wiring import PolicyMaker
from skillwright.policy import ModelUnfit
from skillwright.policy.hf import HfPolicy, HfSettings

LORA = {"lora": {"rank": 4, "alpha": 8}}
PLAIN = HfSettings(device="cpu", precision="float32")


@pytest.fixture(scope="module")
def adapted(tmp_path_factory):
    """A supervised run of a tiny model with an adapter: its folder, and its base model's."""
    import asyncio

    folder = tmp_path_factory.mktemp("adapted")
    base = write_tiny(folder / "base")
    gate = {"gate": {"kind": "explore"}}
    config = supervised(hf_config(folder, base, policy=LORA, evaluation=gate))
    path, report = asyncio.run(recipe(config))
    return path, base, report


def test_the_card_says_what_was_learned_from_and_what_was_proven(adapted, tmp_path):
    path, base, report = adapted
    saved = save_run_policy(path, tmp_path / "out", which="final")
    card = (saved.path / "README.md").read_text(encoding="utf-8")
    verdict = report.state.release
    for said in (
        f"| base model | `{base}` |",
        "LoRA adapter, rank 4, alpha 8",
        f"**{verdict.decision.value}**. {verdict.reason}",
        "95% interval",
        "| skill bank | version 0, 0 skills",
        "| final | ",
        "cold_start.learning_rate",
        "Trained by Skillwright",
        "A scripted model took part",
        report.state.validations[0].policy,
    ):
        assert said in card
    assert saved.size == sum(file.stat().st_size for file in saved.path.iterdir())


def test_each_of_a_runs_weights_can_be_saved(adapted, tmp_path):
    path, _, report = adapted
    by_name = {
        which: save_run_policy(path, tmp_path / which, which=which) for which in ("start", "final")
    }
    assert by_name["final"].identity != by_name["start"].identity
    released = save_run_policy(path, tmp_path / "released")
    same = "start" if report.released == START else "final"
    assert released.identity == by_name[same].identity


async def test_a_saved_adapter_is_begun_with_merged_or_trained_on(adapted, tmp_path):
    path, base, report = adapted
    apart = save_run_policy(path, tmp_path / "apart", which="final", form="adapter")
    merged = save_run_policy(path, tmp_path / "merged", which="final")
    configs = {
        "apart": {"start": str(apart.path), **LORA},
        "merged": {"start": str(apart.path)},
        "whole": {"start": str(merged.path)},
    }
    answers = {}
    for name, policy in configs.items():
        config = hf_config(
            tmp_path, base, run={"name": name}, policy=policy, cold_start={"steps": 1}
        )
        _, begun = await recipe(supervised(config))
        answers[name] = begun.state.validations[START].table
    assert answers["apart"] == answers["merged"] == answers["whole"]
    assert answers["whole"] == report.state.validations[0].table


@pytest.mark.parametrize(
    ("form", "policy", "says"),
    [
        ("adapter", {"lora": {"rank": 2, "alpha": 8}}, "its rank is 4 and its alpha 8"),
        ("merged", {"model": "wide"}, "are not of policy.model"),
        ("adapter", {"model": "wide"}, "does not fit policy.model"),
    ],
)
def test_saved_weights_that_do_not_fit_are_refused(adapted, tmp_path, form, policy, says):
    path, base, _ = adapted
    saved = save_run_policy(path, tmp_path / "out", which="final", form=form)
    wide = write_tiny(tmp_path / "wide", hidden_size=64)
    model = wide if policy.get("model") else base
    config = hf_config(
        tmp_path, model, policy={**policy, "model": str(model), "start": str(saved.path)}
    )
    with pytest.raises(ModelUnfit, match=says):
        PolicyMaker(config).check()


def test_what_cannot_be_saved_is_refused_and_nothing_is_left(adapted, tmp_path):
    path, _, _ = adapted
    (tmp_path / "there").mkdir()
    with pytest.raises(ConfigError, match="exists, and nothing is overwritten"):
        save_run_policy(path, tmp_path / "there")
    with pytest.raises(ConfigError, match="is no GGUF file"):
        save_run_policy(path, tmp_path / "gguf", form="f16")
    with pytest.raises(RunError, match="no run 'nowhere'"):
        save_run_policy("nowhere", tmp_path / "none")
    assert [one.name for one in tmp_path.iterdir()] == ["there"]


async def test_a_scorer_is_begun_with_and_not_saved(tmp_path):
    path, _ = await recipe(supervised(lanes_config(tmp_path)))
    with pytest.raises(ConfigError, match=r"a command scorer.*policy\.start="):
        save_run_policy(path, tmp_path / "out")


async def test_a_run_that_is_not_finished_releases_nothing(tmp_path):
    with start_rl(lanes_config(tmp_path)) as run:
        path = run.folder.path
    with pytest.raises(ConfigError, match="is not finished"):
        save_run_policy(path, tmp_path / "out")


@pytest.mark.heavy
@pytest.mark.parametrize("lora", [{}, LORA], ids=["full", "lora"])
async def test_a_language_models_training_that_was_stopped_ends_with_the_same_weights(
    tmp_path, lora
):
    base = write_tiny(tmp_path / "base")
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    whole, _ = await recipe(supervised(hf_config(tmp_path / "one", base, policy=lora)))
    other = supervised(hf_config(tmp_path / "two", base, policy=lora))
    with pytest.raises(BaseException) as stopped:  # noqa: PT011 - it may come in a group
        await recipe(other, Notebook(stop_at=60))
    assert "Stopped" in repr(stopped.value)
    path = tmp_path / "two" / "runs" / "lanes"
    await resumed(path)
    assert story(path)["events"] == story(whole)["events"]
    one, two = (save_run_policy(run, run / "saved", which="final") for run in (whole, path))
    weights = [(saved.path / "model.safetensors").read_bytes() for saved in (one, two)]
    assert weights[0] == weights[1]


def test_the_base_of_an_adapter_is_what_it_was_trained_over(adapted, tmp_path):
    path, _, _ = adapted
    merged = save_run_policy(path, tmp_path / "merged", which="final")
    loaded = HfPolicy.load_pretrained(str(merged.path), PLAIN)
    assert loaded.weights.model.state_dict().keys() == tiny_model().state_dict().keys()
