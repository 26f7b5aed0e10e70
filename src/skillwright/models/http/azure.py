"""Sign in to Azure OpenAI without a key, by the library azure-identity (extra ``azure``)."""

import asyncio
import importlib
import os
import time
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from skillwright.core import ConfigError, ModelRefused

SignIn = Literal["managed_identity", "azure_cli"]

_SCOPE: Final = "https://cognitiveservices.azure.com/.default"
# A token is worth as much as a password, so it is sent to no other host.
_HOSTS: Final = tuple(
    f".{service}.azure.{end}"
    for service in ("openai", "cognitiveservices", "services.ai")
    for end in ("com", "us", "cn")
)
_RENEWED_S: Final = 300.0  # before a token ends
_NEXT: Final = {
    "managed_identity": (
        "run it on an Azure machine with an identity, set AZURE_CLIENT_ID to choose a "
        "user-assigned one, and give it the role Cognitive Services OpenAI User"
    ),
    "azure_cli": "run 'az login'",
}


def check_takes_token(base_url: str) -> None:
    """Raise a `ValueError` if an endpoint is not Azure's, or not reached by HTTPS."""
    parts = urlsplit(base_url)
    if parts.scheme != "https" or not (parts.hostname or "").endswith(_HOSTS):
        raise ValueError(
            f"{base_url!r} gets no token of Azure: only https://<resource>.openai.azure.com and "
            "Azure's other hosts do; use a key for a server of another kind"
        )


class AzureToken:
    """The token of an identity, renewed before it ends.

    Raises:
        ConfigError: azure-identity is not installed.
    """

    def __init__(self, way: SignIn) -> None:
        try:
            identity: Any = importlib.import_module("azure.identity")
        except ImportError as error:
            raise ConfigError(
                f"key_header: {way} needs azure-identity ({error}); pip install "
                "'skillwright[azure]'"
            ) from error
        self._way = way
        self._credential = (
            identity.AzureCliCredential()
            if way == "azure_cli"
            else identity.ManagedIdentityCredential(client_id=os.environ.get("AZURE_CLIENT_ID"))
        )
        self._token: Any = None
        self._renewing = asyncio.Lock()

    async def value(self) -> str:
        """Return a valid token, or raise `ModelRefused` if Azure gives none."""
        async with self._renewing:
            if self._token is None or self._token.expires_on - time.time() < _RENEWED_S:
                try:
                    # It blocks on the network, or on the program `az`.
                    self._token = await asyncio.to_thread(self._credential.get_token, _SCOPE)
                except Exception as error:
                    cause = " ".join(str(error).split())[:300]
                    raise ModelRefused(
                        f"Azure gave no token by {self._way}: {cause} Next: {_NEXT[self._way]}."
                    ) from error
            return str(self._token.token)
