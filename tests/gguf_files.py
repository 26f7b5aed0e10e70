"""Small GGUF files for tests."""

import struct


def _string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def tiny_gguf(values=8, *, version=3, kind=0, template="{{ messages }}"):
    """A GGUF with one tensor of float32, as bytes."""
    keys = [
        _string("general.architecture") + struct.pack("<I", 8) + _string("llama"),
        _string("llama.context_length") + struct.pack("<II", 4, 64),
        _string("tokenizer.chat_template") + struct.pack("<I", 8) + _string(template),
        _string("words") + struct.pack("<IIQ", 9, 8, 2) + _string("one") + _string("two"),
        _string("numbers") + struct.pack("<IIQ", 9, 4, 2) + struct.pack("<II", 1, 2),
    ]
    head = b"GGUF" + struct.pack("<IQQ", version, 1, len(keys)) + b"".join(keys)
    head += _string("weight") + struct.pack("<IQIQ", 1, values, kind, 0)
    head += bytes(-len(head) % 32)
    return head + bytes(4 * values)
