#!/usr/bin/env python3
"""A small agent that speaks the Agent Client Protocol (version 1) on standard input and output, with a manner that a test chooses.

    agent.py FOLDER [MANNER ...]

It answers a prompt with "heard N: TEXT", where TEXT is its first block and N counts the prompts of the session. Every message it gets is a line of FOLDER/log, with its
process number; its environment is FOLDER/env. Manners are words: see `manner` below.
"""

import json
import os
import sys
import threading
import time

folder, manners = sys.argv[1], set(sys.argv[2:])
log = open(os.path.join(folder, "log"), "a", encoding="utf-8")
pending, lock = {}, threading.Lock()


def manner(word):
    return word in manners


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def answer(number, result):
    send({"id": number, "result": result})


def refuse(number, code, words):
    send({"id": number, "error": {"code": code, "message": words}})


def say(session, text, kind="agent_message_chunk"):
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    send({"method": "session/update", "params": {"sessionId": session, "update": update}})


def store(session, count=None):
    """How many prompts a session has had, kept over restarts as a real agent keeps its conversations."""
    path = os.path.join(folder, "session-" + session)
    if count is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(count))
    try:
        with open(path, encoding="utf-8") as file:
            return int(file.read())
    except FileNotFoundError:
        return None


def ask_permission(session, kinds):
    event = threading.Event()
    pending["ask"] = event
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds]
    call = {"toolCallId": "call-1", "title": "mcp__muster__reply_draft", "kind": "execute", "status": "pending"}
    send({"id": "ask", "method": "session/request_permission",
          "params": {"sessionId": session, "toolCall": call, "options": options}})
    event.wait()
    return pending["ask-answer"]


def prompt(number, session, text):
    count = store(session, store(session) + 1)
    if manner("die-in-turn"):
        sys.stderr.write("out of \x1b[1mmemory\n")
        sys.stderr.flush()
        os._exit(7)
    if manner("close-output-in-turn"):
        os.close(1)
        time.sleep(60)
    if manner("silent"):
        return
    if manner("restless"):
        while True:
            say(session, "thinking", "agent_thought_chunk")
            time.sleep(0.05)
    if manner("slow"):
        for _ in range(8):
            say(session, "thinking", "agent_thought_chunk")
            time.sleep(0.15)
    if manner("ask"):
        say(session, json.dumps(ask_permission(session, ["allow_always", "allow_once", "reject_always", "reject_once"])))
        return answer(number, {"stopReason": "end_turn"})
    if manner("ask-without-no"):
        say(session, json.dumps(ask_permission(session, ["allow_once"])))
        return answer(number, {"stopReason": "end_turn"})
    if manner("error"):
        return refuse(number, -32603, "it went\nwrong")
    if manner("flood"):
        for _ in range(400):
            say(session, "wordy " * 1000)
            sys.stderr.write("e" * 10000)
        return answer(number, {"stopReason": "end_turn"})
    say("another-session", "not for this turn")
    say(session, "private", "agent_thought_chunk")
    say(session, "heard %d: " % count)
    say(session, text)
    stop = [word.removeprefix("stop=") for word in manners if word.startswith("stop=")]
    answer(number, {"stopReason": (stop or ["end_turn"])[0]})
    if manner("late"):
        say(session, "after the end")


def handle(message):
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        if number == "ask":
            pending["ask-answer"] = message.get("result")
            pending["ask"].set()
    elif method == "initialize":
        version = 2 if manner("version-2") else params["protocolVersion"]
        sessions = {"resume": {}} if manner("resume") else {}
        answer(number, {"protocolVersion": version, "authMethods": [], "agentCapabilities": {
            "loadSession": manner("load"), "mcpCapabilities": {"http": not manner("no-http"), "sse": False},
            "sessionCapabilities": sessions}})
    elif method == "session/new":
        if manner("sign-in"):
            return refuse(number, -32000, "Authentication required")
        session = "s-%d-%d" % (os.getpid(), time.monotonic_ns())
        store(session, 0)
        answer(number, {"sessionId": session})
    elif method in ("session/load", "session/resume"):
        session = params["sessionId"]
        if store(session) is None:
            return refuse(number, -32002, "no such session")
        if method == "session/load":
            say(session, "an old question", "user_message_chunk")
            say(session, "an old answer")
        answer(number, {})
    elif method == "session/prompt":
        text = params["prompt"][0]["text"]
        threading.Thread(target=prompt, args=(number, params["sessionId"], text), daemon=True).start()
    elif number is not None:
        refuse(number, -32601, "no such method")


def main():
    with open(os.path.join(folder, "env"), "w", encoding="utf-8") as file:
        json.dump(dict(os.environ), file)
    if manner("die-at-start"):
        sys.stderr.write("no configuration\n")
        os._exit(3)
    if manner("chatty"):
        print("Welcome! This line is no message.", flush=True)
        sys.stderr.write("warning: something\n" * 10)
    if manner("never-ready"):
        time.sleep(60)
    for line in sys.stdin:
        message = json.loads(line)
        log.write(json.dumps({"pid": os.getpid(), **message}) + "\n")
        log.flush()
        handle(message)


main()
