"""Fetching: whole files or none, from servers that behave and from servers that do not."""

import hashlib
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from skillwright.core import DataError
from skillwright.datasets import FetchError, FetchSettings, cache_dir, fetch_file

BODY = bytes(range(256)) * 4000
SUM = hashlib.sha256(BODY).hexdigest()
AT_ONCE = FetchSettings(pause_s=0, timeout_s=5)


@contextmanager
def server(*answers):
    """Serve `BODY`; each answer is a function of the handler, the last one is repeated."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.headers.get("Range"))
            answers[min(len(asked), len(answers)) - 1](self)

        def log_message(self, *args):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}/file", asked
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def whole(handler, body=BODY):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def broken_off(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(BODY)))
    handler.end_headers()
    handler.wfile.write(BODY[:300_000])


def the_rest(handler):
    start = int(handler.headers["Range"].removeprefix("bytes=").removesuffix("-"))
    if start >= len(BODY):
        handler.send_error(416)
        return
    handler.send_response(206)
    handler.send_header("Content-Length", str(len(BODY) - start))
    handler.end_headers()
    handler.wfile.write(BODY[start:])


def unnumbered(handler):
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(BODY)


def says(code):
    return lambda handler: handler.send_error(code)


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_downloaded_checked_and_kept(tmp_path):
    target = tmp_path / "new" / "file.bin"
    with server(whole) as (url, asked):
        assert fetch_file(url, target, sha256=SUM.upper(), settings=AT_ONCE) == target
        assert target.read_bytes() == BODY
        fetch_file(url, target, sha256=SUM, settings=AT_ONCE)
        assert len(asked) == 1, "what is there already is not asked for again"
        target.write_bytes(b"damaged")
        fetch_file(url, target, sha256=SUM, settings=AT_ONCE)
    assert target.read_bytes() == BODY
    assert left_in(target.parent) == ["file.bin"]


def test_without_a_checksum_it_is_fetched_again(tmp_path):
    with server(lambda handler: whole(handler, b"old"), whole) as (url, _):
        fetch_file(url, tmp_path / "file", settings=AT_ONCE)
        fetch_file(url, tmp_path / "file", settings=AT_ONCE)
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_broken_download_goes_on_where_it_was(tmp_path):
    with server(broken_off, the_rest) as (url, asked):
        fetch_file(url, tmp_path / "file", sha256=SUM, settings=AT_ONCE)
    assert asked == [None, "bytes=300000-"]
    assert (tmp_path / "file").read_bytes() == BODY


def test_the_next_call_goes_on_too(tmp_path):
    once = FetchSettings(attempts=1, pause_s=0)
    with server(broken_off, the_rest) as (url, asked):
        with pytest.raises(FetchError, match=r"broke off after 300,000 of 1,024,000 bytes"):
            fetch_file(url, tmp_path / "file", sha256=SUM, settings=once)
        assert not (tmp_path / "file").exists()
        fetch_file(url, tmp_path / "file", sha256=SUM, settings=once)
    assert asked == [None, "bytes=300000-"]
    assert left_in(tmp_path) == ["file"]


@pytest.mark.parametrize("left", [b"something else", BODY + b"more", BODY])
def test_what_an_earlier_attempt_left_is_never_trusted(tmp_path, left):
    (tmp_path / f".file.{SUM[:16]}.part").write_bytes(left)

    def rest_or_whole(handler):
        (the_rest if handler.headers.get("Range") else whole)(handler)

    with server(rest_or_whole) as (url, _):
        fetch_file(url, tmp_path / "file", sha256=SUM, settings=AT_ONCE)
    assert (tmp_path / "file").read_bytes() == BODY
    assert left_in(tmp_path) == ["file"]


def test_a_server_that_cannot_go_on_starts_anew(tmp_path):
    with server(broken_off, whole) as (url, _):
        fetch_file(url, tmp_path / "file", sha256=SUM, settings=AT_ONCE)
    assert (tmp_path / "file").read_bytes() == BODY


def test_two_halves_without_a_checksum_are_not_joined(tmp_path):
    with server(broken_off, whole) as (url, asked):
        fetch_file(url, tmp_path / "file", settings=AT_ONCE)
    assert asked == [None, None]
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_busy_server_is_asked_again(tmp_path):
    with server(says(503), says(429), unnumbered) as (url, asked):
        fetch_file(url, tmp_path / "file", sha256=SUM, settings=AT_ONCE)
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("answer", "sha256", "told", "asked_times"),
    [
        (says(404), None, "answered 404", 1),
        (says(404), SUM, "answered 404", 1),
        (says(500), None, r"answered 500.*asked 3 times", 3),
        (broken_off, None, r"broke off.*asked 3 times", 3),
        (lambda handler: None, None, r"asked 3 times", 3),
        (whole, "0" * 64, rf"SHA-256 {SUM}, expected 0{{64}}", 1),
    ],
)
def test_what_cannot_be_had_is_told_and_the_old_file_stays(
    tmp_path, answer, sha256, told, asked_times
):
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with server(answer) as (url, asked):
        with pytest.raises(FetchError, match=told) as error:
            fetch_file(url, target, sha256=sha256, instead="Do so.", settings=AT_ONCE)
        assert len(asked) == asked_times
    assert url in str(error.value)
    assert str(error.value).endswith("Do so.")
    assert target.read_bytes() == b"old"
    assert left_in(tmp_path) == ["file"]


@pytest.mark.parametrize("answer", [whole, unnumbered])
def test_a_file_that_is_too_large_is_refused(tmp_path, answer):
    small = FetchSettings(limit_bytes=1000)
    with server(answer) as (url, _), pytest.raises(FetchError, match="larger than 1,000 bytes"):
        fetch_file(url, tmp_path / "file", settings=small)
    assert left_in(tmp_path) == []


def test_nobody_listening_is_told(tmp_path):
    with server(whole) as (url, _):
        pass
    with pytest.raises(FetchError, match=r"refused.*asked 3 times.*Take a copy"):
        fetch_file(url, tmp_path / "file", instead="Take a copy.", settings=AT_ONCE)


def test_a_path_is_copied(tmp_path):
    (tmp_path / "there").write_bytes(BODY)
    fetch_file(tmp_path / "there", tmp_path / "here", sha256=SUM)
    assert (tmp_path / "here").read_bytes() == BODY
    with pytest.raises(FetchError, match="expected 0000"):
        fetch_file(tmp_path / "there", tmp_path / "other", sha256="0" * 64)
    with pytest.raises(FetchError, match="larger than"):
        fetch_file(tmp_path / "there", tmp_path / "other", settings=FetchSettings(limit_bytes=9))
    assert left_in(tmp_path) == ["here", "there"]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("nowhere", "No such file"),
        ("ftp://example.com/x", "only http and https"),
        ("file:///etc/hosts", "only http and https"),
        ("http://:not-a-port/x", "cannot be fetched"),
    ],
)
def test_what_is_no_source_is_refused(tmp_path, source, told):
    with pytest.raises(DataError, match=told):
        fetch_file(source, tmp_path / "file", settings=AT_ONCE)
    assert left_in(tmp_path) == []


def test_the_cache_is_where_the_system_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "skillwright"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "skillwright"
