"""A server of tools on standard streams, written with nothing but the standard library.

Try it by hand, in the package's folder:

    echo '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' | python3 mcp/server.py

A server that uses the official SDK is shorter; this one shows all there is. One JSON object a line comes in, one goes out. When the input ends,
so does the server. Nothing else may be written to standard output; standard error goes nowhere.
"""
import json
import os
import sys

# The working folder is the session's. What comes with the package is found by this variable; by hand, beside this file.
ROOT = os.environ.get("MUSE_PLUGIN_ROOT") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What is kept over sessions goes here. The folder is not made for the package.
DATA = os.environ.get("MUSE_PLUGIN_DATA_DIR", "")

with open(os.path.join(ROOT, "data", "regions.json"), encoding="utf-8") as file:
    REGIONS = json.load(file)

SEASONS = ["spring", "summer", "autumn", "winter"]

TOOLS = [
    {
        "name": "describe_forecast",
        "title": "Describe the usual weather",
        "description": "Says what weather a region usually has in a season. Regions: " + ", ".join(sorted(REGIONS)) + ".",
        "inputSchema": {
            "type": "object",
            "properties": {
                "region": {"type": "string", "enum": sorted(REGIONS)},
                "season": {"type": "string", "enum": SEASONS},
            },
            "required": ["region"],
        },
        # It changes nothing, so it may say so: the call then runs unasked. Never claim this of a tool that writes.
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "remember_region",
        "title": "Remember a region",
        "description": "Remembers which region describe_forecast takes when it is given none of the known ones.",
        "inputSchema": {
            "type": "object",
            "properties": {"region": {"type": "string", "enum": sorted(REGIONS)}},
            "required": ["region"],
        },
    },
]


class Refused(Exception):
    """What the model is told when a call cannot be done."""


def remembered():
    try:
        with open(os.path.join(DATA, "region"), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return None


def describe_forecast(arguments):
    region = arguments.get("region")
    if region not in REGIONS:
        region = remembered()
    if region not in REGIONS:
        raise Refused("There is no such region. Known are: " + ", ".join(sorted(REGIONS)) + ".")
    seasons = REGIONS[region]
    season = arguments.get("season")
    if season in seasons:
        return "%s in %s: %s." % (region, season, seasons[season])
    return "; ".join("%s: %s" % (season, seasons[season]) for season in SEASONS) + "."


def remember_region(arguments):
    region = arguments.get("region")
    if region not in REGIONS:
        raise Refused("There is no such region. Known are: " + ", ".join(sorted(REGIONS)) + ".")
    if not DATA:
        raise Refused("There is no folder to remember it in.")
    os.makedirs(DATA, mode=0o700, exist_ok=True)
    with open(os.path.join(DATA, "region"), "w", encoding="utf-8") as file:
        file.write(region)
    return "Remembered."


CALLS = {"describe_forecast": describe_forecast, "remember_region": remember_region}


def answer(message):
    """The result of a request."""
    params = message.get("params") or {}
    method = message["method"]
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-11-25"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "forecast", "version": "1.0.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        call = CALLS.get(params.get("name"))
        if call is None:
            raise LookupError("there is no tool of this name")
        try:
            text = call(params.get("arguments") or {})
        except Refused as why:
            return {"content": [{"type": "text", "text": str(why)}], "isError": True}
        return {"content": [{"type": "text", "text": text}]}
    raise LookupError("there is no method " + method)


for line in sys.stdin:
    message = json.loads(line)
    # A notification wants no answer, and an answer was not asked for.
    if "id" not in message or "method" not in message:
        continue
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        reply["result"] = answer(message)
    except LookupError as why:
        reply["error"] = {"code": -32601, "message": str(why)}
    print(json.dumps(reply), flush=True)
