"""An endpoint whose certificate cannot be trusted: a message with the next move, never a score."""

import json
import os
import subprocess
import sys

import pytest

from certificates import certificate, tls_server
from doors import doors_settings
from mock_openai import completion
from skillwright.core import DataError
from skillwright.datasets import fetch_file

TRUST = "name a PEM file with the certificate of the signer, or with its own: SSL_CERT_FILE="
CASES = {
    "self-signed": (
        {"names": "IP:127.0.0.1"},
        "not signed by an authority that this machine trusts",
        TRUST,
    ),
    "expired": (
        {"names": "IP:127.0.0.1", "days": -1},
        "its certificate has expired",
        "Renew it there, or correct this machine's clock",
    ),
    "other host": (
        {"names": "DNS:example.org"},
        "its certificate is for another host",
        "Address it by a name that its certificate has",
    ),
}


class Asked:
    """Takes every door, and counts who asks."""

    def __init__(self):
        self.count = 0

    def __call__(self, body):
        self.count += 1
        return json.dumps(completion("4", model="walker")).encode()


def evaluate(folder, where, **env):
    """Evaluate an agent at an address in a process; return the process's end."""
    settings = doors_settings(folder)
    settings["models"]["target"] = {
        "backend": "openai_chat",
        "model": "walker",
        "base_url": f"https://{where}/v1",
        "api_key_env": "DOORS_KEY",
    }
    (folder / "own.yaml").write_text(json.dumps(settings), encoding="utf-8")
    own = {name: value for name, value in os.environ.items() if not name.startswith("SSL_")}
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, "-m", "skillwright", "eval", "own.yaml", "--json"],
        cwd=folder,
        env={**own, "DOORS_KEY": "sk-mock", "PYTHONPATH": paths, **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "case",
    ["self-signed", *(pytest.param(one, marks=pytest.mark.heavy) for one in list(CASES)[1:])],
)
def test_a_certificate_that_cannot_be_trusted_is_told_and_nothing_is_sent(tmp_path, case):
    asked = Asked()
    made, why, move = CASES[case]
    bad = certificate(tmp_path, "server", **made)
    # That the signer is trusted mends neither a date nor a name.
    trusted = {} if case == "self-signed" else {"SSL_CERT_FILE": str(bad.file)}
    with tls_server(bad, asked) as where:
        done = evaluate(tmp_path, where, **trusted)
    said = " ".join(done.stderr.split())
    assert done.returncode == 2
    assert why in said
    assert move in said
    assert "Traceback" not in said
    assert done.stdout == ""
    assert asked.count == 0


def test_with_the_certificate_named_it_is_verified_and_works(tmp_path):
    asked = Asked()
    made = certificate(tmp_path, "server", names="IP:127.0.0.1")
    with tls_server(made, asked) as where:
        missing = evaluate(tmp_path, where, SSL_CERT_FILE=str(tmp_path / "typo.pem"))
        assert missing.returncode == 2
        assert "typo.pem' now, and there is no such file" in " ".join(missing.stderr.split())
        assert asked.count == 0
        done = evaluate(tmp_path, where, SSL_CERT_FILE=str(made.file))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["table"]["overall"]["episodes"] == 12
    assert asked.count > 12


def test_a_download_over_such_a_line_is_refused_at_once(tmp_path):
    asked = Asked()
    made = certificate(tmp_path, "server", names="IP:127.0.0.1")
    with (
        tls_server(made, asked) as where,
        pytest.raises(
            DataError, match=r"not signed by an authority .*SSL_CERT_FILE=ca\.pem"
        ) as refused,
    ):
        fetch_file(f"https://{where}/file", tmp_path / "file")
    assert "asked 3 times" not in str(refused.value)
    assert asked.count == 0
    assert not (tmp_path / "file").exists()
