"""Sign evidence with an Ed25519 key, and check a signature; needs the extra ``sign``."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from skillwright.core import UsageError
from skillwright.core.jsonio import read_text
from skillwright.jobs.inspect.evidence import Evidence, Signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

_INSTALL = "pip install 'skillwright[sign]'"
_MAKE = "`openssl genpkey -algorithm ed25519 -out key.pem` makes one"
_HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")


class NoCryptography(UsageError):
    """The extra ``sign`` is not installed."""


def sign(evidence: Evidence, key: "Ed25519PrivateKey") -> Evidence:
    """Return evidence with a signature."""
    value = key.sign(evidence.message).hex()
    public = key.public_key().public_bytes_raw().hex()
    return replace(evidence, signature=Signature("ed25519", public, value))


def read_private_key(path: Path) -> "Ed25519PrivateKey":
    """Read a private key as OpenSSL or ssh-keygen write it, without a password.

    Raises:
        UsageError: It is none, has a password, or is of another kind.
    """
    serialization, ed25519 = _library()
    body = read_text(path, "key").encode()
    load = serialization.load_pem_private_key
    if b"OPENSSH" in body:
        load = serialization.load_ssh_private_key
    try:
        key: Any = load(body, password=None)
    except (TypeError, ValueError, _unsupported()) as error:
        why = "has a password" if isinstance(error, TypeError) else "is no private key"
        move = "sign with a key without one" if isinstance(error, TypeError) else _MAKE
        raise UsageError(f"{str(path)!r} {why}; {move}") from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise UsageError(f"{str(path)!r} is no Ed25519 key; {_MAKE}")
    return cast("Ed25519PrivateKey", key)


def read_public_key(path: Path) -> "Ed25519PublicKey":
    """Read a public key: PEM, a line of ssh-keygen, or 64 hexadecimal digits.

    Raises:
        UsageError: It is none, or of another kind.
    """
    serialization, ed25519 = _library()
    text = read_text(path, "key").strip()
    if "PRIVATE KEY" in text:
        raise UsageError(
            f"{str(path)!r} is a private key, which stays with its owner; name the public one "
            "(`openssl pkey -in key.pem -pubout`)"
        )
    try:
        if _HEX_KEY.fullmatch(text):
            return _from_hex(text)
        load: Any = serialization.load_pem_public_key
        if text.startswith("ssh-"):
            load = serialization.load_ssh_public_key
        key: Any = load(text.encode())
    except (ValueError, _unsupported()) as error:
        raise UsageError(f"{str(path)!r} is no public key: {error}") from error
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise UsageError(f"{str(path)!r} is no Ed25519 key; evidence is signed with no other kind")
    return cast("Ed25519PublicKey", key)


def why_unsigned(evidence: Evidence, trusted: "Ed25519PublicKey | None") -> str:
    """Return why a signature does not hold, or "".

    Args:
        evidence: Evidence with or without a signature.
        trusted: The only key that counts; ``None`` checks the signature by its own key.

    Raises:
        NoCryptography: The extra is not installed.
    """
    signature = evidence.signature
    if signature is None:
        return "it is not signed"
    _library()
    from cryptography.exceptions import InvalidSignature

    try:
        key, value = _from_hex(signature.key), bytes.fromhex(signature.value)
    except ValueError as error:
        return f"its signature is damaged: {error}"
    if trusted is not None and trusted != key:
        return f"it is signed with another key, {signature.key}"
    try:
        key.verify(value, evidence.message)
    except InvalidSignature:
        return f"it was not signed with the key that it names, {signature.key}"
    return ""


def _from_hex(text: str) -> "Ed25519PublicKey":
    key = _library()[1].Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    return cast("Ed25519PublicKey", key)


def _unsupported() -> type[Exception]:
    from cryptography.exceptions import UnsupportedAlgorithm

    return UnsupportedAlgorithm


def _library() -> tuple[Any, Any]:
    """Import the parts of ``cryptography`` that are used.

    Raises:
        NoCryptography: It is not installed.
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise NoCryptography(f"signatures need the package cryptography: {_INSTALL}") from error
    return serialization, ed25519
