"""An MCP server on the SDK of PyPI's `mcp`, with tools that do to their client what servers in the wild do."""

import asyncio
import os
import subprocess

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("trials")
# What was kept, by session; over stdio there is one.
remembered: dict[str | None, list[str]] = {}
counts = {"began": 0, "cancelled": 0}


@server.tool()
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


@server.tool(name="weird.name")
def weird() -> str:
    """Has a name that not every endpoint takes."""
    return "weird"


@server.tool()
def remember(text: str, context: Context) -> str:
    """Keeps something for whoever asks next."""
    remembered.setdefault(session(context), []).append(text)
    return "kept"


@server.tool()
def recall(context: Context) -> str:
    """Tells all that was kept."""
    return ",".join(remembered.get(session(context), []))


def session(context: Context) -> str | None:
    return context.headers.get("mcp-session-id") if context.headers else None


@server.tool()
def environment() -> str:
    """Tells the names of the variables it has."""
    return ",".join(sorted(os.environ))


@server.tool()
async def hang() -> str:
    """Never ends by itself."""
    counts["began"] += 1
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        counts["cancelled"] += 1
        raise
    return "never"


@server.tool()
def hung() -> str:
    """Tells how many calls of `hang` began and were cancelled."""
    return f"{counts['began']} began, {counts['cancelled']} cancelled"


@server.tool()
async def grow(context: Context) -> str:
    """Adds a tool, and says that the list has changed."""
    server.add_tool(grown, name="grown")
    await context.session.send_tool_list_changed()
    return "grown"


def grown() -> str:
    """Was not there before."""
    return "here"


@server.tool()
async def shrink(context: Context) -> str:
    """Takes that tool away again, and says that the list has changed."""
    server.remove_tool("grown")
    await context.session.send_tool_list_changed()
    return "shrunk"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("this never works")


@server.tool()
def flood(size: int) -> str:
    """Says a lot."""
    return "x" * size


@server.tool()
def breed() -> str:
    """Starts a process of its own and tells its id."""
    return str(subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid)


@server.tool()
def process() -> str:
    """Tells its process id."""
    return str(os.getpid())


@server.tool()
def end() -> str:
    """Ends the server in the middle of the call."""
    os._exit(3)


if __name__ == "__main__":
    if os.environ.get("GROWN"):
        server.add_tool(grown, name="grown")
    # As npm's server has it: with a port, over HTTP.
    if port := os.environ.get("PORT"):
        server.run("streamable-http", host="127.0.0.1", port=int(port))
    else:
        server.run("stdio")
