"""Skills over MCP: clients of the package `mcp`, and clients that send or do anything else."""

import asyncio
import gzip
import hashlib
import io
import json
import os
import re
import sys
import threading
from base64 import b64decode
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from unicodedata import normalize
from urllib.parse import unquote

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from typer.testing import CliRunner

from doors import ALL_RULES, Coach, Walker, doors_config, trained
from skill_folders import FOLDERS, write_folder
from skillwright.cli.app import app
from skillwright.config.bank import BankSection
from skillwright.core.loopback import bound_socket
from skillwright.models.http.client import encode
from skillwright.plugins.serve.front import Reply
from skillwright.plugins.serve.mcp_transport import serve_lines, serving_http
from skillwright.plugins.serve.skill_catalog import Catalog, catalog_of
from skillwright.plugins.serve.skills_mcp import MOST_REQUEST_BYTES, SkillsServer

EXTENSION = "io.modelcontextprotocol/skills"
KEY = "a-key-of-this-test"
MARK = "skillwright/evidence"


@pytest.fixture
def skills(tmp_path):
    """Two good skills, one of them with binary files and scripts, one in a folder of a team."""
    write_folder(tmp_path / "skills", "scripts")
    write_folder(tmp_path / "skills" / "team", "plain")
    return tmp_path / "skills"


def message(method, request_id=1, **params):
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def server_of(folder):
    return SkillsServer(Catalog(folder.resolve(), "skills"))


async def ask(server, method, **params):
    return await server.answer(encode(message(method, **params)))


async def result(server, method, **params):
    return (await ask(server, method, **params))["result"]


async def error(server, method, **params):
    return (await ask(server, method, **params))["error"]


def words(folder):
    return [sys.executable, "-m", "skillwright", "serve", "--mcp", str(folder)]


@asynccontextmanager
async def stdio_session(folder):
    mcp = pytest.importorskip("mcp", reason="mcp is not installed (the extra 'mcp')")
    from mcp.client.stdio import stdio_client

    program, *arguments = words(folder)
    started = mcp.StdioServerParameters(command=program, args=arguments, env=dict(os.environ))
    async with (
        stdio_client(started) as streams,
        mcp.ClientSession(streams[0], streams[1]) as session,
    ):
        yield session, await session.initialize()


@asynccontextmanager
async def http(server, silent_s=10.0):
    with bound_socket(0) as bound:
        async with serving_http(server, bound, KEY, silent_s, most=8):
            yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"


def dumped(one):
    return one.model_dump(mode="json", by_alias=True)


async def check_session(session, begun):
    """Read everything that a server of the fixture offers, and compare it with the files."""
    capabilities = dumped(begun)["capabilities"]
    assert capabilities["extensions"] == {EXTENSION: {"directoryRead": True}}
    listed = dumped(await session.list_resources())["resources"]
    known = {one["uri"]: one for one in listed}
    assert "skill://team/plain/SKILL.md" in known
    assert known["skill://scripts/SKILL.md"]["name"] == "scripts"
    assert known["skill://scripts/SKILL.md"]["_meta"][MARK]["status"] == "unproven"
    for uri in known:
        (content,) = dumped(await session.read_resource(uri))["contents"]
        raw = content["text"].encode() if content.get("text") else b64decode(content["blob"])
        folder, _, path = uri.removeprefix("skill://").removeprefix("team/").partition("/")
        written = FOLDERS[folder][path]
        assert raw == (written.encode() if isinstance(written, str) else written)
    with pytest.raises(Exception, match="no file is served at skill://scripts/x"):
        await session.read_resource("skill://scripts/x")
    assert [one["name"] for one in dumped(await session.list_tools())["tools"]] == [
        "find_skill",
        "read_skill",
    ]
    found = dumped(await session.call_tool("find_skill", {"query": "a locked door"}))
    uris = [one["uri"] for one in found["structuredContent"]["skills"]]
    assert sorted(uris) == ["skill://scripts/SKILL.md", "skill://team/plain/SKILL.md"]
    read = dumped(await session.call_tool("read_skill", {"uri": uris[0]}))
    assert read["content"][0]["text"].startswith("---\nname:")
    wrong = dumped(await session.call_tool("read_skill", {"uri": "skill://scripts/SKIL.md"}))
    assert wrong["isError"]
    assert "Did you mean 'skill://scripts/SKILL.md'?" in wrong["content"][0]["text"]


@pytest.mark.heavy  # it starts a process
async def test_the_mcp_packages_client_reads_all_skills_by_stdio(skills):
    async with stdio_session(skills) as (session, begun):
        await check_session(session, begun)


async def test_the_mcp_packages_client_reads_all_skills_by_streamable_http(skills):
    mcp = pytest.importorskip("mcp", reason="mcp is not installed (the extra 'mcp')")
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    headers = {"Authorization": f"Bearer {KEY}"}
    async with (
        http(server_of(skills)) as url,
        create_mcp_http_client(headers=headers) as client,
        streamable_http_client(url, http_client=client) as streams,
        mcp.ClientSession(streams[0], streams[1]) as session,
    ):
        await check_session(session, await session.initialize())


async def test_any_name_is_percent_encoded_and_read_back_by_the_mcp_packages_client(tmp_path):
    mcp = pytest.importorskip("mcp", reason="mcp is not installed (the extra 'mcp')")
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    places = ("café", "Team B/日本語", "a%2Fb/x", "[::1]/v", "we?rd#/y", "u@h:80/w", "Mixed/z")
    for place in places:
        folder = tmp_path / normalize("NFD", place)
        folder.mkdir(parents=True)
        name = place.rpartition("/")[2]
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: D.\n---\n{place}\n")
    (tmp_path / "Mixed" / "z" / "ä b.txt").write_text("beside")
    async with (
        http(server_of(tmp_path)) as url,
        create_mcp_http_client(headers={"Authorization": f"Bearer {KEY}"}) as client,
        streamable_http_client(url, http_client=client) as streams,
        mcp.ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        read = {}
        for one in dumped(await session.list_resources())["resources"]:
            (content,) = dumped(await session.read_resource(one["uri"]))["contents"]
            assert re.fullmatch(r"skill://[\w.~%-]+(/[\w.~%-]+)*", one["uri"], re.ASCII)
            read[unquote(one["uri"])] = content["text"].splitlines()[-1]
        decoded = dumped(await session.read_resource("skill://café/SKILL.md"))["contents"]
        assert decoded[0]["uri"] == "skill://caf%C3%A9/SKILL.md"
        with pytest.raises(Exception, match=r"Did you mean 'skill://caf%C3%A9/SKILL\.md'"):
            await session.read_resource("skill://café/SKIL.md")
    assert read.pop("skill://Mixed/z/ä b.txt") == "beside"
    assert read == {f"skill://{place}/SKILL.md": place for place in places}


async def test_each_entry_lists_all_files_with_their_digests_and_its_own_frontmatter(skills):
    server = server_of(skills)
    listed = (await result(server, "skills/list"))["skills"]
    assert [one["uri"] for one in listed] == [
        "skill://scripts/SKILL.md",
        "skill://team/plain/SKILL.md",
    ]
    for one in listed:
        got = await result(server, "skills/get", uri=one["uri"])
        assert got["skill"] == one
        assert (got["resultType"], got["cacheScope"]) == ("complete", "private")
        for file in one["resources"]:
            (content,) = (await result(server, "resources/read", uri=file["uri"]))["contents"]
            raw = content["text"].encode() if "text" in content else b64decode(content["blob"])
            assert f"sha256:{hashlib.sha256(raw).hexdigest()}" == file["digest"]
            assert len(raw) == file["size"]
    assert listed[0]["frontmatter"]["allowed-tools"] == "Bash(python:*) Read"
    assert len(listed[0]["resources"]) == len(FOLDERS["scripts"])
    children = (await result(server, "resources/directory/read", uri="skill://scripts"))[
        "resources"
    ]
    kinds = {one["uri"]: one["mimeType"] for one in children}
    assert kinds["skill://scripts/scripts"] == "inode/directory"
    assert kinds["skill://scripts/SKILL.md"] == "text/markdown"


async def test_frontmatter_is_read_as_yaml_1_2_as_hosts_read_it(tmp_path):
    folder = tmp_path / "dated"
    folder.mkdir()
    (folder / "SKILL.md").write_text(
        "---\nname: dated\ndescription: Dates.\nmetadata:\n  made: 2026-09-13\n  is: yes\n"
        "  at: 12:30\n  n: 3\n  x: 1.50\n  ok: true\n  none:\n---\nBody.\n"
    )
    (entry,) = (await result(server_of(tmp_path), "skills/list"))["skills"]
    assert entry["frontmatter"]["metadata"] == {
        "made": "2026-09-13",
        "is": "yes",
        "at": "12:30",
        "n": 3,
        "x": 1.5,
        "ok": True,
        "none": None,
    }


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"garbage", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"[" * 100_000, -32700),
        (b"{" + b'"a":{' * 50_000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b"3", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"prompts/list"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"skills/get","params":{"uri":7}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"skills/list","params":{"cursor":"x"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find_skill",'
         b'"arguments":[1]}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":'
         b'{"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01"}}}', -32022),
        (b"x" * (MOST_REQUEST_BYTES + 5), -32600),
    ],
)  # fmt: skip
def test_a_wrong_message_gets_an_error_and_the_next_one_its_answer(skills, raw, code):
    replies = io.BytesIO()
    sent = raw + b'\n{"jsonrpc":"2.0","id":"next","method":"ping"}\n'
    serve_lines(server_of(skills), io.BytesIO(sent), replies)
    refused, answered = [json.loads(line) for line in replies.getvalue().splitlines()]
    assert refused["error"]["code"] == code
    assert refused["error"]["message"]
    assert answered["id"] == "next"


def test_notifications_answers_and_blank_lines_get_no_reply(skills):
    replies = io.BytesIO()
    sent = (
        b'\n\r\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    )
    serve_lines(server_of(skills), io.BytesIO(sent), replies)
    assert replies.getvalue() == b""


@pytest.mark.parametrize("limit", [0, 21, True, "5", 1.5])
async def test_a_tool_says_what_is_wrong_with_its_arguments(skills, limit):
    found = await result(
        server_of(skills),
        "tools/call",
        name="find_skill",
        arguments={"query": "x", "limit": limit},
    )
    assert found["isError"]
    assert "from 1 to 20" in found["content"][0]["text"]


@pytest.mark.parametrize(
    "uri",
    [
        "skill://scripts/../team/plain/SKILL.md",
        "skill://scripts/../../secret.txt",
        "skill://scripts/..%2f..%2fsecret.txt",
        "skill://../secret.txt",
        "skill:///etc/passwd",
        "file:///etc/passwd",
        "/etc/passwd",
        "skill://scripts",
        "skill://scripts/.hidden",
        "SKILL://scripts/SKILL.md\x00",
    ],
)
async def test_only_offered_files_are_read_whatever_the_uri(skills, uri):
    (skills.parent / "secret.txt").write_text("secret")
    (skills / "scripts" / ".hidden").write_text("secret")
    server = server_of(skills)
    found = await error(server, "resources/read", uri=uri)
    assert found["code"] == -32602
    assert (await error(server, "skills/get", uri=uri))["code"] == -32602


@pytest.mark.parametrize("uri", ["skill://", "skill:///", "skill://scripts/SKILL.md", "", "x"])
async def test_what_is_no_directory_is_refused(skills, uri):
    assert (await error(server_of(skills), "resources/directory/read", uri=uri))["code"] == -32602


async def test_a_skill_that_cannot_be_offered_whole_is_left_out_with_the_reason(skills, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "outside").mkdir()
    for name in ("linked", "linked-folder", "piped", "large", "many", "numbered", "digits"):
        folder = skills / name
        folder.mkdir()
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: A skill.\n---\nBody.\n")
    (skills / "linked" / "notes.md").symlink_to(tmp_path / "secret.txt")
    (skills / "linked-folder" / "inner").symlink_to(tmp_path / "outside")
    os.mkfifo(skills / "piped" / "pipe")
    with (skills / "large" / "data.bin").open("wb") as file:
        file.truncate(17 * 2**20)
    for at in range(512):
        (skills / "many" / f"{at}.txt").touch()
    (skills / "numbered" / "SKILL.md").write_text("---\nname: numbered\ndescription: 7\n---\nB\n")
    (skills / "digits" / "SKILL.md").write_text(
        f"---\nname: digits\ndescription: D.\nmetadata:\n  n: {'7' * 5_000}\n---\nB\n"
    )
    items = "".join(f"  k{at}: [x]\n" for at in range(900))
    (skills / "bracketed").mkdir()
    (skills / "bracketed" / "SKILL.md").write_text(
        f"---\nname: bracketed\ndescription: D.\nmetadata:\n{items}---\nB\n"
    )
    write_folder(skills, "another-name")
    server = server_of(skills)
    listed = await result(server, "skills/list")
    assert len(listed["skills"]) == 2
    left_out = listed["_meta"]["skillwright/left_out"]
    for name, why in {
        "linked": "link that leaves",
        "linked-folder": "link that leaves",
        "piped": "is no file",
        "large": "more than 16,777,216 bytes",
        "many": "more than 512 files",
        "numbered": "put it in quotes",
        "digits": "cannot read its frontmatter",
        "another-name": "not the folder's name",
    }.items():
        assert why in left_out[name]
    assert left_out["bracketed"].count("brackets and braces are refused") == 5
    found = await result(server, "tools/call", name="find_skill", arguments={"query": "x"})
    assert set(found["structuredContent"]["left_out"]) == set(left_out)
    assert (await error(server, "resources/read", uri="skill://linked/SKILL.md"))["code"] == -32602


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
@pytest.mark.parametrize("name", [b"caf\xe9/x/SKILL.md", b"x/caf\xe9.txt"])
async def test_a_skill_with_a_name_that_no_uri_has_is_left_out(tmp_path, name):
    for path in (tmp_path / "x" / "SKILL.md", tmp_path / os.fsdecode(name)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("---\nname: x\ndescription: A skill.\n---\nBody.\n")
    listed = await result(server_of(tmp_path), "skills/list")
    (why,) = listed["_meta"]["skillwright/left_out"].values()
    assert r"caf\udce9" in why
    assert "is not UTF-8; rename it" in why


async def test_a_skill_that_changes_meanwhile_gets_a_new_digest_and_its_new_bytes(skills):
    server = server_of(skills)
    uri = "skill://scripts/SKILL.md"
    before = (await result(server, "skills/get", uri=uri))["skill"]["resources"]
    file = skills / "scripts" / "SKILL.md"
    file.write_text(file.read_text() + "One more line.\n")
    (skills / "scripts" / "new.md").write_text("New.\n")
    after = (await result(server, "skills/get", uri=uri))["skill"]["resources"]
    assert len(after) == len(before) + 1
    (content,) = (await result(server, "resources/read", uri=uri))["contents"]
    assert content["text"].endswith("One more line.\n")
    digest = hashlib.sha256(content["text"].encode()).hexdigest()
    assert {"uri": uri, "digest": f"sha256:{digest}", "size": len(content["text"])} in after
    file.unlink()
    assert "no skill is served" in (await error(server, "skills/get", uri=uri))["message"]


async def test_long_lists_come_in_pages(tmp_path):
    for at in range(250):
        folder = tmp_path / f"s{at}"
        folder.mkdir()
        (folder / "SKILL.md").write_text(f"---\nname: s{at}\ndescription: Skill.\n---\nBody.\n")
    server = server_of(tmp_path)
    first = await result(server, "skills/list")
    second = await result(server, "skills/list", cursor=first["nextCursor"])
    assert (len(first["skills"]), len(second["skills"])) == (200, 50)
    assert "nextCursor" not in second


async def test_proven_signed_refuted_and_unproven_skills_are_marked(tmp_path):
    run, _ = await trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES]]))
    key = ed25519.Ed25519PrivateKey.from_private_bytes(b"1" * 32)
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (tmp_path / "key.pem").write_bytes(key.private_bytes(*pem, serialization.NoEncryption()))
    place = tmp_path / "out"
    for name, more in (("signed", ["--sign", str(tmp_path / "key.pem")]), ("bare", [])):
        wanted = ["skill", "export", str(run), "--output", str(place), "--name", name, *more]
        done = await asyncio.to_thread(CliRunner().invoke, app, wanted)
        assert done.exit_code == 0, done.output
    write_folder(place, "plain")
    server = server_of(place)
    marks = (await result(server, "skills/list"))["_meta"][MARK]
    shown = {uri: (one["status"], one["signed"]) for uri, one in marks.items()}
    assert shown == {
        "skill://bare/SKILL.md": ("proven", False),
        "skill://plain/SKILL.md": ("unproven", False),
        "skill://signed/SKILL.md": ("proven", True),
    }
    file = place / "signed" / "SKILL.md"
    file.write_text(file.read_text().replace("door 4", "door 3"))
    found = await result(server, "skills/get", uri="skill://signed/SKILL.md")
    mark = found["_meta"][MARK]["skill://signed/SKILL.md"]
    assert (mark["status"], mark["signed"]) == ("refuted", False)
    assert any("changed" in one for one in mark["checks"])


def test_a_run_and_a_bank_are_offered_as_their_exports(tmp_path):
    run, _ = asyncio.run(trained(doors_config(tmp_path), Walker(), Coach([[ALL_RULES]])))
    with catalog_of(str(run), tmp_path, "", BankSection()) as (catalog, rules):
        (skill,) = asyncio.run(catalog.skills())
        assert skill.mark.status == "proven"
        assert rules is None
    with catalog_of("seed:alfworld", tmp_path, "alfworld", BankSection()) as (catalog, rules):
        server = SkillsServer(catalog, rules)
        wanted = {"name": "find_skill", "arguments": {"query": "heat an egg", "limit": 20}}
        found = asyncio.run(result(server, "tools/call", **wanted))["structuredContent"]
        assert found["skills"][0]["evidence"]["status"] == "unproven"
        assert any("heat" in one["principle"].lower() for one in found["rules"])
        assert {"episodes", "solved", "origin"} <= found["rules"][0].keys()
        folder = catalog.folder
    assert not folder.exists()


async def test_http_refuses_strangers_and_other_methods(skills):
    async with http(server_of(skills)) as url, aiohttp.ClientSession() as session:
        key = {"Authorization": f"Bearer {KEY}"}
        ping, large = message("ping"), io.BytesIO(b"x" * (MOST_REQUEST_BYTES + 1))
        for status, headers in (
            (401, {}),
            (401, {"Authorization": "Bearer wrong"}),
            (403, {**key, "Origin": "https://evil.example"}),
            (403, {**key, "Host": "evil.example"}),
            (400, {**key, "MCP-Protocol-Version": "1999-01-01"}),
            (400, {**key, "Mcp-Method": "tools/list"}),
            (400, {**key, "Mcp-Method": "ping", "Mcp-Name": "find_skill"}),
            (400, {**key, "Mcp-Name": "=?base64?!?="}),
            (200, {**key, "Origin": "http://localhost:6274", "Mcp-Method": "ping"}),
        ):
            async with session.post(url, json=ping, headers=headers) as answer:
                assert answer.status == status
                assert ("error" in await answer.json()) == (status != 200)
        async with session.get(url, headers=key) as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        async with session.post(f"{url}/x", json=ping, headers=key) as answer:
            assert answer.status == 404
        async with session.post(url, data=b"{", headers=key) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (400, -32700)
        async with session.post(url, data=large, headers=key) as answer:
            assert answer.status == 413
        told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        async with session.post(url, json=told, headers=key) as answer:
            assert (answer.status, await answer.read()) == (202, b"")


PING = encode(message("ping"))


def posted(extra="", body=PING, length=None):
    size = len(body) if length is None else length
    return (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
        f"{extra}Content-Length: {size}\r\n\r\n"
    ).encode() + body


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (posted("Content-Encoding: gzip\r\n"), 415),
        (posted("Content-Encoding: gzip\r\n", gzip.compress(PING, mtime=0)), 415),
        (posted("Content-Encoding: br\r\n"), 415),
        (posted("Content-Encoding: zstd\r\n"), 415),
        (posted("Content-Encoding: nonsense\r\n"), 415),
        (posted("Transfer-Encoding: gzip\r\n"), 400),
        (posted("Transfer-Encoding: chunked\r\n"), 400),
        (posted(length=-5), 400),
        (posted(length=2**40), 413),
        (posted(f"X: {'a' * 9_000}\r\n"), 400),
        (posted(body=b"\xff\xfe"), 400),
        (posted().replace(b"Content-Length: ", b"Transfer-Encoding: chunked\r\nX-Was: "), 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"garbage\r\n\r\n", 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n\r\n\r\n', 400),
        (posted(length=len(PING) + 5), None),  # it leaves before its body is complete
        (b"POST /mcp HTTP/1.1\r\nHost:", None),
        (b"", None),
    ],
)  # fmt: skip
async def test_what_is_no_request_gets_a_json_error_and_no_traceback(skills, sent, status, caplog):
    async with http(server_of(skills)) as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        if status is not None:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split()[0])
            body = json.loads(await reader.readexactly(length))
            assert int(head.split()[1]) == status
            assert body["error"]["message"]
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        headers = {"Authorization": f"Bearer {KEY}", "Content-Encoding": "identity"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json=message("ping"), headers=headers) as answer,
        ):
            assert answer.status == 200
    assert not caplog.records


async def test_a_client_that_never_reads_is_dropped_and_others_are_answered(skills, monkeypatch):
    dropped, cut = asyncio.Event(), Reply.cut
    monkeypatch.setattr(Reply, "cut", lambda reply: (dropped.set(), cut(reply)))
    (skills / "scripts" / "assets" / "big.bin").write_bytes(b"\xff" * (12 * 2**20))
    async with http(server_of(skills), silent_s=0.2) as url:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(url.rpartition(":")[2].partition("/")[0]), limit=1_024
        )
        wanted = encode(message("resources/read", uri="skill://scripts/assets/big.bin"))
        writer.write(
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Length: {len(wanted)}\r\n\r\n".encode()
            + wanted
        )
        await writer.drain()
        async with aiohttp.ClientSession() as session:
            headers = {"Authorization": f"Bearer {KEY}"}
            async with session.post(url, json=message("ping"), headers=headers) as answer:
                assert answer.status == 200
        await dropped.wait()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(13 * 2**20)
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


def test_a_client_that_leaves_before_its_answer_ends_the_server(skills):
    """Its end of the pipe is closed, as after a crash."""
    reading, writing = os.pipe()
    os.close(reading)
    lines = io.BytesIO(b'{"jsonrpc":"2.0","id":1,"method":"skills/list"}\n' * 3)
    replies = SimpleNamespace(write=lambda data: os.write(writing, data), flush=lambda: None)
    thread = threading.Thread(target=serve_lines, args=(server_of(skills), lines, replies))
    thread.start()
    thread.join(10)
    os.close(writing)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "name what is offered"),
        (["skills", "--upstream", "http://127.0.0.1:9/v1"], "leave --upstream out"),
        (["skills", "--record", "x"], "leave --record out"),
        (
            ["skills", "--record", "served", "--max-concurrent", "4"],
            "--record and --max-concurrent",
        ),
        (["skills", "--no-record"], "leave --no-record out"),
        (["empty", "--host", "0.0.0.0"], "add --port"),
        (["empty", "--key-env", "KEY"], "add --port"),
        (["skils"], "no folder of skills, bank or run"),
        (["empty"], "holds no SKILL.md"),
        (["seed:nothing"], "nothing"),
        (["data.csv"], "data.csv"),
    ],
)
def test_what_cannot_be_offered_is_refused_with_2(given, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "data.csv").write_text("a,b\n")
    done = CliRunner().invoke(app, ["serve", "--mcp", *given], env={"COLUMNS": "400"})
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
    assert "Traceback" not in done.output
