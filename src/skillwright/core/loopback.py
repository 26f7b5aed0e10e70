"""Servers on the loopback interface: address, port, and access token."""

import re
import secrets
import socket

from skillwright.core.errors import RunError

HOST = "127.0.0.1"
"""Address that no other machine can reach."""
_NAMED = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::(?P<port>[0-9]{1,5}))?")


def port_named(host: str) -> str | None:
    """Return the port in a ``Host`` header that names this machine.

    Other names are refused because of DNS rebinding: a web page can point its own host name at
    this machine and let a browser send requests to it.

    Returns:
        The port, ``""`` without one, ``None`` if the header names another host.
    """
    named = _NAMED.fullmatch(host)
    return None if named is None else named["port"] or ""


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def same_token(given: str, token: str) -> bool:
    """Compare tokens in constant time."""
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode())


def bound_socket(port: int, host: str = HOST) -> socket.socket:
    """Bind a socket to a port; 0 chooses a free one.

    Raises:
        RunError: The port is taken, or the address is not this machine's.
    """
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise RunError(
            f"{host}:{port} cannot be used ({error.strerror}); leave --port out for a free port, "
            "and --host for this machine's own address"
        ) from error
    return found
