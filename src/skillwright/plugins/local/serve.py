"""The server process of one GGUF file, started by `LocalServer`.

It imports nothing of Skillwright. It reads one line of JSON from standard input, which the parent
then holds open, and prints one line: its address, or an error.
"""

import json
import os
import select
import shutil
import signal
from contextlib import suppress
from typing import Any

_LOOKS_AGAIN_S = 1.0
_QUIET = 2  # llama.cpp: warnings and errors


def main() -> None:
    """Serve until standard input is closed, or the parent process is gone."""
    with open(0, "rb", buffering=0, closefd=False) as given:
        settings = json.loads(given.readline())
    _end_with_standard_input()
    # The library's output goes to the log; this channel carries only the answer.
    answers = os.dup(1)
    os.dup2(2, 1)
    try:
        server = _serve(settings)
        with suppress(AttributeError):
            signal.signal(
                signal.SIGIO, signal.SIG_IGN
            )  # from here on Python sees it, and tidies up
        said = {"address": server.listening_address}
    except Exception as error:  # noqa: BLE001 - reported to the parent
        said = {"error": f"{type(error).__name__}: {error}"}
    os.write(answers, json.dumps(said).encode() + b"\n")
    while "address" in said and not _is_orphaned(settings["parent"], _LOOKS_AGAIN_S):
        pass
    shutil.rmtree(settings["prefixes"], ignore_errors=True)
    os._exit(0)  # without the library's own shutdown, which waits for answers that no client reads


def _serve(settings: dict[str, Any]) -> Any:
    """Load the weights; the server answers as soon as it is made."""
    import xllamacpp  # type: ignore[import-untyped]  # it ships no types

    given = xllamacpp.CommonParams()
    given.model.path = settings["path"]
    given.model_alias = {os.path.basename(settings["path"])}  # noqa: PTH119 - nothing more is needed
    given.hostnames = ["127.0.0.1"]
    given.port = 0  # the system chooses one that is free
    given.api_keys = [settings["key"]]
    if settings["template"] is not None:
        given.chat_template = settings["template"]
    given.n_parallel = settings["slots"]
    given.n_ctx = settings["context"] * settings["slots"]
    for cpu in (given.cpuparams, given.cpuparams_batch):
        cpu.n_threads = settings["threads"]
    # No cache between prompts, which would change answers: prefixes are saved on request only.
    given.slot_save_path = os.path.join(settings["prefixes"], "")  # noqa: PTH118
    given.cache_prompt = False
    given.cache_ram_mib = given.n_ctx_checkpoints = 0
    given.verbosity = _QUIET
    given.warmup = given.ui = given.endpoint_slots = False
    return xllamacpp.Server(given)


def _end_with_standard_input() -> None:
    """Let the kernel end this process when standard input closes.

    A signal works also while weights are loaded, when no Python code runs.
    """
    with suppress(ImportError, AttributeError, OSError):  # elsewhere than on Unix: seen once loaded
        import fcntl

        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)


def _is_orphaned(parent: int, wait_s: float) -> bool:
    """Return whether the parent process is gone; wait up to ``wait_s``.

    A sibling process may hold the pipe open after the parent's death.
    """
    readable, _, _ = select.select([0], [], [], wait_s)
    return bool(readable) or os.getppid() != parent


if __name__ == "__main__":
    main()
