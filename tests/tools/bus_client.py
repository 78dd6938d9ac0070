#!/usr/bin/env python3
"""Drives the official Python client of the Model Context Protocol, for tests that use the bus as a stranger's program would.

One JSON object a line comes in, one a line goes out; each answer bears the id of what it answers, and many may be open at once.

    {"id": 1, "op": "open", "session": "a", "command": ["muster", "bus", "serve"], "env": {...}, "mode": "legacy"}
    {"id": 2, "op": "open", "session": "b", "url": "http://127.0.0.1:1/mcp", "token": "tk_...", "mode": "auto"}
    {"id": 3, "op": "tools", "session": "a"}
    {"id": 4, "op": "call", "session": "a", "tool": "join", "arguments": {"agentId": "ada"}}
    {"id": 5, "op": "cancel", "call": 4}
    {"id": 6, "op": "close", "session": "a"}

An answer is {"id", "ok": true, ...} or {"id", "ok": false, "error": "words"}. `mode` is legacy, auto, or a revision of the protocol.
When standard input ends, so does this program.
"""

import json
import sys
from importlib.metadata import version

import anyio
import jsonschema
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


class Driver:
    def __init__(self, group):
        self.group = group
        self.sessions = {}
        self.calls = {}

    def say(self, number, **fields):
        sys.stdout.write(json.dumps({"id": number, **fields}) + "\n")
        sys.stdout.flush()

    async def act(self, ask):
        number = ask["id"]
        try:
            answer = await getattr(self, ask["op"])(ask)
        except Exception as error:
            self.say(number, ok=False, error=words(error))
        else:
            if answer is not None:
                self.say(number, ok=True, **answer)

    async def open(self, ask):
        # A session is entered and left by one task, so it gets one of its own.
        await self.group.start(self.hold, ask)

    async def hold(self, ask, task_status):
        leave = anyio.Event()
        started = False
        try:
            async with anyio.create_task_group() as own:
                transport = server(ask)
                async with Client(transport, mode=ask.get("mode", "auto"), cache=None) as client:
                    self.sessions[ask["session"]] = (client, leave)
                    info = client.server_info
                    self.say(ask["id"], ok=True, protocol=client.protocol_version, name=info.name if info else None,
                             instructions=client.instructions, sdk=version("mcp"))
                    started = True
                    task_status.started()
                    await leave.wait()
                own.cancel_scope.cancel()
        except Exception as error:
            if not started:
                self.say(ask["id"], ok=False, error=words(error))
                task_status.started()

    async def tools(self, ask):
        client, _ = self.sessions[ask["session"]]
        listed = await client.list_tools()
        tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools]
        for tool in tools:
            jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        return {"tools": tools}

    async def call(self, ask):
        client, _ = self.sessions[ask["session"]]
        with anyio.CancelScope() as scope:
            self.calls[ask["id"]] = scope
            try:
                result = await client.call_tool(ask["tool"], ask.get("arguments", {}))
            finally:
                del self.calls[ask["id"]]
            return {"body": result.structured_content, "text": [block.text for block in result.content],
                    "failed": bool(result.is_error)}
        self.say(ask["id"], ok=False, error="cancelled")
        return None

    async def cancel(self, ask):
        self.calls[ask["call"]].cancel()
        return {}

    async def close(self, ask):
        _, leave = self.sessions.pop(ask["session"])
        leave.set()
        return {}


def server(ask):
    if "url" in ask:
        headers = {"Authorization": "Bearer " + ask["token"]} if "token" in ask else None
        return streamable_http_client(ask["url"], http_client=create_mcp_http_client(headers=headers))
    program, *arguments = ask["command"]
    return StdioServerParameters(command=program, args=arguments, env=ask.get("env"))


def words(error):
    """What broke, below the groups that the task library wraps it in."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return "%s: %s" % (type(error).__name__, error)


async def main():
    async with anyio.create_task_group() as group:
        driver = Driver(group)
        async for line in anyio.wrap_file(sys.stdin):
            group.start_soon(driver.act, json.loads(line))
        group.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
