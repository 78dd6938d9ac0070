// A chief for the browser tests: does with each turn what orders.json in its folder says, through the real MCP door. Never guesses.
//
// Orders: {"replies": ["text", …]} files these drafts one after another; "to" names another message they answer; {"break": true} breaks the
// turn off; {} reads and does nothing. A message that takes no reply gets none.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const turn = readFileSync(0, "utf8");
const file = join(process.argv[2], "orders.json");
const orders = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : { replies: ["Thank you."] };
const preface = turn.split("=== BEGIN OUTSIDE TEXT")[0];
const message = Number(/message_id (\d+)/.exec(preface)?.[1]);

if (orders.break) {
  console.error("the orders say so");
  process.exit(1);
}

const headers = {
  authorization: `Bearer ${process.env.MUSTER_AGENT_TOKEN}`,
  accept: "application/json, text/event-stream",
  "content-type": "application/json",
  "mcp-protocol-version": "2025-11-25",
};

for (const body of preface.includes("no reply is possible") ? [] : (orders.replies ?? [])) {
  const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "reply_draft", arguments: { message_id: orders.to ?? message, body } } };
  const answer = await fetch(process.env.MUSTER_MCP_URL, { method: "POST", headers, body: JSON.stringify(call) });
  const said = await answer.json();
  if (!answer.ok || said.error || said.result.isError) {
    console.error(JSON.stringify(said));
    process.exit(1);
  }
}
console.log("Read it, and did as the orders say.");
