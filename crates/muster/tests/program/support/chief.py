"""A chief for tests: reads its turn, writes down what it was handed, and drafts a reply through muster's MCP door over plain HTTP.

    chief.py RECORD [--keep] [--draft BODY] [--hold FILE] [--sleep SECONDS] [--exit CODE]

RECORD gets one JSON line a turn before anything else is done: {"message", "retry", "attempt", "pid"}, with --keep the whole turn too.
With --draft a reply is filed ({message} in BODY is the message's id), and what the door answered is a second line:
{"message", "draft", "body"} or {"message", "refused"}.
--hold waits until FILE exists, --sleep waits that long, --exit ends with that code; each before the draft but --exit.
A chief that is held ends by itself once the folder of FILE is gone, which its test takes away, and after five minutes in any case.
"""

import json
import os
import re
import socket
import sys
import time


def write(record, entry):
    """One write of one line: a reader never sees half of it, and two writers never mix."""
    handle = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, (json.dumps(entry) + "\n").encode())
    os.close(handle)


def number(pattern, preface, otherwise):
    found = re.search(pattern, preface)
    return int(found.group(1)) if found else otherwise


def post(url, token, call):
    """One JSON-RPC call; the answer's status and document."""
    host, _, path = url.split("//", 1)[1].partition("/")
    name, _, port = host.rpartition(":")
    body = json.dumps(call).encode()
    head = (
        "POST /%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\n"
        "Content-Length: %d\r\nConnection: close\r\n\r\n" % (path, host, token, len(body))
    )
    with socket.create_connection((name.strip("[]"), int(port)), timeout=20) as link:
        link.sendall(head.encode() + body)
        answer = b""
        while True:
            piece = link.recv(65536)
            if not piece:
                break
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), json.loads(body)


def draft(message, body):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "reply_draft", "arguments": {"message_id": message, "body": body}}}
    status, answer = post(os.environ["MUSTER_MCP_URL"], os.environ["MUSTER_AGENT_TOKEN"], call)
    result = answer.get("result", {})
    if status == 200 and not result.get("isError", True):
        return {"message": message, "draft": result["structuredContent"]["draft_id"], "body": body}
    return {"message": message, "refused": result.get("structuredContent", answer)}


def main():
    record, options = sys.argv[1], sys.argv[2:]

    def value(name):
        return options[options.index(name) + 1] if name in options else None

    turn = sys.stdin.buffer.read().decode()
    # Only muster's own words, before the fence: inside it anybody can write anything.
    preface = turn.partition("=== BEGIN OUTSIDE TEXT")[0]
    message = number(r"as message_id (\d+)\.", preface, 0)
    entry = {"message": message, "retry": number(r"This is retry (\d+) ", preface, 0),
             "attempt": number(r"delivery attempt (\d+)\.", preface, 1), "pid": os.getpid(),
             "conversation": os.environ["MUSTER_CONVERSATION"]}
    if "--keep" in options:
        entry["turn"] = turn
    write(record, entry)
    hold, begun = value("--hold"), time.monotonic()
    while hold and not os.path.exists(hold):
        if not os.path.isdir(os.path.dirname(hold)) or time.monotonic() - begun > 300:
            sys.exit(1)
        time.sleep(0.01)
    time.sleep(float(value("--sleep") or 0))
    body = value("--draft")
    if body:
        write(record, draft(message, body.replace("{message}", str(message))))
    print("read")
    sys.exit(int(value("--exit") or 0))


main()
