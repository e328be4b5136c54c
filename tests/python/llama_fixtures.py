"""Records what llama.cpp's server says to a few requests, byte for byte, as fixtures (tests/fixtures/llama), or compares
what it says now with them. Needs nothing but Python; starts scripts/llama-server --scripted itself.

Usage: llama_fixtures.py (--record | --check)
"""

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures" / "llama"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))

TOOLS = [
    {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
    for name, description, parameters in [
        ("time", "What time it is.", {"type": "object", "properties": {}}),
        (
            "calculator",
            "Computes an expression.",
            {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
        ),
    ]
]
HELLO, CALCULATE = ({"role": "user", "content": text} for text in ("Hello there.", "Please calculate 12*(3+4)."))
LOOP = [
    CALCULATE,
    {
        "role": "assistant",
        "content": "Let me look that up.",
        "reasoning_content": "Two things are asked.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "time", "arguments": "{}"}},
            {"id": "call_2", "type": "function", "function": {"name": "calculator", "arguments": '{"expression": "12*(3+4)"}'}},
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "10:20"},
    {"role": "tool", "tool_call_id": "call_2", "content": "84"},
]
SPEAK_AT_ONCE, STARTS_INSIDE = {"enable_thinking": False}, {"starts_inside": True}
# Read as a number only at the very end, so the grammar that llama.cpp makes of it has no place for the script's words.
OTHER_TOOLS = [{"type": "function", "function": {"name": "dice", "description": "Rolls dice.", "parameters": {"type": "object", "properties": {"sides": {"type": "integer"}}, "required": ["sides"]}}}]

# File → what is sent in addition to a streaming request that asks for usage, and what the server is started with.
REQUESTS = {
    "thinking.sse": dict(messages=[HELLO]),
    "thinking_off.sse": dict(messages=[HELLO], chat_template_kwargs=SPEAK_AT_ONCE),
    "thinking_inline.sse": dict(messages=[HELLO], reasoning_format="none"),
    "thinking_opened_by_template.sse": dict(messages=[HELLO], chat_template_kwargs=STARTS_INSIDE),
    "thinking_opened_by_template_inline.sse": dict(messages=[HELLO], chat_template_kwargs=STARTS_INSIDE, reasoning_format="none"),
    "thinking_cut_off.sse": dict(messages=[{"role": "user", "content": "Go on forever."}], max_tokens=30),
    "answer_cut_off.sse": dict(messages=[{"role": "user", "content": "A story."}], max_tokens=30, chat_template_kwargs=SPEAK_AT_ONCE),
    "tool_calls.sse": dict(messages=[CALCULATE], tools=TOOLS),
    "tool_calls_thinking_off.sse": dict(messages=[CALCULATE], tools=TOOLS, chat_template_kwargs=SPEAK_AT_ONCE),
    "tool_calls_thinking_inline.sse": dict(messages=[CALCULATE], tools=TOOLS, reasoning_format="none"),
    "tool_calls_not_offered.sse": dict(messages=[CALCULATE]),
    "tool_results.sse": dict(messages=LOOP, tools=TOOLS),
    "quoted_tags.sse": dict(messages=[{"role": "user", "content": "Please quote your tags."}]),
    "quoted_tags_inline.sse": dict(messages=[{"role": "user", "content": "Please quote your tags."}], reasoning_format="none"),
    "quoted_tags_with_tools.sse": dict(messages=[{"role": "user", "content": "Please quote your tags."}], tools=TOOLS),
    "without_usage.sse": dict(messages=[{"role": "user", "content": "A story."}], max_tokens=12, stream_options=None),
    "error_too_long.json": dict(messages=[{"role": "user", "content": "word " * 5000}]),
    "error_bad_request.json": dict(messages="Hello"),
}
MORE = {
    "prompt_progress_and_pings.sse": dict(messages=[{"role": "user", "content": "word " * 14_000 + "story"}], max_tokens=3, return_progress=True),
}


@contextmanager
def server(*options):
    process = subprocess.Popen([HERE.parent.parent / "scripts" / "llama-server", "--scripted", *options], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def ask(url, body):
    """What the server sends, whatever its status."""
    body = dict(stream=True, stream_options={"include_usage": True}) | body
    request = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with DIRECT.open(request, timeout=120) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def unrepeatable(answer):
    """The answer with all that differs between two runs of the same request made equal."""
    answer = re.sub(rb'"(id|model)":"[^"]*"', rb'"\1":""', answer)
    answer = re.sub(rb'"created":\d+', b'"created":0', answer)
    answer = re.sub(rb',"timings":\{[^}]*\}', b"", answer)
    return re.sub(rb'"prompt_tokens_details":\{[^}]*\}', b"", answer)


def main(mode):
    answers = {}
    with server() as url:
        for name, body in REQUESTS.items():
            answers[name] = ask(url, body)
    with server("--key", "right") as url:
        answers["error_wrong_key.json"] = ask(url, REQUESTS["thinking.sse"])
    if mode == "--record":
        # How many comments there are depends on how busy the machine is, so this one is not compared.
        with server("--ping", "1", "--context", "16384", "--slots", "1") as url:
            for name, body in MORE.items():
                answers[name] = ask(url, body)
    failed = 0
    for name, (status, answer) in answers.items():
        print(f"{status} {len(answer):7,} bytes  {name}")
        if mode == "--record":
            (FIXTURES / name).write_bytes(answer)
        elif unrepeatable(answer) != unrepeatable((FIXTURES / name).read_bytes()):
            failed += 1
            print(f"    is not what {FIXTURES / name} has:\n{answer.decode(errors='replace')}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    if sys.argv[1:] not in (["--record"], ["--check"]):
        sys.exit(__doc__)
    main(sys.argv[1])
