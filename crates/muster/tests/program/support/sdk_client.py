"""An agent's program on the official Python SDK: connects to every server of MUSTER_MCP_CONFIG, lists its tools and calls one. Prints one JSON object."""
import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client


async def main():
    with open(os.environ["MUSTER_MCP_CONFIG"]) as file:
        servers = json.load(file)["mcpServers"]
    told = {"session": os.environ["MUSTER_SESSION_ID"], "servers": {}}
    for name, entry in servers.items():
        parameters = StdioServerParameters(command=entry["command"], args=entry["args"], env=entry.get("env"))
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            result = await session.call_tool(sys.argv[1], json.loads(sys.argv[2]))
            told["servers"][name] = {
                "tools": [tool.name for tool in tools],
                "text": result.content[0].text,
                "structured": result.structured_content,
            }
    print(json.dumps(told))


asyncio.run(main())
