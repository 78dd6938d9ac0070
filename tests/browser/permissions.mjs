// Calls that wait for their owner, and the pages of policies and tasks. The agent's calls come from beside the server, as another program's
// would: the test that runs this story makes them. Never answers a call but through a page.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";

import { Muster, Person, axe, folder, press, test, until } from "./bench.mjs";

// ---- The agent: a call goes out as a line on standard output, its end comes back as one on standard input

const ends = new Map();
createInterface({ input: process.stdin }).on("line", (line) => {
  const { n, code } = JSON.parse(line);
  ends.get(n)(code);
});
process.stdin.unref();
let calls = 0;

/** Makes a call about the host, of the agent with the token `as`; answers how it ended: `allowed`, or the refusal's code. */
function call(args, tool = "muster_list_hosts", as = token) {
  calls += 1;
  const n = calls;
  const end = new Promise((resolve) => { ends.set(n, resolve); });
  process.stdout.write(`CALL ${JSON.stringify({ n, data: muster.data, token: as, tool, host, arguments: args })}\n`);
  return end;
}

const muster = await Muster.serve({ name: "permissions" });
muster.owner();
muster.command(["project", "add", "engine", "--root", folder("engine")]);
const host = muster.command(["host", "add", "tower"]);
const policy = muster.command(["policy", "create", "shared"]);
muster.command(["policy", "grant", "shared", "--layer", "global", "hosts_read", "host:tower", "ask"]);
const [task, sibling] = ["Tidy up", "Sweep"].map((title) => muster.command(["task", "add", "--project", "engine", "--title", title, "--policy", "shared"]));
const token = muster.command(["token", "create", "--kind", "agent", "--task", task, "--label", "helper"]);
const person = await Person.at(muster);
const { page } = person;
const cards = (where = page) => where.locator("article[data-card]");
/** Waits until the page counts as somebody who can be asked. */
const present = (where) => where.waitForResponse((answer) => answer.url().endsWith("/events?asks=1"));
const BANNER = "Calls that ask run unasked now.";

// spec: ASK-002 ASK-008 ASK-046
test("an open Asks page shows a call as it parks, and its button lets the same call go on", async () => {
  await Promise.all([present(page), person.signIn({ next: "/attention" })]);
  await until("a page without the banner", async () => (await page.getByText(BANNER).count()) === 0);
  await page.evaluate(() => { window.sameDocument = true; });
  const end = call({ filter: "a\u202eb <script>alert(1)</script>" });
  await cards().waitFor();
  assert.equal(await page.evaluate(() => window.sameDocument), true, "there was no reload");
  await until("the count in the title", async () => (await page.title()) === "(1) Asks · muster");
  assert.equal(await page.locator("nav.pages .badge").first().textContent(), ": 1 waiting");
  const words = await cards().textContent();
  for (const shown of ["muster_list_hosts", "helper", "Tidy up", "hosts_read", "host tower", "a\\u{202e}b <script>alert(1)</script>", "Allow for 60 seconds"]) {
    assert.ok(words.includes(shown), `${shown}: ${words}`);
  }
  await page.evaluate(axe());
  const found = await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id }) => id));
  assert.deepEqual(found, []);
  await press(cards().getByRole("button", { name: "Allow for 60 seconds" }));
  assert.equal(await end, "allowed");
  await page.getByText("Allowed: the call goes on").waitFor();
  assert.equal(await call({ filter: "anything" }), "allowed", "a matching call within the window");
});

// spec: ASK-003 ASK-009
test("of two who look at the same call one answers, and the other is told", async () => {
  const other = await Person.at(muster);
  await Promise.all([present(other.page), other.signIn({ next: "/attention" })]);
  const end = call({ two: 1 }, "muster_other_tool");
  await Promise.all([cards().waitFor(), cards(other.page).waitFor()]);
  const address = await cards(other.page).locator("form[data-key=a]").getAttribute("action");
  await press(cards().getByRole("button", { name: "Refuse" }));
  assert.equal(await end, "refused_by_person");
  await other.page.getByText("No call of an agent’s waits for you.").waitFor();
  const late = await other.context.request.post(address, { headers: { origin: muster.base }, maxRedirects: 0 });
  assert.equal(late.status(), 409);
  assert.match(await late.text(), /already decided or has ended: it is refused/);
  await other.leave();
});

test("keys answer the card that has the focus, and no other", async () => {
  const first = call({ n: 1 }, "muster_tool_one");
  await until("one card", async () => (await cards().count()) === 1);
  const second = call({ n: 2 }, "muster_tool_two");
  await until("two cards", async () => (await cards().count()) === 2);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("a");
  await page.keyboard.press("r");
  assert.equal(await cards().count(), 2, "no card has the focus");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  assert.match(await page.evaluate(() => document.activeElement.textContent), /muster_tool_two/, "oldest first");
  await page.keyboard.press("r");
  assert.equal(await second, "refused_by_person");
  await page.getByText("Refused: the call ended").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("a");
  assert.equal(await first, "allowed");
  await page.getByText("Allowed: the call goes on").waitFor();
});

// spec: ASK-027 ASK-035 ASK-039
test("a tab behind others can still show a call; when it closes nobody can be asked, and every page says so", async () => {
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  const end = call({ n: 3 }, "muster_tool_three");
  await cards().waitFor();
  const behind = await person.context.newPage();
  await behind.goto("/");
  assert.equal(await behind.getByText(BANNER).count(), 0);
  await press(cards().getByRole("button", { name: "Refuse" }));
  assert.equal(await end, "refused_by_person");
  await page.goto("/policies");
  await behind.getByText(BANNER).waitFor();
  assert.equal(await call({ n: 4 }, "muster_tool_four"), "allowed", "as the setting is shipped");
  await behind.getByRole("link", { name: "change the setting" }).click();
  await behind.getByLabel("asks.require_when_closed").selectOption("true");
  await behind.getByRole("button", { name: "Change asks.require_when_closed" }).click();
  await behind.getByText("The setting is changed").waitFor();
  assert.equal(await behind.getByText(BANNER).count(), 0);
  assert.equal(await call({ n: 5 }, "muster_tool_four"), "refused_app_closed_strict");
  await behind.close();
});

// spec: PRE-014
test("an absent, an empty and an authored layer look different, and a grant's form offers what its action is about", async () => {
  await person.open(`/policies/${policy}`);
  const looks = () => page.locator(".layer").evaluateAll((all) => all.map((layer) => {
    const { borderTopStyle, borderTopColor, backgroundColor } = getComputedStyle(layer);
    return `${borderTopStyle} ${borderTopColor} ${backgroundColor}`;
  }));
  await page.locator("#layer-task").getByRole("button", { name: "Save empty (denies everything)" }).click();
  await page.locator("#layer-task.is-empty").waitFor();
  const [authored, absent, empty] = await looks();
  assert.equal(new Set([authored, absent, empty]).size, 3);
  const tops = await page.locator(".layer").evaluateAll((all) => all.map((layer) => layer.getBoundingClientRect().top));
  assert.equal(new Set(tops).size, 1, "side by side");
  await page.locator("#layer-task").getByRole("button", { name: "Clear layer (inherits)" }).click();
  await page.locator("#layer-task.is-absent").waitFor();

  const offered = () => page.getByLabel("On", { exact: true }).evaluate((select) => Array.from(select.querySelectorAll("optgroup")).filter((group) => !group.hidden).map((group) => group.label));
  await page.getByLabel("Action").selectOption("hosts_read");
  assert.deepEqual(await offered(), ["host"]);
  await page.getByLabel("Action").selectOption("projects_read");
  assert.deepEqual(await offered(), ["project"]);
  await page.getByRole("region", { name: "Grant" }).getByLabel("Layer").selectOption("global");
  await page.getByLabel("On", { exact: true }).selectOption({ label: "project engine" });
  await page.getByRole("button", { name: "What would change" }).first().click();
  const preview = page.getByRole("region", { name: "What would change" });
  assert.match(await preview.textContent(), /projects_read\s*project engine\s*not_granted\s*allow/);
  await preview.getByRole("button", { name: "Grant" }).click();
  await page.getByText("Granted. It holds from the next call on.").waitFor();
  assert.match(await page.locator("#layer-global").textContent(), /projects_read on project engine/);
});

// spec: PRE-018 PRE-019 PRE-020 PRE-021
test("a preset on a task's permissions page forks the shared policy for that task alone", async () => {
  const shared = muster.command(["--json", "policy", "show", "shared"]);
  await person.open(`/tasks/${sibling}/permissions`);
  const before = await page.locator("#resolved").textContent();
  await person.open(`/tasks/${task}`);
  await page.getByRole("link", { name: "Its permissions" }).click();
  await page.getByLabel("Preset", { exact: true }).selectOption("reviewer");
  await page.getByRole("button", { name: "What would change" }).click();
  await page.getByText("This task gets a fork of its own").waitFor();
  await page.getByRole("button", { name: "Apply the preset" }).click();
  await page.getByText("This task has a fork of its own now").waitFor();
  assert.match(await page.locator("#layer-task").textContent(), /projects_read on project engine/);
  await person.open(`/tasks/${sibling}/permissions`);
  assert.equal(await page.locator("#resolved").textContent(), before);
  const after = JSON.parse(muster.command(["--json", "policy", "show", "shared"]));
  const { dependents: _was, ...same } = JSON.parse(shared);
  const { dependents, ...now } = after;
  assert.deepEqual(now, same, "the shared policy is as it was, revision included");
  assert.equal(dependents.tasks.length, 1);
});

// spec: AUDIT-008
test("the audit log is filtered and comes as a file of JSON lines", async () => {
  await person.open("/audit");
  await page.getByLabel("Outcome").fill("refused_by_person");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.waitForURL(/outcome=refused_by_person/);
  assert.equal(await page.locator("#log tbody tr").count(), 3);
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name: "Export as JSON lines" }).click()]);
  assert.equal(download.suggestedFilename(), "muster-audit.jsonl");
  const rows = (await readFile(await download.path(), "utf8")).trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(rows.map(({ outcome, decided_by: by, tool }) => [outcome, by, tool]), [
    ["refused_by_person", "ada", "muster_tool_three"],
    ["refused_by_person", "ada", "muster_tool_two"],
    ["refused_by_person", "ada", "muster_other_tool"],
  ]);
  await page.getByRole("button", { name: "Verify the chain" }).click();
  await page.getByText("The chain holds").waitFor();
});

test("a row of the audit log with long words folds, and the page does not scroll sideways", async () => {
  const long = muster.command(["token", "create", "--kind", "agent", "--task", task, "--label", "w".repeat(60)]);
  await call({ n: 7 }, `mcp__plugin_${"t".repeat(100)}`, long);
  for (const width of [1280, 720]) {
    await page.setViewportSize({ width, height: 900 });
    await person.open("/audit");
    const row = page.locator("#log tbody tr").filter({ hasText: "w".repeat(60) });
    await row.first().waitFor();
    const { scroll, cut } = await page.evaluate(() => ({
      scroll: document.documentElement.scrollWidth,
      cut: Array.from(document.querySelectorAll("#log, #log td")).filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.outerHTML.slice(0, 120)),
    }));
    assert.ok(scroll <= width, `scrolls sideways at ${width} pixels, by ${scroll - width}`);
    assert.deepEqual(cut, [], `something sticks out of its cell at ${width} pixels`);
  }
});

test("calls that wait no more are read back on a page of their own", async () => {
  await person.open("/attention");
  await page.getByRole("link", { name: "Ended" }).click();
  await page.waitForURL(/ended=1$/);
  const ended = page.locator("details[data-card]");
  const newest = ended.first();
  assert.ok((await ended.count()) >= 5);
  assert.equal(await newest.getByText("Allow for 60 seconds").count(), 0);
  const refused = ended.filter({ hasText: "muster_tool_three" });
  assert.match(await refused.locator("summary").textContent(), /refused/);
  await refused.locator("summary").click();
  await refused.getByText("You said no").waitFor();
  const words = await refused.textContent();
  for (const shown of ["ada", "helper", "host tower", "hosts_read"]) assert.ok(words.includes(shown), `${shown}: ${words}`);
  await page.evaluate(axe());
  const found = await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id }) => id));
  assert.deepEqual(found, []);
});

// spec: ASK-013
test("without a script the same buttons answer, beside somebody whose page counts", async () => {
  const plain = await Person.at(muster, { script: false });
  await plain.signIn({ next: "/attention" });
  assert.match(await plain.page.locator("main").textContent(), /Without JavaScript muster cannot tell that this page is open/);
  await Promise.all([present(page), person.open("/attention")]);
  muster.command(["policy", "attach", "shared", "--task", task]);
  const end = call({ n: 6 }, "muster_tool_six");
  await cards().waitFor();
  await plain.open("/attention");
  await cards(plain.page).getByRole("button", { name: "Allow for 60 seconds" }).click();
  await plain.page.waitForURL(`${muster.base}/attention`);
  assert.equal(await end, "allowed");
  await plain.leave();
  await person.leave();
});
