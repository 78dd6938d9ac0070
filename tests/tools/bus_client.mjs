// Drives the official TypeScript clients of the Model Context Protocol, for tests that use the bus as a stranger's program would.
// The lines that come in and go out are those of bus_client.py. `--sdk v1` is @modelcontextprotocol/sdk, `--sdk v2` its successor
// @modelcontextprotocol/client. MUSTER_TEST_TOOLS names the folder whose npm/node_modules holds both.

import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const require = createRequire(join(process.env.MUSTER_TEST_TOOLS, "npm", "node_modules", "of-the-tests.js"));
const second = process.argv.includes("v2");
const name = second ? "@modelcontextprotocol/client" : "@modelcontextprotocol/sdk";
const { version } = require(join(process.env.MUSTER_TEST_TOOLS, "npm", "node_modules", name, "package.json"));
const { Client, StdioClientTransport, StreamableHTTPClientTransport } = second
    ? { ...require("@modelcontextprotocol/client"), ...require("@modelcontextprotocol/client/stdio") }
    : {
          ...require("@modelcontextprotocol/sdk/client/index.js"),
          ...require("@modelcontextprotocol/sdk/client/stdio.js"),
          ...require("@modelcontextprotocol/sdk/client/streamableHttp.js"),
      };
const Ajv = require("ajv/dist/2020.js").default;

const sessions = new Map();
const calls = new Map();

function say(id, fields) {
    process.stdout.write(JSON.stringify({ id, ...fields }) + "\n");
}

function transport(ask) {
    if (ask.url) {
        const headers = ask.token ? { Authorization: `Bearer ${ask.token}` } : {};
        return new StreamableHTTPClientTransport(new URL(ask.url), { requestInit: { headers } });
    }
    const [command, ...args] = ask.command;
    return new StdioClientTransport({ command, args, env: ask.env, stderr: "ignore" });
}

const acts = {
    async open(ask) {
        const options = second && ask.mode !== "legacy" ? { versionNegotiation: { mode: "auto" } } : {};
        const client = new Client({ name: "bus-client", version: "1" }, options);
        const way = transport(ask);
        await client.connect(way);
        sessions.set(ask.session, { client, way });
        const protocol = second ? client.getNegotiatedProtocolVersion() : (way.protocolVersion ?? null);
        return { protocol, name: client.getServerVersion()?.name, instructions: client.getInstructions(), sdk: version };
    },
    async tools(ask) {
        const { tools } = await sessions.get(ask.session).client.listTools();
        const ajv = new Ajv({ strict: true, allowUnionTypes: true });
        for (const tool of tools) ajv.compile(tool.inputSchema);
        return { tools };
    },
    async call(ask) {
        const ends = new AbortController();
        calls.set(ask.id, ends);
        try {
            const options = { signal: ends.signal, timeout: 90_000 };
            const params = { name: ask.tool, arguments: ask.arguments ?? {} };
            const { client } = sessions.get(ask.session);
            const result = second ? await client.callTool(params, options) : await client.callTool(params, undefined, options);
            const text = result.content.map((block) => block.text);
            return { body: result.structuredContent, text, failed: result.isError === true };
        } catch (error) {
            if (ends.signal.aborted) throw new Error("cancelled");
            throw error;
        } finally {
            calls.delete(ask.id);
        }
    },
    async cancel(ask) {
        calls.get(ask.call).abort(new Error("cancelled"));
        return {};
    },
    async close(ask) {
        const { client, way } = sessions.get(ask.session);
        sessions.delete(ask.session);
        if (way.sessionId) await way.terminateSession();
        await client.close();
        return {};
    },
};

async function act(ask) {
    try {
        say(ask.id, { ok: true, ...(await acts[ask.op](ask)) });
    } catch (error) {
        say(ask.id, { ok: false, error: error.message === "cancelled" ? "cancelled" : `${error.name}: ${error.message}` });
    }
}

for await (const line of createInterface({ input: process.stdin })) act(JSON.parse(line));
process.exit(0);
