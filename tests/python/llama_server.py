"""Runs llama.cpp's own HTTP server, as it is in the wheel xllamacpp. See scripts/llama-server, which starts it.

It chooses settings, waits until the server is well, and ends when it should. It takes no part in what the server says.
"""

import argparse
import os
import signal
import sys
import time
import urllib.request
from pathlib import Path

import xllamacpp

FORMATS = {
    kind.name.removeprefix("COMMON_REASONING_FORMAT_").lower().replace("_", "-"): kind
    for kind in xllamacpp.common_reasoning_format
}


def arguments():
    parser = argparse.ArgumentParser(
        prog="llama-server", description="llama.cpp's HTTP server, see scripts/llama-server --help"
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--caller", type=int, required=True, help="the process to end with")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--reasoning-format", choices=FORMATS, default="deepseek")
    parser.add_argument("--no-parsing", action="store_true")
    parser.add_argument("--key")
    parser.add_argument("--ping", type=int)
    parser.add_argument("--verbose", action="store_true")
    chosen = parser.parse_args()
    if not chosen.model.is_file():
        parser.error(f"there is no file {chosen.model}")
    return chosen


def start(chosen):
    params = xllamacpp.CommonParams()
    params.model.path = str(chosen.model)
    params.model_alias = {chosen.model.stem}  # what it calls itself in answers, instead of a path of this machine
    params.hostnames = ["127.0.0.1"]
    params.port = chosen.port
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = chosen.threads
    params.n_gpu_layers = 0
    params.fit_params = False  # it would measure the machine's memory first
    params.n_parallel = chosen.slots
    params.n_ctx = chosen.slots * chosen.context
    params.use_jinja = True
    params.reasoning_format = FORMATS[chosen.reasoning_format]
    params.force_pure_content_parser = chosen.no_parsing
    params.endpoint_props = params.endpoint_metrics = params.endpoint_slots = True
    params.ui = False
    params.offline = True
    if chosen.key:
        params.api_keys = [chosen.key]
    if chosen.ping:
        params.sse_ping_interval = chosen.ping
    if not chosen.verbose:
        params.verbosity = 1  # errors only: it warns about things that real models have, too
    return xllamacpp.Server(params)


def main():
    chosen = arguments()
    # The server's threads hold nothing that needs tidying up, and an answer under way is not waited for.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os._exit(0))
    try:
        server = start(chosen)
    except RuntimeError:
        sys.exit(f"llama-server: it does not start with {chosen.model}; it says why above, and more with --verbose")
    # No proxy is asked the way to this machine.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    direct.open(server.listening_address + "/health", timeout=60).close()
    print(server.listening_address + "/v1", flush=True)
    # `exec` has made the caller our parent; when it ends, another process becomes that.
    while os.getppid() == chosen.caller:
        time.sleep(0.2)
    print("llama-server: whoever started it is gone, ending", file=sys.stderr)
    os._exit(0)


if __name__ == "__main__":
    main()
