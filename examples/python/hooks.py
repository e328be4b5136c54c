"""A complete server for Sotto's three hooks, with nothing but Python itself.

    export HOOK_SECRET=$(openssl rand -hex 32) PORT=8090
    python hooks.py

and in sotto.toml, with the same HOOK_SECRET in Sotto's environment (docs/hooks.md has the rest):

    [hooks]
    allow_hosts = ["localhost"]
    [hooks.before_say]
    url = "http://localhost:8090/"
    secret = "${HOOK_SECRET}"
    when_away = "closed"
"""

import hashlib
import hmac
import json
import os
import re
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ["HOOK_SECRET"].encode()


def is_signed(header: str, body: bytes, tolerance: int = 300) -> bool:
    """Whether Sotto sent this, and not long ago."""
    parts = dict(part.split("=", 1) for part in header.split(",") if "=" in part)
    seconds, signature = parts.get("t", ""), parts.get("v1", "")
    if not seconds.isdigit() or abs(time.time() - int(seconds)) > tolerance:
        return False
    expected = hmac.new(SECRET, seconds.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, signature)


def judge(question: dict) -> dict:
    if question["hook"] == "before_model":
        # Something that the model should know: here, who asks.
        note = f"You talk to {question['asker']}."
        return {"action": "add", "messages": [{"role": "system", "content": note}]}
    if question["hook"] == "before_tool":
        door = question["parameters"].get("door")
        if door == "cellar":
            return {"action": "deny", "reason": "nobody may open the cellar"}
        if door == "any":
            return {"action": "change", "parameters": {**question["parameters"], "door": "front"}}
    if question["hook"] == "before_say":
        if "confidential" in question["text"]:
            return {"action": "block"}
        without = re.sub(r"\d{5,}", "[number]", question["text"])
        if without != question["text"]:
            return {"action": "replace", "text": without}
    return {"action": "allow"}


class Hooks(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # Keeps connections, which saves time before each sentence.

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if is_signed(self.headers.get("Sotto-Signature", ""), body):
            self.answer(200, judge(json.loads(body)))
        else:
            self.answer(401, {"error": "the signature is not Sotto's"})

    def answer(self, status: int, answer: dict) -> None:
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8090"))), Hooks).serve_forever()
