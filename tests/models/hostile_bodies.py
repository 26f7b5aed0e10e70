"""What a hostile endpoint sends: bodies, and what may are in the places of a proper answer."""

from collections.abc import Mapping
from typing import Any

NO_WORDS: Mapping[str, Any] = {
    "zero": 0,
    "a number": 5,
    "a negative number": -1,
    "a fraction": 1.5,
    "a huge number": 10**30,
    "true": True,
    "false": False,
    "an empty object": {},
    "an object with a text": {"type": "text", "text": "look"},
    "an object in an object": {"a": {"b": []}},
    "a list of numbers": [5],
    "a list of nulls": [None],
    "a list of texts": ["look"],
    "a list of lists": [["look"]],
    "a part whose text is a number": [{"type": "text", "text": 5}],
    "a part whose text is an object": [{"type": "text", "text": {"value": "look"}}],
    "a part whose text is a list": [{"type": "text", "text": ["look"]}],
    "a good part beside a number": [{"type": "text", "text": "look"}, 5],
}
"""What is in the place of the words, and is neither text, null nor parts."""

NO_ENDS: Mapping[str, Any] = {
    "null": None,
    "insufficient_system_resource": "insufficient_system_resource",
    "an empty text": "",
    "a number": 5,
    "true": True,
    "an empty list": [],
    "a list": ["stop"],
    "an object": {"reason": "stop"},
    "blanks": " ",
    "a long text": "x" * 100_000,
    "timeout": "timeout",
    "cancelled": "cancelled",
    "function_call": "function_call",
    "another language": "停止",
    "a control character": "\x1b[2J",
}
"""Why an answer without words ended, none of which is a reason to score it."""

NO_PLACES: Mapping[str, Any] = {
    "null": None,
    "a number": 7,
    "a text": "look",
    "an empty object": {},
    "an empty list": [],
    "a list of nulls": [None],
    "true": True,
}
"""What is in the place of something that holds the answer."""

BROKEN_BODIES: Mapping[str, bytes] = {
    "nothing": b"",
    "blanks": b" \r\n\t ",
    "null": b"null",
    "true": b"true",
    "a number": b"5",
    "a text": b'"look"',
    "an empty list": b"[]",
    "an empty object": b"{}",
    "a list of lists": b"[[[[]]]]",
    "another object": b'{"ok": true}',
    "words": b"Service temporarily unavailable",
    "a task in a queue": b'{"id": "task-1", "status": "queued"}',
    "half an object": b'{"choices": [{"message": {"content": "lo',
    "two objects": b"{}{}",
    "a comma too many": b'{"choices": [],}',
    "NaN": b"NaN",
    "an infinite number": b'{"choices": [1e999]}',
    "single quotes": b"{'choices': []}",
    "no UTF-8": b'\xff\xfe{"choices": []}',
    "UTF-16": '{"choices": []}'.encode("utf-16"),
    "zero bytes": b"\x00" * 1000,
    "XML": b"<?xml version='1.0'?><error>no</error>",
    "YAML": b"choices:\n- message: look\n",
    "Python": b"<Response [200]>",
    "an error": b'{"error": "no"}',
    "an empty error": b'{"error": {}}',
    "an error list": b'{"error": ["no"]}',
    "a detail": b'{"detail": [{"loc": ["body"], "msg": "no"}]}',
    "a message": b'{"message": "no route"}',
    "an error code": b'{"object": "error", "message": "no", "code": 40301}',
    "a thousand brackets": b"[" * 1000 + b"]" * 1000,
    "a million brackets": b"[" * 1_000_000,
    "a number of 100,000 digits": b"9" * 100_000,
    "an escaped half character": b'{"choices": "\\ud83d"}',
}

STREAMS: Mapping[str, bytes] = {
    "nothing": b"",
    "the end alone": b"data: [DONE]\n\n",
    "comments": b": wait\n\n" * 100,
    "no JSON": b"data: look\n\n",
    "half an event": b'data: {"choices": [{"delta": {"content": "lo',
    "numbers": b"data: 5\n\n" * 100,
    "nulls": b"data: null\n\n" * 100,
    "lists": b"data: [[]]\n\n" * 100,
    "empty objects": b"data: {}\n\n" * 100,
    "an error": b'data: {"error": {"message": "no", "code": 500}}\n\n',
    "events of another kind": b'event: ping\ndata: {"type": "ping"}\n\n' * 100,
    "words without an end": b'data: {"choices": [{"index": 0, "delta": {"content": "look"}}]}\n\n',
    "a hundred thousand numbers": b"data: 1\n\n" * 100_000,
    "a hundred thousand objects": b'data: {"a": {}}\n\n' * 100_000,
}

RAW_HTTP: Mapping[str, bytes] = {
    "no HTTP": b"look\r\n\r\n",
    "an empty line": b"\r\n\r\n",
    "an unknown version": b"HTTP/9.9 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n{}",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 9\r\n\r\n{}",
    "a length in words": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}",
    "less than its length": b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
    "a chunk of no size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    "half a chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
    "a header without a colon": b"HTTP/1.1 200 OK\r\nLength\r\n\r\n{}",
    "a header of 100,000 bytes": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n{}",
    "10,000 headers": b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 10_000 + b"\r\n{}",
    "control characters": b"HTTP/1.1 200 O\x00K\r\nX: \x1b[2J\r\n\r\n{}",
}

BIG: Mapping[str, tuple[bytes, bytes, bytes]] = {
    # Each is a beginning, what is repeated until there are 9.9 MB, and an end.
    "blanks": (b"", b" ", b""),
    "one text": (b'"', b"x", b'"'),
    "one wide text": ('"😀'.encode(), b"x", b'"'),
    "wide thoughts": (
        '{"choices": [{"finish_reason": "stop", "message": {"content": "<think>😀'.encode(),
        b"x",
        b'</think> look"}}]}',
    ),
    "empty lists": (b"[", b"[],", b"[]]"),
    "empty objects": (b"[", b"{},", b"{}]"),
    "small objects": (b"[", b'{"a":1},', b"{}]"),
    "small objects of their own": (b"[", b'{"a":{"b":[]}},', b"{}]"),
    "small numbers": (b"[", b"1,", b"1]"),
    "fractions": (b"[", b"0.1,", b"1]"),
    "short texts": (b"[", b'"ab",', b"1]"),
    "nested lists": (b"", b"[", b""),
    "NaNs": (b"[", b"NaN,", b"1]"),
    "Latin-1": (b'"', b"\xe9", b'"'),
    "half characters": (b'"', b"\\ud83d", b'"'),
    "one name again and again": (b"{", b'"a":1,', b'"a":1}'),
}
