"""A program that stands where `skillwright.plugins.local.serve` does, without weights.

It reads and says what that one does. What it is asked decides how it behaves: "die" ends the
process in the middle, "hang" is never answered; anything else is answered with its process, its key
and its settings, and with what its slot held ("kept"). A system message "odd" has no template,
"long" is too long, "full" finds no room on the disk. ``FAKE_START`` lets it fail before that:
"error", "crash", "hang" or "chatter".
"""

import json
import os
import select
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

STATUS_OF_DEATH = 7


class Chat(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        settings = self.server.settings
        if self.headers.get("Authorization") != f"Bearer {settings['key']}":
            self._send(401, {"error": {"message": "Invalid API Key", "code": 401}})
            return
        if not self.path.startswith("/v1/"):
            self._prepare(body)
            return
        said = body["messages"][-1]["content"]
        if said == "die":
            sys.stderr.write("the fake was told to die\n")
            sys.stderr.flush()
            os._exit(STATUS_OF_DEATH)
        if said == "hang":
            threading.Event().wait()
        words = len(said.split())
        if words > settings["context"]:
            told = f"request ({words} tokens) exceeds the available context size"
            error = {"code": 400, "message": told, "type": "exceed_context_size_error"}
            self._send(400, {"error": error})
            return
        restored = body.get("cache_prompt")  # what `serve` passes on says nothing of slots
        kept = self.server.slots.pop(body["id_slot"], None) if restored else None
        told = {"pid": os.getpid(), "asked": body, "kept": kept, **settings}
        message = {"role": "assistant", "content": json.dumps(told)}
        usage = {"prompt_tokens": words, "completion_tokens": 1}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        self._send(200, {"choices": choices, "model": "fake", "usage": usage})

    def _prepare(self, body):
        """Do what llama.cpp does with templates, prompts without an answer, and slots."""
        slots, (route, _, action) = self.server.slots, self.path.partition("?action=")
        if route == "/apply-template":
            texts = [one["content"] for one in body["messages"]]
            self._send(200, {"prompt": "none" if "odd" in texts else "".join(texts)})
            return
        if route == "/completion":
            if body["prompt"] == "long":
                self._send(400, {"error": {"message": "too long", "code": 400}})
                return
            slots[body["id_slot"]] = body["prompt"]
            self._send(200, {"content": ""})
            return
        slot = int(route.rpartition("/")[2])
        file = Path(self.server.settings["prefixes"], body["filename"])
        if action == "save" and slots[slot] == "full":
            self._send(500, {"error": {"message": "Unable to save slot", "code": 500}})
        elif action == "save":
            file.write_text(slots[slot], encoding="utf-8")
            self._send(200, {"n_written": file.stat().st_size})
        elif file.exists():
            slots[slot] = file.read_text(encoding="utf-8")
            self._send(200, {"n_restored": 1})
        else:
            self._send(400, {"error": {"message": "Unable to restore slot", "code": 400}})

    def _send(self, status, payload):
        body = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def say(told):
    os.write(1, json.dumps(told).encode() + b"\n")


def main():
    settings = json.loads(sys.stdin.readline())
    match os.environ.get("FAKE_START"):
        case "error":
            say({"error": "RuntimeError: no memory for it"})
            return
        case "crash":
            sys.stderr.write("GGML_ASSERT(something) failed\n")
            sys.exit(3)
        case "hang":
            sys.stdin.read()
            return
        case "chatter":
            os.write(1, b"hello, I am no JSON\n")
            return
    server = ThreadingHTTPServer(("127.0.0.1", 0), Chat)
    server.daemon_threads = True
    server.settings, server.slots = settings, {}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say({"address": f"http://127.0.0.1:{server.server_port}"})
    select.select([sys.stdin], [], [])
    os._exit(0)


if __name__ == "__main__":
    main()
