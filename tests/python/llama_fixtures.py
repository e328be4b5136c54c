"""Records what llama.cpp's server says to a few requests, byte for byte, as fixtures (tests/fixtures/llama), or
compares what it says now with them. Needs nothing but Python; starts scripts/llama-server --scripted itself.

Usage: llama_fixtures.py (--record | --check)
"""

import json
import re
import subprocess
import sys
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
            {
                "id": "call_2",
                "type": "function",
                "function": {"name": "calculator", "arguments": '{"expression": "12*(3+4)"}'},
            },
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "10:20"},
    {"role": "tool", "tool_call_id": "call_2", "content": "84"},
]
SPEAK_AT_ONCE, STARTS_INSIDE = {"enable_thinking": False}, {"starts_inside": True}
FOREVER, STORY, QUOTE = (
    {"role": "user", "content": text} for text in ("Go on forever.", "A story.", "Please quote your tags.")
)

# File → what is sent in addition to `stream` and a wish for usage; by what the server is started with.
AS_USUAL = {
    "thinking.sse": dict(messages=[HELLO]),
    "thinking_off.sse": dict(messages=[HELLO], chat_template_kwargs=SPEAK_AT_ONCE),
    "thinking_inline.sse": dict(messages=[HELLO], reasoning_format="none"),
    "thinking_opened_by_template.sse": dict(messages=[HELLO], chat_template_kwargs=STARTS_INSIDE),
    "thinking_opened_by_template_inline.sse": dict(
        messages=[HELLO], chat_template_kwargs=STARTS_INSIDE, reasoning_format="none"
    ),
    "thinking_cut_off.sse": dict(messages=[FOREVER], max_tokens=30),
    "thinking_budget.sse": dict(messages=[FOREVER], thinking_budget_tokens=20),
    "answer_cut_off.sse": dict(messages=[STORY], max_tokens=30, chat_template_kwargs=SPEAK_AT_ONCE),
    "tool_calls.sse": dict(messages=[CALCULATE], tools=TOOLS),
    "tool_calls_thinking_off.sse": dict(messages=[CALCULATE], tools=TOOLS, chat_template_kwargs=SPEAK_AT_ONCE),
    "tool_calls_thinking_inline.sse": dict(messages=[CALCULATE], tools=TOOLS, reasoning_format="none"),
    "tool_calls_cut_off.sse": dict(messages=[CALCULATE], tools=TOOLS, max_tokens=75),
    "tool_calls_not_offered.sse": dict(messages=[CALCULATE]),
    "tool_results.sse": dict(messages=LOOP, tools=TOOLS),
    "quoted_tags.sse": dict(messages=[QUOTE]),
    "quoted_tags_inline.sse": dict(messages=[QUOTE], reasoning_format="none"),
    "quoted_tags_with_tools.sse": dict(messages=[QUOTE], tools=TOOLS),
    "without_usage.sse": dict(messages=[STORY], max_tokens=12, stream_options=None),
    "error_too_long.json": dict(messages=[{"role": "user", "content": "word " * 5000}]),
    "error_bad_request.json": dict(messages="Hello"),
}
WITHOUT_PARSING = {
    "all_inline.sse": dict(messages=[CALCULATE], tools=TOOLS),
    "all_inline_opened_by_template.sse": dict(messages=[HELLO], chat_template_kwargs=STARTS_INSIDE),
}
WITH_A_KEY = {"error_wrong_key.json": dict(messages=[HELLO])}
SLOWLY = {
    "prompt_progress_and_pings.sse": dict(
        messages=[{"role": "user", "content": "word " * 6_000 + "story"}], max_tokens=3, return_progress=True
    ),
}


@contextmanager
def server(*options):
    process = subprocess.Popen(
        [HERE.parent.parent / "scripts" / "llama-server", "--scripted", *options], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def ask(url, body):
    """What the server sends, whatever its status."""
    body = dict(stream=True, stream_options={"include_usage": True}) | body
    request = urllib.request.Request(
        url + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with DIRECT.open(request, timeout=120) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def comparable(answer):
    """The answer with all that differs between two runs of the same request made equal."""
    answer = re.sub(rb'"(id|model)":"[^"]*"', rb'"\1":""', answer)
    answer = re.sub(rb'"created":\d+', b'"created":0', answer)
    answer = re.sub(rb',"timings":\{[^}]*\}', b"", answer)
    return re.sub(rb'"prompt_tokens_details":\{[^}]*\}', b"", answer)


def main(mode):
    answers = {}
    kinds = [(AS_USUAL, ()), (WITHOUT_PARSING, ("--no-parsing",)), (WITH_A_KEY, ("--key", "right"))]
    if mode == "--record":
        # How many comments there are depends on how busy the machine is, so these are not compared.
        kinds.append((SLOWLY, ("--ping", "1", "--context", "8192", "--slots", "1")))
    for requests, options in kinds:
        with server(*options) as url:
            answers |= {name: ask(url, body) for name, body in requests.items()}
    failed = 0
    for name, (status, answer) in answers.items():
        print(f"{status} {len(answer):7,} bytes  {name}")
        if mode == "--record":
            (FIXTURES / name).write_bytes(answer)
        elif comparable(answer) != comparable((FIXTURES / name).read_bytes()):
            failed += 1
            print(f"    is not what {FIXTURES / name} has:\n{answer.decode(errors='replace')}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    if sys.argv[1:] not in (["--record"], ["--check"]):
        sys.exit(__doc__)
    main(sys.argv[1])
