// A server written with the official TypeScript SDKs, the one of today and the one before, as their authors would write one.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [tools, generation] = process.argv.slice(2);
const require = createRequire(tools + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { z } = await load("zod");

if (generation === "1") {
  const { McpServer } = await load("@modelcontextprotocol/sdk/server/mcp.js");
  const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/server/stdio.js");
  await serve(new McpServer({ name: "typescript-sdk", version: "1.0.0" }), new StdioServerTransport());
} else {
  const { McpServer } = await load("@modelcontextprotocol/server");
  const { StdioServerTransport } = await load("@modelcontextprotocol/server/stdio");
  await serve(new McpServer({ name: "typescript-sdk", version: "2.0.0" }), new StdioServerTransport());
}

async function serve(server, transport) {
  server.registerTool(
    "add",
    {
      title: "Add",
      description: "Adds two numbers.",
      inputSchema: generation === "1" ? { a: z.number(), b: z.number() } : z.object({ a: z.number(), b: z.number() }),
      outputSchema: generation === "1" ? { sum: z.number() } : z.object({ sum: z.number() }),
      annotations: { readOnlyHint: true },
    },
    async ({ a, b }) => ({ content: [{ type: "text", text: String(a + b) }], structuredContent: { sum: a + b } }),
  );
  await server.connect(transport);
}
