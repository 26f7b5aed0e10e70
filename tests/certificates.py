"""Servers with a certificate of their own: made by the `openssl` program, for the test alone.

made = certificate(folder, "self", names="IP:127.0.0.1")
with tls_server(made, chat) as url: ...
"""

import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest


class Certificate(NamedTuple):
    """A certificate that signs itself, and its key."""

    file: Path
    key: Path


def certificate(folder: Path, name: str, names: str, *, days: int = 2) -> Certificate:
    """Make a certificate; one of fewer than no days has expired. Skip where nothing can make one.

    Args:
        folder: Where to.
        name: Of its files.
        names: Whom it is for: ``IP:127.0.0.1``, ``DNS:example.org``.
        days: How long it is valid.
    """
    if shutil.which("openssl") is None:
        pytest.skip("the program openssl, which makes a certificate for this test, is not here")
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text(f"subjectAltName={names}\nbasicConstraints=CA:TRUE\n", encoding="utf-8")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl("req", "-new", *curve, "-subj", "/CN=test", "-keyout", made.key, "-out", request)
    _openssl("x509", "-req", "-in", request, "-signkey", made.key, "-out", made.file,
             "-days", days, "-extfile", extensions)  # fmt: skip
    return made


@contextmanager
def tls_server(made: Certificate, answer: Callable[[bytes], bytes]) -> Iterator[str]:
    """Answer on 127.0.0.1 over TLS until the block ends; give the port's ``host:port``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._send(answer(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_GET(self) -> None:
            self._send(answer(b""))

        def _send(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a client that refuses the certificate leaves in the middle

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.file, made.key)
    server = Server(("127.0.0.1", 0), Handler)
    # The handshake belongs to the connection's own thread, or one refusal would end them all.
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
