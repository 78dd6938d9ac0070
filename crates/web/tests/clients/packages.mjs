// A client of the official TypeScript SDKs, the one of today and the one before: calls one tool and prints what it heard before the answer, as one JSON object.
//   node packages.mjs TOOLS GENERATION URL TOKEN TOOL
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [tools, generation, url, token, name] = process.argv.slice(2);
const require = createRequire(tools + "/");
const load = (module) => import(pathToFileURL(require.resolve(module)));
const older = generation === "1";
const { Client } = await load(older ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StreamableHTTPClientTransport } = await load(
  older ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client",
);

const heard = { progress: [], log: [], changed: 0, text: null };
const client = new Client({ name: "test", version: "1.0.0" });
const on = async (method, schema, act) => {
  if (older) {
    const types = await load("@modelcontextprotocol/sdk/types.js");
    client.setNotificationHandler(types[schema], act);
  } else {
    client.setNotificationHandler(method, act);
  }
};
await on("notifications/message", "LoggingMessageNotificationSchema", ({ params }) => void heard.log.push(params.data));
await on("notifications/tools/list_changed", "ToolListChangedNotificationSchema", () => void heard.changed++);
const headers = { Authorization: `Bearer ${token}` };
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
const onprogress = ({ progress, total }) => void heard.progress.push([progress, total]);
const params = { name, arguments: {} };
const result = older ? await client.callTool(params, undefined, { onprogress }) : await client.callTool(params, { onprogress });
heard.text = result.content[0].text;
await client.close();
console.log(JSON.stringify(heard));
