// A plugin package from its arrival to a call of its tool: read, approved, used over HTTP, asked about, changed, read again. Its server is a
// real program. Never decides but through a page.

import assert from "node:assert/strict";
import { appendFileSync, cpSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { HOUR, Muster, PASSWORD, Person, folder, press, tabTo, test } from "./bench.mjs";

const example = join(dirname(fileURLToPath(import.meta.url)), "../../examples/plugins/forecast-tools");
const source = join(folder("packages"), "forecast-tools");
cpSync(example, source, { recursive: true });

const muster = await Muster.serve({ name: "packages" });
muster.owner();
muster.command(["project", "add", "shop", "--root", folder("shop")]);
const task = muster.command(["task", "add", "--project", "shop", "--title", "Look at the weather"]);
const token = muster.command(["token", "create", "--kind", "agent", "--task", task, "--label", "helper"]);
const person = await Person.at(muster);
const { page } = person;
const PAGE = "/plugins/packages/forecast-tools";

/** A call of the package's tool by the agent. */
async function call(name, args) {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", accept: "application/json, text/event-stream" };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } });
  const answer = await fetch(`${muster.direct}/packages/forecast-tools/forecast/mcp`, { method: "POST", headers, body });
  return { status: answer.status, body: await answer.json() };
}

test("an installed package waits for its review and serves nobody", async () => {
  muster.command(["plugins", "install", source]);
  await person.signIn({ next: "/plugins" });
  await page.getByText("Waits for your review.").waitFor();
  await page.getByRole("link", { name: "Forecast tools" }).click();
  await page.waitForURL(PAGE);
  for (const words of ["review_needed", "mcp/server.py", "no definition is approved"]) {
    assert.ok((await page.locator("main").textContent()).includes(words), words);
  }
  assert.deepEqual([(await call("describe_forecast", { region: "coast" })).status], [403]);
});

test("approving takes the keyboard and a fresh sign-in, and the agent's next call runs", async () => {
  muster.later(13 * HOUR);
  await person.open(PAGE);
  await tabTo(page, "button[value=approve]");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/confirm\?/);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Confirm", exact: false }).first().click();
  await page.waitForURL(PAGE);
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("Approved as it is now").waitFor();
  const read = await call("describe_forecast", { region: "coast", season: "summer" });
  assert.equal(read.body.result.isError ?? false, false, JSON.stringify(read.body));
  await person.open(PAGE);
  const words = await page.locator("main").textContent();
  for (const shown of ["describe_forecast", "says it only reads", "allow:mcp_read_only_hint", "it answered"]) assert.ok(words.includes(shown), `${shown}: ${words}`);
});

test("a call that changes something is an ask that says whose tool it is", async () => {
  await Promise.all([page.waitForResponse((answer) => answer.url().endsWith("/events?asks=1")), person.open("/attention")]);
  const waits = call("remember_region", { region: "coast" });
  const card = page.locator("article[data-card]");
  await card.waitFor();
  const words = await card.textContent();
  for (const shown of ["forecast-tools", "server forecast", "mcp__plugin_forecast_tools_forecast__remember_region", "Remembers which region", "coast", "helper"]) {
    assert.ok(words.includes(shown), `${shown}: ${words}`);
  }
  await press(card.getByRole("button", { name: "Allow for 60 seconds" }));
  const done = await waits;
  assert.equal(done.body.result.isError ?? false, false, JSON.stringify(done.body));
});

test("a change of the package is shown file by file, and nothing runs until it is approved again", async () => {
  await person.open(PAGE);
  appendFileSync(join(source, "mcp/server.py"), "# changed\n");
  muster.command(["plugins", "update", "forecast-tools"]);
  await page.getByRole("button", { name: "Switch off" }).click();
  await page.getByText("nothing was decided").waitFor();
  await person.open(PAGE);
  const words = await page.locator("main").textContent();
  for (const shown of ["changed since the decision", "1 file changed", "mcp/server.py"]) assert.ok(words.includes(shown), `${shown}: ${words}`);
  assert.equal((await call("describe_forecast", { region: "coast" })).status, 403);
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("Approved as it is now").waitFor();
  assert.equal((await call("describe_forecast", { region: "coast" })).status, 200);
});

test("without a script and on a phone every decision works", async () => {
  const state = await person.context.storageState();
  const phone = await Person.at(muster, { script: false, width: 360, height: 740, storageState: state });
  await phone.open(PAGE);
  await phone.page.getByRole("button", { name: "Reject" }).click();
  await phone.page.getByText("Rejected: it does not start").waitFor();
  assert.equal((await call("describe_forecast", { region: "coast" })).status, 403);
  await phone.leave();
  await person.leave();
  assert.equal(await muster.stop(), 0);
});
