// The fixed parts that the protocol's conformance suite asks a server for, once over standard streams and once over HTTP.
//   node conformance.mjs TOOLS stdio
//   node conformance.mjs TOOLS http      prints its port
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [tools, way] = process.argv.slice(2);
const require = createRequire(tools + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { z } = await load("zod");
const { McpServer, ResourceTemplate } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const types = await load("@modelcontextprotocol/sdk/types.js");

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
const text = (words) => ({ type: "text", text: words });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const pause = () => new Promise((done) => setTimeout(done, 50));

function make() {
  const server = new McpServer(
    { name: "conformance", version: "1.0.0" },
    { capabilities: { logging: {}, completions: {}, resources: { subscribe: true, listChanged: true }, tools: { listChanged: true }, prompts: { listChanged: true } } },
  );
  const tool = (name, call, inputSchema = {}) => server.registerTool(name, { description: name, inputSchema }, call);
  const embedded = (uri, words) => ({ type: "resource", resource: { uri, mimeType: "text/plain", text: words } });

  tool("test_simple_text", async () => ({ content: [text("This is a simple text response for testing.")] }));
  tool("test_image_content", async () => ({ content: [image] }));
  tool("test_audio_content", async () => ({ content: [{ type: "audio", data: WAV, mimeType: "audio/wav" }] }));
  tool("test_embedded_resource", async () => ({
    content: [embedded("test://embedded-resource", "This is an embedded resource content.")],
  }));
  tool("test_multiple_content_types", async () => ({
    content: [
      text("Multiple content types test:"),
      image,
      { type: "resource", resource: { uri: "test://mixed-content-resource", mimeType: "application/json", text: '{"test":"data","value":123}' } },
    ],
  }));
  tool("test_tool_with_logging", async (_, extra) => {
    for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
      await extra.sendNotification({ method: "notifications/message", params: { level: "info", data } });
      await pause();
    }
    return { content: [text("Logged.")] };
  });
  tool("test_tool_with_progress", async (_, extra) => {
    const progressToken = extra._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined) {
        await extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      }
      await pause();
    }
    return { content: [text(String(progressToken))] };
  });
  tool("test_error_handling", async () => {
    throw new Error("This tool intentionally returns an error for testing");
  });
  tool(
    "test_sampling",
    async ({ prompt }, extra) => {
      const params = { messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 };
      const result = await extra.sendRequest({ method: "sampling/createMessage", params }, types.CreateMessageResultSchema);
      return { content: [text(`LLM response: ${result.content.text}`)] };
    },
    { prompt: z.string() },
  );
  const elicit = async (extra, message, properties, required) => {
    const params = { message, requestedSchema: { type: "object", properties, required } };
    const result = await extra.sendRequest({ method: "elicitation/create", params }, types.ElicitResultSchema);
    return { content: [text(`Elicitation completed: action=${result.action}, content=${JSON.stringify(result.content ?? {})}`)] };
  };
  tool(
    "test_elicitation",
    ({ message }, extra) =>
      elicit(extra, message, { response: { type: "string", description: "User's response" } }, ["response"]),
    { message: z.string() },
  );
  tool("test_elicitation_sep1034_defaults", (_, extra) =>
    elicit(extra, "Please review and update the form fields with defaults", {
      name: { type: "string", description: "User name", default: "John Doe" },
      age: { type: "integer", description: "User age", default: 30 },
      score: { type: "number", description: "User score", default: 95.5 },
      status: { type: "string", description: "User status", enum: ["active", "inactive", "pending"], default: "active" },
      verified: { type: "boolean", description: "Verification status", default: true },
    }, []));
  const choices = [1, 2, 3].map((number) => ({ const: `value${number}`, title: ["First", "Second", "Third"][number - 1] + " Option" }));
  const words = ["option1", "option2", "option3"];
  tool("test_elicitation_sep1330_enums", (_, extra) =>
    elicit(extra, "Please select options from the enum fields", {
      untitledSingle: { type: "string", description: "Select one option", enum: words },
      titledSingle: { type: "string", description: "Select one option with titles", oneOf: choices },
      legacyEnum: { type: "string", description: "Select one option (legacy)", enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"] },
      untitledMulti: { type: "array", description: "Select multiple options", items: { type: "string", enum: words } },
      titledMulti: { type: "array", description: "Select multiple options with titles", items: { anyOf: choices } },
    }, []));

  const read = (uri, contents) => ({ contents: [{ uri: uri.href, ...contents }] });
  server.registerResource("static-text", "test://static-text", { mimeType: "text/plain" }, async (uri) =>
    read(uri, { mimeType: "text/plain", text: "This is the content of the static text resource." }));
  server.registerResource("static-binary", "test://static-binary", { mimeType: "image/png" }, async (uri) =>
    read(uri, { mimeType: "image/png", blob: PNG }));
  server.registerResource("watched", "test://watched-resource", { mimeType: "text/plain" }, async (uri) =>
    read(uri, { mimeType: "text/plain", text: "Watched" }));
  server.registerResource("template", new ResourceTemplate("test://template/{id}/data", { list: undefined }), { mimeType: "application/json" }, async (uri, { id }) =>
    read(uri, { mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) }));
  server.server.setRequestHandler(types.SubscribeRequestSchema, async () => ({}));
  server.server.setRequestHandler(types.UnsubscribeRequestSchema, async () => ({}));
  server.server.setRequestHandler(types.SetLevelRequestSchema, async () => ({}));
  server.server.setRequestHandler(types.CompleteRequestSchema, async () => ({ completion: { values: [], total: 0, hasMore: false } }));

  const prompt = (name, argsSchema, messages) => server.registerPrompt(name, { description: name, argsSchema }, messages);
  const user = (content) => ({ role: "user", content });
  server.registerPrompt("test_simple_prompt", { description: "simple" }, async () => ({
    messages: [user(text("This is a simple prompt for testing."))],
  }));
  prompt("test_prompt_with_arguments", { arg1: z.string(), arg2: z.string() }, async ({ arg1, arg2 }) => ({
    messages: [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
  }));
  prompt("test_prompt_with_embedded_resource", { resourceUri: z.string() }, async ({ resourceUri }) => ({
    messages: [user(embedded(resourceUri, "Embedded resource content for testing.")), user(text("Please process the embedded resource above."))],
  }));
  server.registerPrompt("test_prompt_with_image", { description: "image" }, async () => ({
    messages: [user(image), user(text("Please analyze the image above."))],
  }));
  return server;
}

if (way === "stdio") {
  const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/server/stdio.js");
  await make().connect(new StdioServerTransport());
} else {
  const { StreamableHTTPServerTransport } = await load("@modelcontextprotocol/sdk/server/streamableHttp.js");
  const transports = new Map();
  const http = createServer(async (request, response) => {
    let transport = transports.get(request.headers["mcp-session-id"]);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => transports.set(id, transport),
      });
      await make().connect(transport);
    }
    await transport.handleRequest(request, response);
  });
  http.listen(0, "127.0.0.1", () => console.log(http.address().port));
}
