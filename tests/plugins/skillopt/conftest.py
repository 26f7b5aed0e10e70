"""Fixtures for configurations and commands."""

import json

import pytest

from command_line import cli
from skillwright.config.yaml_files import read_layers
from skillwright.plugins.skillopt.config.files import resolve_layers

__all__ = ["cli", "resolved"]


@pytest.fixture
def resolved(tmp_path):
    """Resolve a chain of files, given the base first; each inherits from the one before it."""

    def resolve(*layers: dict) -> dict:
        previous = None
        for depth, layer in enumerate(layers):
            path = tmp_path / f"layer{depth}.yaml"
            base = {"_base_": previous} if previous else {}
            path.write_text(json.dumps({**base, **layer}), encoding="utf-8")
            previous = path.name
        return resolve_layers(read_layers(path))

    return resolve
