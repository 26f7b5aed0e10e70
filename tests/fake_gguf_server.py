"""A program that stands where `skillwright.models.local.serve` does, without weights.

It reads and says what that one does. What it is asked decides how it behaves: "die" ends the
process in the middle, "hang" is never answered; anything else is answered with its process, its key
and its settings. ``FAKE_START`` lets it fail before that:
"error", "crash", "hang" or "chatter".
"""

import json
import os
import select
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STATUS_OF_DEATH = 7


class Chat(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        settings = self.server.settings
        if self.headers.get("Authorization") != f"Bearer {settings['key']}":
            self._send(401, {"error": {"message": "Invalid API Key", "code": 401}})
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
        told = {"pid": os.getpid(), "asked": body, **settings}
        message = {"role": "assistant", "content": json.dumps(told)}
        usage = {"prompt_tokens": words, "completion_tokens": 1}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        self._send(200, {"choices": choices, "model": "fake", "usage": usage})

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
    server.settings = settings
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say({"address": f"http://127.0.0.1:{server.server_port}"})
    select.select([sys.stdin], [], [])
    os._exit(0)


if __name__ == "__main__":
    main()
