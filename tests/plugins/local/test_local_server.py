"""The process behind a local model: started, shared, restarted, and never left behind."""

import asyncio
import importlib.metadata
import json
import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gguf_files import tiny_gguf
from skillwright.core import ConfigError, DataError, ModelRefused, ModelTimeout, Purpose, Sampling
from skillwright.models import ContextOverflow, HttpClient, make_model
from skillwright.models.http.client import encode
from skillwright.models.http.wire import EndpointFault
from skillwright.plugins.local import LocalConfig, prefixes
from skillwright.plugins.local import model as local_model
from skillwright.plugins.local import server as local_server
from skillwright.plugins.local.model import LocalClient
from skillwright.plugins.local.server import LocalServer, Served

FAKE = (sys.executable, str(Path(__file__).parents[2] / "fake_gguf_server.py"))
TIME_S = 60.0
SERVED = Served(path="/weights/tiny.gguf", slots=2, context=8, threads=1)


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A file that passes for weights, and the fake in the place of what would serve it."""
    monkeypatch.setattr(local_server, "PROGRAM", FAKE)
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_gguf())
    return path


@pytest.fixture
def server():
    """A server of the fake program, ended after the test."""
    made = LocalServer(SERVED, FAKE)
    yield made
    made.end()


def is_gone(pid, wait_s=30.0):
    """Wait for the end of a process, whosever child it is."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], wait_s)[0])
    finally:
        os.close(watched)


def pid_of(server):
    """Wait until its process is there."""
    while server.pid is None:
        os.sched_yield()
    return server.pid


def texts_in(folder):
    return {one.read_text(encoding="utf-8") for one in folder.glob("*")}


def remove_all(folder):
    for file in folder.iterdir():
        file.unlink()


async def ask(model, said="hello", system=None, **sampling):
    before = [] if system is None else [{"role": "system", "content": system}]
    answer = await model.complete(
        [*before, {"role": "user", "content": said}],
        sampling=Sampling(**sampling),
        purpose=Purpose.CHECK,
    )
    return json.loads(answer.text)


async def post(client, said, timeout_s=TIME_S):
    body = encode({"messages": [{"role": "user", "content": said}]})
    reply = await client.post_json("", body, headers={}, timeout_s=timeout_s)
    return json.loads(reply.payload["choices"][0]["message"]["content"])


async def test_a_local_model_answers_from_a_process_that_ends_with_the_client(weights):
    config = LocalConfig(model=str(weights), context=16, threads=3, max_concurrent=2)
    async with HttpClient() as client:
        told = await ask(make_model(config, client), seed=5, max_tokens=7)
        assert (told["context"], told["slots"], told["threads"]) == (16, 2, 3)
        assert (told["asked"]["seed"], told["asked"]["max_tokens"]) == (5, 7)
        assert len(told["key"]) > 30
    assert is_gone(told["pid"])


async def test_roles_with_the_same_weights_and_settings_share_one_process(weights):
    first = LocalConfig(model=str(weights), temperature=0.5)
    async with HttpClient() as client, HttpClient() as another:
        pids = {
            (await ask(make_model(first, client)))["pid"],
            (await ask(make_model(first.model_copy(update={"temperature": 0.0}), client)))["pid"],
            (await ask(make_model(first, another)))["pid"],
        }
        assert len(pids) == 1
        other = make_model(first.model_copy(update={"context": 32}), client)
        assert (await ask(other))["pid"] not in pids
        await client.aclose()
        assert (await ask(make_model(first, another)))["pid"] in pids
    assert all(map(is_gone, pids))


async def test_a_prompt_longer_than_the_context_is_an_overflow(weights):
    async with HttpClient() as client:
        model = make_model(LocalConfig(model=str(weights), context=4), client)
        with pytest.raises(ContextOverflow, match="set by context"):
            await ask(model, "one two three four five")
        assert (await ask(model))["context"] == 4


async def test_tokens_cost_nothing_and_extra_fields_are_sent(weights):
    config = LocalConfig(model=str(weights), extra_body={"grammar": 'root ::= "yes"'})
    async with HttpClient() as client:
        model = make_model(config, client)
        assert (await ask(model))["asked"]["grammar"] == 'root ::= "yes"'
        answer = await model.complete(
            [{"role": "user", "content": "a"}], purpose=Purpose.CHECK, sampling=Sampling(seed=1)
        )
        assert answer.usage.cost_usd == 0.0


async def test_a_server_that_dies_in_the_middle_is_a_fault_and_is_started_again(server):
    async with HttpClient() as client:
        local = LocalClient(client, server)
        first = await post(local, "hello")
        with pytest.raises(EndpointFault, match=r"status 7.*the fake was told to die"):
            await post(local, "die")
        again = await post(local, "hello")
        assert again["pid"] != first["pid"]
        assert again["key"] == first["key"]


async def test_a_call_outlives_a_server_that_is_killed(weights):
    async with HttpClient() as client:
        model = make_model(LocalConfig(model=str(weights)), client)
        pid = (await ask(model))["pid"]
        os.kill(pid, signal.SIGKILL)
        assert is_gone(pid)
        assert (await ask(model))["pid"] != pid


async def test_a_server_that_hangs_at_an_answer_is_replaced(server):
    async with HttpClient() as client:
        local = LocalClient(client, server)
        first = await post(local, "hello")
        with pytest.raises(ModelTimeout):
            await post(local, "hang", timeout_s=0.2)
        assert is_gone(first["pid"])
        assert (await post(local, "hello"))["pid"] != first["pid"]


async def test_a_slow_answer_beside_others_ends_nobody(server):
    async with HttpClient() as client:
        local = LocalClient(client, server)
        first = await post(local, "hello")
        slow = asyncio.create_task(post(local, "hang", timeout_s=1.0))
        pids = set()
        while not slow.done():
            pids.add((await post(local, "hello"))["pid"])
        with pytest.raises(ModelTimeout):
            await slow
        assert pids == {first["pid"]} == {server.pid}


async def test_a_prompt_begins_with_its_saved_prefix_whatever_was_asked_before(weights):
    async with HttpClient() as client, HttpClient() as another:
        config = LocalConfig(model=str(weights), context=16, max_concurrent=2)
        model, same = make_model(config, client), make_model(config, another)
        async with asyncio.TaskGroup() as group:  # which compute the same prefix at once
            twice = [group.create_task(ask(one, system="skill A")) for one in (model, same)]
        first = twice[0].result()
        folder = Path(first["prefixes"])
        assert {one.result()["kept"] for one in twice} == {"skill A"}
        assert (await ask(model, system="skill B"))["kept"] == "skill B"
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(ask(one, str(n), system="skill A", seed=n))
                for one in (model, same)
                for n in range(9)
            ]
        told = [task.result() for task in tasks]
        assert {one["kept"] for one in told} == {"skill A"}
        assert {one["asked"]["id_slot"] for one in told} == {0, 1}
        assert texts_in(folder) == {"skill A", "skill B"}
        assert (await ask(model))["asked"]["cache_prompt"] is False
        os.kill(first["pid"], signal.SIGKILL)
        assert is_gone(first["pid"])
        again = await ask(model, system="skill B")
        assert (again["kept"], again["prefixes"]) == ("skill B", str(folder))
    assert not texts_in(folder)


@pytest.mark.parametrize("system", ["odd", "long"])
async def test_a_prompt_whose_prefix_cannot_be_saved_is_computed_whole(weights, system):
    async with HttpClient() as client:
        told = await ask(make_model(LocalConfig(model=str(weights)), client), system=system)
    assert told["asked"]["cache_prompt"] is False


async def test_a_full_disk_is_a_fault_with_its_folder(server):
    body = encode({"messages": [{"role": "system", "content": "full"}]})
    async with HttpClient() as client:
        with pytest.raises(
            EndpointFault, match=r"skillwright-prefixes-.*Unable to save slot.*Is the disk full\?"
        ):
            await LocalClient(client, server).post_json("", body, headers={}, timeout_s=TIME_S)


async def test_a_slot_whose_call_was_cancelled_rests_until_the_server_has_seen_it(
    server, monkeypatch
):
    monkeypatch.setattr(local_model, "_ABANDONED_S", 600.0)
    async with HttpClient() as client:
        local = LocalClient(client, server)
        await post(local, "hello")
        call = asyncio.create_task(post(local, "hang"))
        await asyncio.sleep(0)
        slot = ({0, 1} - {free for _, free in server._free_slots}).pop()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        told = [await post(local, "hello") for _ in range(3)]
        assert {one["asked"]["id_slot"] for one in told} == {1 - slot}
        with pytest.raises(EndpointFault):
            await post(local, "die")
        assert (await post(local, "hello"))["asked"]["id_slot"] == 1 - slot


async def test_a_call_waits_no_longer_than_its_time_for_a_slot(server):
    assert {server.take_slot(), server.take_slot(), server.take_slot()} == {0, 1, None}
    async with HttpClient() as client:
        with pytest.raises(ModelTimeout, match=r"no slot .* was free within 0\.05 s"):
            await post(LocalClient(client, server), "hello", timeout_s=0.05)


async def test_a_server_that_hangs_after_a_prefix_is_replaced_too(server):
    before = {"role": "system", "content": "skill A"}
    body = encode({"messages": [before, {"role": "user", "content": "hang"}]})
    async with HttpClient() as client:
        local = LocalClient(client, server)
        first = await post(local, "hello")
        with pytest.raises(ModelTimeout):
            await local.post_json("", body, headers={}, timeout_s=0.2)
        assert is_gone(first["pid"])


async def test_old_prefixes_make_room_and_are_computed_again(weights, monkeypatch):
    monkeypatch.setattr(prefixes, "MAX_SAVED_BYTES", 15)
    async with HttpClient() as client:
        model = make_model(LocalConfig(model=str(weights)), client)
        for system in ("skill A", "skill B", "skill A", "skill C", "skill B"):
            told = await ask(model, system=system)
            assert told["kept"] == system
        assert texts_in(Path(told["prefixes"])) == {"skill C", "skill B"}
        remove_all(Path(told["prefixes"]))
        assert (await ask(model, system="skill C"))["kept"] == "skill C"


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("error", "no memory for it. Lower context or max_concurrent"),
        ("crash", r"status 3\); the end of its log: GGML_ASSERT\(something\) failed"),
        ("chatter", "JSONDecodeError"),
    ],
)
async def test_a_server_that_cannot_start_ends_the_call_with_its_words(
    weights, monkeypatch, start, said
):
    monkeypatch.setenv("FAKE_START", start)
    async with HttpClient() as client:
        with pytest.raises(ModelRefused, match=said):
            await ask(make_model(LocalConfig(model=str(weights)), client))


async def test_a_server_that_hangs_at_its_start_is_ended(weights, monkeypatch):
    monkeypatch.setenv("FAKE_START", "hang")
    async with HttpClient() as client:
        model = make_model(LocalConfig(model=str(weights), timeout_s=0.2), client)
        with pytest.raises(ModelRefused, match=r"was not ready within 0\.2 s"):
            await ask(model)


async def test_a_client_that_closes_ends_a_server_that_is_still_starting(weights, monkeypatch):
    monkeypatch.setenv("FAKE_START", "hang")
    async with HttpClient() as client:
        call = asyncio.create_task(ask(make_model(LocalConfig(model=str(weights)), client)))
        running = next(iter(local_server._running.values()))
        pid = await asyncio.to_thread(pid_of, running)
    assert is_gone(pid)
    with pytest.raises(ModelRefused, match="was ended while it started"):
        await call


def no_distribution(name):
    raise importlib.metadata.PackageNotFoundError(name)


def test_weights_or_a_library_that_are_missing_are_named(weights, monkeypatch):
    client = HttpClient()
    with pytest.raises(DataError, match="neither a GGUF file nor an installed package"):
        make_model(LocalConfig(model="no-such-weights"), client)
    with pytest.raises(ConfigError, match="supports at most 64 tokens; lower it"):
        make_model(LocalConfig(model=str(weights), context=128), client)
    for version in ("", "2025.12.1"):
        monkeypatch.setattr("skillwright.models.backends._installed", lambda _, v=version: v)
        said = r"'local' needs the package xllamacpp>=2026.10: pip install 'skillwright\[local\]'"
        with pytest.raises(ConfigError, match=said):
            make_model(LocalConfig(model=str(weights)), client)


def base_weights(folder):
    path = folder / "base.gguf"
    path.write_bytes(tiny_gguf().replace(b"tokenizer.chat_template", b"tokenizer.chat_tomplate"))
    return path


def test_weights_without_a_chat_template_are_refused_with_the_file_to_write(tmp_path):
    path = base_weights(tmp_path)
    with pytest.raises(ConfigError, match="no chat template") as refused:
        make_model(LocalConfig(model=str(path)), HttpClient())
    assert str(tmp_path / "base.jinja") in str(refused.value)
    assert "system: merge" in str(refused.value)


async def test_a_template_file_next_to_the_weights_is_what_the_server_is_given(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(local_server, "PROGRAM", FAKE)
    path = base_weights(tmp_path)
    config = LocalConfig(model=str(path))
    before = config.what_matters()
    template = "{%- generation -%}{{ messages[-1].content }}{% endgeneration %}"
    (tmp_path / "base.jinja").write_text(template, encoding="utf-8")
    assert config.what_matters() != before
    async with HttpClient() as client:
        said = await ask(make_model(config, client))
    assert said["template"] == template


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"You are a clerk.", "does not read messages"),
        (b"{% for one in messages %}", "line 1"),
        (b"{{ messages | nosuch }}", "No filter named 'nosuch'"),
        (b"{{ messages" + b"[" * 3_000 + b"0" + b"]" * 3_000 + b" }}", "cannot be read"),
    ],
)
def test_a_template_file_that_cannot_be_one_is_refused_by_name(tmp_path, content, said):
    path = base_weights(tmp_path)
    (tmp_path / "base.jinja").write_bytes(content)
    with pytest.raises(DataError, match=rf"base\.jinja.*{said}"):
        make_model(LocalConfig(model=str(path)), HttpClient())


def test_other_weights_under_the_same_name_are_another_model(tmp_path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny_gguf())
    before = LocalConfig(model=str(path)).what_matters()
    assert LocalConfig(model=str(path), threads=7, timeout_s=9).what_matters() == before
    path.write_bytes(tiny_gguf()[:-1] + b"\1")
    assert LocalConfig(model=str(path)).what_matters() != before


def test_the_address_of_another_server_is_refused():
    with pytest.raises(ValueError, match="use backend 'openai_chat' with its base_url"):
        LocalConfig(model="a", base_url="http://127.0.0.1:8080/v1")


def test_fields_that_are_set_here_are_refused():
    with pytest.raises(ValueError, match="extra_body has id_slot"):
        LocalConfig(model="a", extra_body={"id_slot": 1})


def test_settings_can_be_written_and_read_again():
    config = LocalConfig(model="some weights.gguf", context=9)
    assert LocalConfig.model_validate(config.model_dump(mode="json")) == config


# What serves: the real program, over a stand-in for the library.

_STUB = """
    import os, signal, sys
    class CommonParams:
        def __init__(self):
            self.model = self.cpuparams = self.cpuparams_batch = type("Part", (), {})()
    class Server:
        def __init__(self, params):
            print("the library prints what it likes")
            assert (params.hostnames, params.port) == (["127.0.0.1"], 0)
            assert (params.n_ctx, params.n_parallel, params.cache_prompt) == (16, 2, False)
            open(os.environ["TELL"], "w").close()
            if os.environ["LOADS"] == "for ever":
                3 ** (1 << 40)  # no other thread of Python runs meanwhile
            self.listening_address = "http://127.0.0.1:1"
"""
_PARENT = """
    import os, sys, threading
    from skillwright.plugins.local.server import LocalServer, Served
    server = LocalServer(Served("/weights/tiny.gguf", 2, 8, 1))
    threading.Thread(target=server.address, args=(600,), daemon=True).start()
    while server.pid is None: pass
    if sys.argv[1] == "is forked":
        server.address(600)
        if os.fork() == 0:  # which holds the pipe open
            sys.stdin.read()
            os._exit(0)
    print(server.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("loads", "parent_does"),
    [("for ever", "nothing"), ("at once", "nothing"), ("at once", "is forked")],
)
def test_the_server_does_not_outlive_a_parent_that_is_killed(tmp_path, loads, parent_does):
    (tmp_path / "xllamacpp.py").write_text(textwrap.dedent(_STUB), encoding="utf-8")
    loading = tmp_path / "loading"
    os.mkfifo(loading)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)]),
        "TELL": str(loading),
        "LOADS": loads,
    }
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_PARENT), parent_does],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as parent:
        loading.read_text(encoding="utf-8")  # waits until the server is that far
        pid = int(parent.stdout.readline())
        parent.kill()
        assert is_gone(pid)
