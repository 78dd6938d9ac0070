#!/usr/bin/env python3
"""A scripted model and a small MCP server on loopback, for tests that run a real agent program. It never leaves the machine.

    fake_model.py --script STEPS.json --log REQUESTS.jsonl

One listener answers the Messages API (`POST /v1/messages`, streamed or whole), the Responses API (`POST /v1/responses`, streamed), Gemini's
(`POST …:generateContent` and `…:streamGenerateContent`) and an MCP door (`POST /mcp`, JSON answers, no session).
Every request is one line of the log: {"door": "model"|"mcp"|"other", "method", "path", "headers", "body"}.
Prints the port on standard output once it listens.

STEPS.json is a list; each model request that offers tools takes the next step, the last one repeats. Requests without tools
(titles, counts) are answered with "ok" and take none.

    {"text": "words"}                     the model answers with these words
    {"tool": "NAME", "input": {...}}      the model calls a tool
    {"drop": "start"}                     the connection is closed before any answer
    {"drop": "middle"}                    the connection is closed in the middle of the streamed answer
    {"status": 400}                       an error answer of the API
    {"hang": 30}                          nothing is answered for so many seconds, then the connection is closed

A step with "when": PATH is answered once that file is there, half a minute later at most. A tool of the Responses API may stand in a
namespace: {"tool": "NAME", "namespace": "mcp__SERVER", ...}. The Responses API and Gemini's know text and tool steps only.
"""

import argparse
import json
import os
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
         429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}
TOOL = {
    "name": "reply_draft",
    "description": "Files a reply draft.",
    "inputSchema": {
        "type": "object",
        "properties": {"message_id": {"type": "integer"}, "body": {"type": "string"}},
        "required": ["message_id", "body"],
    },
}


def filled(schema):
    """Something of the shape that a schema asks for."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = str(schema.get("type", "string")).lower()
    if kind == "object":
        return {name: filled(part) for name, part in schema.get("properties", {}).items()}
    return {"array": [], "boolean": False, "integer": 1, "number": 1}.get(kind, "ok")


class Script:
    """The steps, handed out in order to whoever asks."""

    def __init__(self, steps):
        self.steps = steps
        self.taken = 0
        self.lock = threading.Lock()

    def next(self):
        with self.lock:
            step = self.steps[min(self.taken, len(self.steps) - 1)]
            self.taken += 1
            return step, self.taken


class Log:
    """Appends one JSON line per request."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8")
        self.lock = threading.Lock()

    def write(self, entry):
        with self.lock:
            self.file.write(json.dumps(entry) + "\n")
            self.file.flush()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # Agents come and go as they like; only what is not a broken connection is worth a line.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def entry(self, door, body):
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.log.write({"door": door, "method": self.command, "path": self.path, "headers": headers, "body": body})

    def read_json(self):
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length)
        try:
            return json.loads(raw) if raw else None
        except ValueError:
            return {"unreadable": raw.decode("utf-8", "replace")}

    def answer(self, status, body, kind="application/json"):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def hang_up(self):
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def do_GET(self):
        self.entry("mcp" if self.path.startswith("/mcp") else "other", None)
        self.answer(405, {"error": "only POST is answered here"})

    do_HEAD = do_GET
    do_DELETE = do_GET

    def do_POST(self):
        body = self.read_json()
        if self.path.startswith("/mcp"):
            self.entry("mcp", body)
            self.mcp(body)
        elif self.path.startswith("/v1/messages/count_tokens"):
            self.entry("other", body)
            self.answer(200, {"input_tokens": 1})
        elif self.path.startswith("/v1/messages"):
            self.entry("model", body)
            self.model(body)
        elif self.path.startswith("/v1/responses"):
            self.entry("model", body)
            self.openai(body)
        elif self.path.split("?")[0].endswith(("generateContent", "streamGenerateContent")):
            self.entry("model", body)
            self.gemini(body)
        else:
            self.entry("other", body)
            self.answer(404, {"error": "nothing is here"})

    def step(self, body):
        """The step that answers a request, and its number."""
        if not body.get("tools"):
            return {"text": "ok"}, 0
        step, number = self.server.script.next()
        until = time.monotonic() + 30
        while "when" in step and not os.path.exists(step["when"]) and time.monotonic() < until:
            time.sleep(0.02)
        return step, number

    def model(self, body):
        step, number = self.step(body)
        if "hang" in step:
            time.sleep(float(step["hang"]))
            return self.hang_up()
        if step.get("drop") == "start":
            return self.hang_up()
        if "status" in step:
            kind = KINDS.get(step["status"], "api_error")
            return self.answer(step["status"], {"type": "error", "error": {"type": kind, "message": "scripted refusal"}})
        if "tool" in step:
            block = {"type": "tool_use", "id": "toolu_%04d" % number, "name": step["tool"], "input": step.get("input", {})}
            stop = "tool_use"
        else:
            block = {"type": "text", "text": step.get("text", "")}
            stop = "end_turn"
        message = {"id": "msg_%04d" % number, "type": "message", "role": "assistant", "model": body.get("model", "scripted"),
                   "content": [block], "stop_reason": stop, "stop_sequence": None,
                   "usage": {"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}}
        if body.get("stream"):
            self.stream(message, block, stop, step.get("drop") == "middle")
        else:
            self.answer(200, message)

    def openai(self, body):
        step, number = self.step(body)
        if "tool" in step:
            item = {"type": "function_call", "id": "fc_%04d" % number, "call_id": "call_%04d" % number, "name": step["tool"],
                    "arguments": json.dumps(step.get("input", {})), "status": "completed"}
            if "namespace" in step:
                item["namespace"] = step["namespace"]
        else:
            part = {"type": "output_text", "text": step.get("text", ""), "annotations": []}
            item = {"type": "message", "id": "msg_%04d" % number, "role": "assistant", "status": "completed", "content": [part]}
        answer = {"id": "resp_%04d" % number, "object": "response", "model": body.get("model", "scripted")}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
                 "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        event, end = self.events()
        event("response.created", response={**answer, "status": "in_progress", "output": []})
        event("response.output_item.added", output_index=0, item=item)
        event("response.output_item.done", output_index=0, item=item)
        event("response.completed", response={**answer, "status": "completed", "output": [item], "usage": usage})
        end()

    def gemini(self, body):
        step, _ = self.step(body)
        schema = (body.get("generationConfig") or {}).get("responseJsonSchema") or (body.get("generationConfig") or {}).get("responseSchema")
        if "tool" in step:
            part = {"functionCall": {"name": step["tool"], "args": step.get("input", {})}}
        elif schema and not body.get("tools"):
            part = {"text": json.dumps(filled(schema))}
        else:
            part = {"text": step.get("text", "")}
        answer = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
                  "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
        if "streamGenerateContent" not in self.path:
            return self.answer(200, answer)
        event, end = self.events()
        event(None, **answer)
        end()

    def events(self):
        """A stream of server-sent events: what sends one, and what ends it."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

        def event(kind, **fields):
            data = json.dumps({"type": kind, **fields} if kind else fields)
            text = "event: %s\ndata: %s\n\n" % (kind, data) if kind else "data: %s\n\n" % data
            self.wfile.write(b"%x\r\n%s\r\n" % (len(text.encode()), text.encode()))
            self.wfile.flush()

        def end():
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()

        return event, end

    def stream(self, message, block, stop, cut):
        event, end = self.events()
        event("message_start", message={**message, "content": [], "stop_reason": None})
        if block["type"] == "text":
            event("content_block_start", index=0, content_block={"type": "text", "text": ""})
            if cut:
                event("content_block_delta", index=0, delta={"type": "text_delta", "text": "half of "})
                time.sleep(0.2)
                return self.hang_up()
            event("content_block_delta", index=0, delta={"type": "text_delta", "text": block["text"]})
        else:
            event("content_block_start", index=0, content_block={**block, "input": {}})
            event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": json.dumps(block["input"])})
        event("content_block_stop", index=0)
        event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 1})
        event("message_stop")
        end()

    def mcp(self, call):
        method, number = call.get("method"), call.get("id")
        if number is None:
            return self.answer(202, None)
        if method == "initialize":
            result = {"protocolVersion": call["params"]["protocolVersion"], "capabilities": {"tools": {}},
                      "serverInfo": {"name": "scripted", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": [TOOL]}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": "draft filed"}], "isError": False}
        elif method == "ping":
            result = {}
        else:
            return self.answer(200, {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no such method"}})
        self.answer(200, {"jsonrpc": "2.0", "id": number, "result": result})


def main():
    parser = argparse.ArgumentParser(description="A scripted model and MCP server on loopback.")
    parser.add_argument("--script", required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    with open(options.script, encoding="utf-8") as file:
        steps = json.load(file)
    server = Server(("127.0.0.1", options.port), Handler)
    server.script, server.log = Script(steps), Log(options.log)
    print(server.server_address[1], flush=True)

    # The test holds the other end of standard input; when the test is gone, however it went, so is this process.
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
