"""`skillwright serve` at the command line: what it refuses, what it prints, how it ends."""

import socket

import pytest
from typer.testing import CliRunner

from serving import serve_process
from skillwright.cli.app import app

NOWHERE = "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name what answers"),
        (["policy", "--upstream", NOWHERE], "name what answers"),
        (["--upstream", "localhost:8000"], "begins with http"),
        (["--upstream", NOWHERE, "--bank", "no.sqlite"], "there is no bank 'no.sqlite'"),
        (["--upstream", NOWHERE, "--skill", "no.md"], "no.md"),
        (["--upstream", NOWHERE, "--env", "alfwrld"], "Did you mean 'alfworld'?"),
        (["--upstream", NOWHERE, "--key-env", "NOT_SET"], "NOT_SET holds no key"),
        (["--upstream", NOWHERE, "--host", "no.such.host.invalid"], "cannot be used"),
        (["nothing-of-that-name"], "is no policy"),
    ],
)
def test_what_cannot_be_served_is_refused_with_2(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["serve", *words], env={"COLUMNS": "400"})
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert not list(tmp_path.iterdir())


def test_a_port_in_use_is_refused_and_leaves_no_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(app, ["serve", "--upstream", NOWHERE, "--port", port])
    assert done.exit_code == 2
    assert f"127.0.0.1:{port} cannot be used" in " ".join(done.output.split())
    assert not list(tmp_path.iterdir())


def test_it_says_where_it_is_and_ctrl_c_ends_it_with_everything_stored(tmp_path):
    with serve_process("--upstream", NOWHERE, cwd=tmp_path) as served:
        assert served.exports["ANTHROPIC_BASE_URL"] == served.url.removesuffix("/v1")
        assert len(served.key) > 20
        code, said = served.stop()
    assert code == 130
    assert "Traceback" not in said
    assert (tmp_path / "runs" / "served" / "config.yaml").is_file()
    assert served.key not in "".join(
        file.read_bytes().decode("latin-1") for file in (tmp_path / "runs" / "served").iterdir()
    )
    done = CliRunner().invoke(app, ["runs", "list", "--root", str(tmp_path / "runs")])
    assert "serve" in done.output
    done = CliRunner().invoke(app, ["resume", str(tmp_path / "runs" / "served")])
    assert done.exit_code == 2
    assert "bank distill" in " ".join(done.output.split())
