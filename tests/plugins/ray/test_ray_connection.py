"""What is wrong before Ray runs is said at once, and with the next move. No Ray is started here."""

import sys

import pytest

from skillwright.config.run import validated
from skillwright.core import ConfigError
from skillwright.plugins.ray.placement import (
    connect,
    connection_problem,
    refuse_without_ray,
)
from skillwright.rollout.workers import Cluster

SCRIPTED = {
    "target": {"backend": "scripted", "model": "household"},
    "optimizer": {"backend": "scripted", "model": "analyst"},
}


def test_without_ray_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'skillwright\[ray\]'"):
        connect(Cluster())
    with pytest.raises(ConfigError, match="adapter 'x' needs Ray"):
        refuse_without_ray("adapter 'x'")


def test_a_head_that_nobody_answers_at_is_named_at_once():
    with pytest.raises(ConfigError, match=r"no Ray can be reached at '127\.0\.0\.1:.*ray start"):
        connect(Cluster(address="127.0.0.1:1"))


def test_a_head_of_another_version_is_named_with_both_versions():
    said = (
        "Version mismatch: The cluster was started with:\n    Ray: 2.49.0\n    Python: 3.12.1\n"
        "This process on node 10.0.0.1:6379 was started with:\n    Ray: 2.60.0\n"
    )
    message = str(connection_problem("10.0.0.1:6379", RuntimeError(said)))
    assert "another version" in message
    assert "2.49.0" in message
    assert "2.60.0" in message
    assert "\n" not in message


def refusal(target=None, **rollout):
    models = {**SCRIPTED, "target": target or SCRIPTED["target"]}
    with pytest.raises(ConfigError) as caught:
        validated({"models": models, "rollout": {"engine": "ray", **rollout}}, "run.yaml")
    return str(caught.value)


def test_what_cannot_play_on_other_machines_is_refused_with_the_configuration():
    local = {"backend": "local", "model": "m.gguf"}
    assert "skillwright serve" in refusal(local)
    cached = {"backend": "openai_chat", "model": "m", "cache": "replies.sqlite"}
    assert "its cache is a file of this machine" in refusal(cached)
    assert "ray job submit" in refusal(ray={"address": "ray://head:10001"})
