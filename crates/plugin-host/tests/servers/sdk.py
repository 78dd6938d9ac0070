"""A server written with the official Python SDK, as its authors would write one."""
from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("python-sdk")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(name="say.it")
def say(text: str) -> str:
    """Says it back."""
    return "you said " + text


server.run()
