"""A server, a client, and models that wait for nothing."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mock_openai import MockOpenAI
from skillwright.models import EndpointModel, HttpClient, OpenAIChatConfig, make_model


@pytest.fixture
async def mock_openai() -> AsyncIterator[MockOpenAI]:
    """A running server; set its ``handler``, or give it faults with ``next``."""
    async with MockOpenAI() as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    """A client that is closed after the test."""
    async with HttpClient() as client:
        yield client


@pytest.fixture
def make_chat(
    mock_openai: MockOpenAI, client: HttpClient, clock: Any
) -> Callable[..., EndpointModel]:
    """Make a model on the mock server; keyword arguments are settings."""

    def make(**settings: Any) -> EndpointModel:
        known = {"model": "m", "base_url": mock_openai.base_url, "api_key": mock_openai.api_key}
        config = OpenAIChatConfig(**{**known, **settings})
        return make_model(config, client, sleep=clock.sleep, clock=clock)

    return make
