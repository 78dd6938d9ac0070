// Every page, for everybody: axe-core in light and dark on a phone and a desk, no sideways scrolling at 320 pixels, everything reachable with
// Tab and seen to have the focus, one heading and a title of its own, no motion where none is wanted. Takes the screenshots on the way.

import assert from "node:assert/strict";
import { appendFileSync, cpSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { HOUR, Muster, PASSWORD, Person, axe, folder, screenshots, test } from "./bench.mjs";

const DRAFTS = "/attention?tab=drafts";
const SIZES = { phone: { width: 360, height: 740 }, desktop: { width: 1280, height: 900 } };
const shots = screenshots();
const source = axe();
const titles = new Map();
const problems = [];

/** Looks at the page as it stands, in every size and colour scheme. */
async function look(page, name) {
  const problem = (words) => problems.push(`${name}: ${words}`);
  await frame(page, name, problem);
  for (const [size, viewport] of Object.entries(SIZES)) {
    await page.setViewportSize(viewport);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    if (wide > viewport.width) problem(`${size}: scrolls sideways, by ${wide - viewport.width}`);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      for (const found of await violations(page)) problem(`${size}, ${colorScheme}: ${found}`);
      if (await page.evaluate(crooked)) problem(`${size}: a cell of a table does not stand below its heading`);
      if (shots) await shoot(page, join(shots, `${name}-${size}-${colorScheme}.png`));
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 320, height: 640 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  if (wide > 320) problem(`scrolls sideways at 320 pixels, by ${wide - 320}`);
  await page.setViewportSize(SIZES.phone);
  await tab(page, problem);
}

const cameras = new Map();

/** The whole page as a picture, taken quickly rather than packed tightly. */
async function shoot(page, path) {
  if (!cameras.has(page)) cameras.set(page, await page.context().newCDPSession(page));
  const clip = await page.evaluate(() => ({ x: 0, y: 0, width: document.documentElement.clientWidth, height: document.documentElement.scrollHeight, scale: 1 }));
  const { data } = await cameras.get(page).send("Page.captureScreenshot", { format: "png", captureBeyondViewport: true, optimizeForSpeed: true, clip });
  await writeFile(path, Buffer.from(data, "base64"));
}

/** Looks at the pages at these addresses, two at a time; `ready` brings a page into the state that is to be seen. */
async function lookAtAll(addresses, ready = async () => {}) {
  const left = Object.entries(addresses);
  const lane = async (page) => {
    for (let next = left.shift(); next; next = left.shift()) {
      const [name, path] = next;
      await page.goto(path);
      await ready(page, name);
      await look(page, name);
    }
  };
  const other = await person.context.newPage();
  await Promise.all([lane(page), lane(other)]);
  await other.close();
}

/** Whether a table that is laid out as one has a cell that is not in its column. Runs in the page. */
function crooked() {
  const lefts = (cells) => Array.from(cells, (cell) => Math.round(cell.getBoundingClientRect().left)).join();
  const tables = Array.from(document.querySelectorAll("table")).filter((table) => getComputedStyle(table).display === "table");
  return tables.some((table) => Array.from(table.tBodies[0].rows).some((row) => lefts(row.cells) !== lefts(table.tHead.rows[0].cells)));
}

/** The title, the headings, the motion. */
async function frame(page, name, problem) {
  const title = await page.title();
  if (!title.endsWith(" · muster") || title.length < 12) problem(`the title is ${title}`);
  const other = titles.get(title);
  if (other && other !== name.split("-")[0]) problem(`the title ${title} is ${other}'s too`);
  titles.set(title, name.split("-")[0]);
  const headings = await page.locator("h1:visible").count();
  if (headings !== 1) problem(`${headings} headings of the first level`);
  const moving = await page.evaluate(() => {
    const seconds = (list) => Math.max(...list.split(",").map((one) => parseFloat(one)));
    const all = Array.from(document.querySelectorAll("*"), (element) => [element, getComputedStyle(element)]);
    return all.filter(([, style]) => seconds(style.transitionDuration) > 0 || style.animationName !== "none" || style.scrollBehavior === "smooth").length;
  });
  if (moving) problem(`${moving} elements move although no motion is wanted`);
}

async function violations(page) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(source);
  return page.evaluate(async () => {
    const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const { violations: found } = await window.axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
    return found
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html, failureSummary }) => `${html.slice(0, 160)} (${failureSummary})`).join(" | ")}`);
  });
}

/** Presses Tab until everything that takes it was reached, and looks whether it can be seen to have it. */
async function tab(page, problem) {
  let missed;
  // A page that brought itself up to date meanwhile has other elements now, and is looked at anew.
  for (let looks = 0; looks < 5; looks += 1) {
    missed = await tabThrough(page, problem);
    if (!missed) return;
    if (!missed.changed) break;
  }
  problem(`not reached with Tab: ${missed.words}`);
}

async function tabThrough(page, problem) {
  const wanted = await page.evaluate(() => {
    document.activeElement?.blur();
    const all = Array.from(document.querySelectorAll("a[href], button:enabled, input:enabled:not([type=hidden]), select, textarea, summary, [tabindex='0']"));
    window.wanted = all.filter((element) => element.getClientRects().length > 0 && element.checkVisibility());
    window.reached = new Set();
    return window.wanted.length;
  });
  let left = wanted;
  for (let pressed = 0; left > 0 && pressed < wanted * 2 + 5; pressed += 1) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const at = document.activeElement;
      if (!window.wanted.includes(at)) return { left: window.wanted.length - window.reached.size };
      window.reached.add(at);
      const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(at);
      const box = at.getBoundingClientRect();
      const seen = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && !/, 0\)$/.test(outlineColor);
      const inside = box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
      return { left: window.wanted.length - window.reached.size, seen, inside, html: at.outerHTML.slice(0, 120) };
    });
    left = stop.left;
    if (stop.html && !stop.seen) problem(`has the focus and does not show it: ${stop.html}`);
    if (stop.html && !stop.inside) problem(`has the focus out of sight: ${stop.html}`);
  }
  if (left === 0) return null;
  return page.evaluate(() => ({
    changed: window.wanted.some((element) => !element.isConnected || !element.checkVisibility()),
    words: window.wanted.filter((element) => !window.reached.has(element)).map((element) => element.outerHTML.slice(0, 120)).join(" | "),
  }));
}

function clean() {
  const found = problems.splice(0);
  assert.equal(found.length, 0, `\n${found.join("\n")}`);
}

// ---- A muster in which every state of everything can be seen, with the longest words it takes

const muster = await Muster.serve({ name: "access" });
const setup = /http:\/\/localhost:\d+(\/setup\?code=\S+)/.exec(muster.said.err)[1];
const person = await Person.at(muster);
const { page } = person;
const long = (length) => "wwwwwwwwww".repeat(20).slice(0, length);

async function post(path, form = {}) {
  const answer = await person.context.request.post(path, { form, headers: { origin: muster.base }, maxRedirects: 0 });
  assert.equal(answer.status(), 303, `${path}: ${await answer.text()}`);
}

async function numberOf(message) {
  const html = await (await person.context.request.get(DRAFTS)).text();
  const found = [...html.matchAll(/id="draft-(\d+)"[^]*?as message (\d+)</g)].find((card) => Number(card[2]) === message);
  return Number(found[1]);
}

async function populate() {
  const connector = muster.connector("mail", { label: "Inbox", scope: "notes about the inbox" });
  muster.connector("gone", { label: long(80), scope: long(200) });
  muster.command(["connector", "revoke", "gone"]);
  muster.connector(`chat.${long(59)}`, { label: long(80), scope: long(200) });
  muster.chief();
  const draft = async (fields) => numberOf(await connector.message(fields));

  const failing = await draft({ subject: "Invoice 2041", sender: "Billing <billing@example.test>", sender_verified: false });
  await post(`/attention/drafts/${failing}/approve`);
  const sent = await draft({ subject: "Minutes of Monday", sender: "Grace <grace@example.test>" });
  await post(`/attention/drafts/${sent}/approve`);
  for (const result of [{ ok: false, detail: `552 5.3.4 too big\n${long(190)}` }, { ok: true, external_ref: `<${long(90)}@example.test>` }]) {
    const claimed = await connector.claim();
    await connector.result(claimed.body.draft_id, result);
  }
  await post(`/attention/drafts/${await draft({ subject: "Buy now", sender: "Shop <shop@example.test>", sender_verified: false })}/reject`);
  const twice = await connector.message({ subject: "Which room?", sender: "Lin <lin@example.test>" });
  await post(`/attention/drafts/${await numberOf(twice)}/approve`);
  await connector.claim();
  muster.later(200);
  muster.order({ replies: ["The first room.", "The second room, after another look."], to: twice });
  await connector.message({ subject: "One more", no_reply: true });
  await connector.message({ subject: "And one" });

  muster.order({ break: true });
  await connector.message({ subject: long(200), sender: long(200), sender_verified: false });
  await connector.message({ subject: "Broken off", sender: "Bob <bob@example.test>" });

  muster.order({ replies: ["Yes, of course."] });
  await post(`/attention/drafts/${await draft({ subject: "Collected", sender: "Eve <eve@example.test>" })}/approve`);
  await connector.claim();
  await post(`/attention/drafts/${await draft({ subject: "Approved", sender: "Ida <ida@example.test>" })}/approve`);
  muster.order({ replies: [`Caf\u00e9 at noon?\n\nIt is the one with the \\n on its sign. ${long(150)}\n\nAda`] });
  await connector.message({ subject: long(200), sender: `${long(180)}@example.test`, sender_verified: false, body: `<script>alert(1)</script>\n${long(200)}\n${"line\n".repeat(40)}` });
  muster.order({ replies: ["Thank you, noon on Thursday works for me. I look forward to it."] });
  await connector.message({ subject: "Lunch on Thursday?", sender: "Ada <ada@example.com>", body: "Hi,\n\ndo you have time for lunch on Thursday? Noon would suit me.\n\nAda" });

  for (const [kind, label] of [["personal", "laptop"], ["personal", long(80)], ["agent", "helper"]]) {
    muster.command(["token", "create", "--kind", kind, "--label", label]);
  }
  muster.command(["token", "create", "--kind", "mirror-host", "--label", "tower", "--host", long(80)]);
  muster.command(["token", "create", "--kind", "personal", "--label", "lost"]);
  const lost = JSON.parse(muster.command(["--json", "token", "list"])).find(({ label }) => label === "lost");
  await post(`/settings/tokens/${lost.id}/revoke`);
}

/** Projects, policies and tasks in every state, their words as long as they can be. */
function govern() {
  const made = (args, input) => muster.command(args, input);
  for (const name of ["engine", long(64)]) made(["project", "add", name, "--root", folder("project")]);
  for (const name of ["tower", long(64)]) made(["host", "add", name]);
  const policy = made(["policy", "create", "shared"]);
  const grant = (layer, action, scope, effect) => made(["policy", "grant", "shared", "--layer", layer, action, scope, effect]);
  grant("global", "hosts_read", "host:tower", "ask");
  grant("global", "projects_read", `project:${long(64)}`, "allow");
  grant("project", "hosts_read", "any", "allow");
  grant("task", "projects_read", "any", "allow");
  made(["policy", "fork", "shared", `f${long(63)}`]);
  const task = made(["task", "add", "--project", "engine", "--title", "Tidy up", "--policy", "shared"]);
  made(["task", "add", "--project", long(64), "--title", long(200), "--unscoped"]);
  made(["task", "add", "--project", "engine", "--title", "Nobody's", "--body", `<b>no</b>\n${long(150)}`]);
  made(["task", "spawn", task]);
  const file = `${folder("databases")}/shop.db`;
  writeFileSync(file, "");
  const database = `sqlite://${file}`;
  for (const name of ["shop", long(64)]) made(["db", "add", name, "--project", long(64), "--url", database]);
  made(["db", "shell", "shop", "--write"], `CREATE TABLE cats (name);\nSELECT '${long(300)}' AS\n"<b>no</b>" FROM cats;\n`);
  made(["db", "check", "shop"]);
  grant("global", "db_read", "db_connection:shop", "ask");
  grant("task", "db_read", "any", "allow");
  grant("project", "db_read", "any", "allow");
  return { policy, task };
}

// ---- The pages

test("setting up and signing in", async () => {
  await person.open(setup);
  await look(page, "setup");
  await page.getByLabel("Name").fill("Ada!");
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByLabel("Password again").fill("something else");
  await page.getByRole("button", { name: "Make the account" }).click();
  await page.locator("#again-error").waitFor();
  await look(page, "setup-refused");

  muster.owner();
  await person.open("/sign-in");
  await look(page, "sign_in");
  await person.fillSignIn("ada", "wrong password");
  await page.getByRole("alert").first().waitFor();
  await look(page, "sign_in-refused");
  clean();
});

test("before anything is set up", async () => {
  await person.signIn();
  await lookAtAll({ "overview-newcomer": "/", "drafts-empty": DRAFTS, "plugins-empty": "/plugins", "chief-empty": "/chief", "settings-empty": "/settings", "asks-empty": "/attention", "ended-empty": "/attention?ended=1", "policies-empty": "/policies", "tasks-empty": "/tasks", "projects-empty": "/projects", "databases-empty": "/databases", "packages-empty": "/plugins/packages" });
  clean();
});

test("with everything there is, the pages that show it", async () => {
  await populate();
  const [conversation] = (await (await person.context.request.get("/chief")).text()).match(/\/chief\/conversations\/\d+/);
  const addresses = { drafts: DRAFTS, overview: "/", archive: `${DRAFTS}&archived=1`, conversation, plugins: "/plugins", chief: "/chief", audit: "/audit" };
  await lookAtAll(addresses, async (at, name) => {
    if (name === "drafts") assert.ok((await at.locator("[data-card]").count()) >= 10);
    if (name === "drafts" || name === "plugins") for (const part of await at.locator("main details > summary").all()) await part.click();
  });
  clean();
});

test("with everything there is, the pages of policies, tasks and projects", async () => {
  const { policy, task } = govern();
  const addresses = {
    policies: "/policies",
    policy: `/policies/${policy}`,
    "policy-preview": `/policies/${policy}?act=preset&layer=global&preset=observer&project=1`,
    tasks: "/tasks",
    task: `/tasks/${task}`,
    permissions: `/tasks/${task}/permissions`,
    "permissions-preview": `/tasks/${task}/permissions?act=preset&layer=task&preset=reviewer`,
    projects: "/projects",
    databases: "/databases",
    database: "/databases/1",
    asks: "/attention",
    "audit-verified": "/audit?verify=1",
  };
  await lookAtAll(addresses, async (at) => {
    for (const part of await at.locator("main details > summary").all()) await part.click();
  });
  clean();
});

/** A package in the middle of its life: approved, used, changed since. */
async function unpack() {
  const source = join(folder("packages"), "forecast-tools");
  cpSync(join(dirname(fileURLToPath(import.meta.url)), "../../examples/plugins/forecast-tools"), source, { recursive: true });
  muster.command(["plugins", "install", source]);
  muster.command(["plugins", "approve", "forecast-tools"]);
  const task = muster.command(["task", "add", "--project", "engine", "--title", "Look at the weather"]);
  const token = muster.command(["token", "create", "--kind", "agent", "--task", task]);
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  const answer = await fetch(`${muster.direct}/packages/forecast-tools/forecast/mcp`, { method: "POST", headers, body });
  assert.equal(answer.status, 200, await answer.text());
  appendFileSync(join(source, "mcp/server.py"), "# changed\n");
  writeFileSync(join(source, "data", long(180)), "x");
  muster.command(["plugins", "update", "forecast-tools"]);
}

test("with everything there is, the pages of packages", async () => {
  await unpack();
  await lookAtAll({ packages: "/plugins/packages", package: "/plugins/packages/forecast-tools" });
  clean();
});

test("with everything there is, the connectors' form", async () => {
  await person.open("/plugins");
  await page.getByLabel("Name").fill("new");
  await page.getByLabel("Label").fill("New");
  await page.getByLabel("Data scope").fill("notes");
  await page.getByRole("button", { name: "Make the connector" }).click();
  await page.locator("#new-token").waitFor();
  await look(page, "plugins-token");
  await page.getByLabel("Name").fill("Bad name");
  await page.getByLabel("Label").fill("x");
  await page.getByLabel("Data scope").fill("x");
  await page.getByRole("button", { name: "Make the connector" }).click();
  await page.locator("#name-error").waitFor();
  await look(page, "plugins-refused");
  clean();
});

test("with everything there is, the settings, a confirmation and a refusal", async () => {
  const devtools = await person.context.newCDPSession(page);
  await devtools.send("WebAuthn.enable");
  const options = { protocol: "ctap2", transport: "internal", hasResidentKey: true, hasUserVerification: true, isUserVerified: true, automaticPresenceSimulation: true };
  await devtools.send("WebAuthn.addVirtualAuthenticator", { options });
  await person.open("/settings");
  await page.getByLabel("Name of a new passkey").fill(long(80));
  await page.getByRole("button", { name: "Add a passkey" }).click();
  await page.locator(".note").filter({ hasText: "The passkey is added" }).waitFor();
  await look(page, "settings");
  const personal = page.getByRole("region", { name: "Personal tokens" });
  await personal.getByLabel("Label of a new token").fill("another");
  await personal.getByRole("button", { name: "Make a personal token" }).click();
  await page.locator("#new-token").waitFor();
  await look(page, "settings-token");
  muster.later(13 * HOUR);
  await person.open(`/confirm?next=${encodeURIComponent(DRAFTS)}`);
  await page.getByRole("button", { name: "Confirm with a passkey" }).waitFor();
  await look(page, "confirm");
  await person.open("/nothing");
  await look(page, "refusal");
  clean();
});

// spec: UIP-009
test("a phone shows the pages at its own width, with room for a finger", async () => {
  const phone = await Person.at(muster, { ...SIZES.phone, isMobile: true, hasTouch: true, deviceScaleFactor: 2, storageState: await person.context.storageState() });
  for (const path of ["/", DRAFTS, "/plugins", "/settings", "/audit", "/attention", "/attention?ended=1", "/policies", "/policies/1", "/tasks", "/tasks/1", "/projects", "/databases", "/databases/1", "/plugins/packages", "/plugins/packages/forecast-tools"]) {
    await phone.open(path);
    assert.equal(await phone.page.evaluate(() => innerWidth), 360, path);
    const small = await phone.page.evaluate(() => {
      const all = Array.from(document.querySelectorAll("button, .button, input:not([type=hidden]), select, summary, nav a")).filter((element) => element.checkVisibility());
      return all.filter((element) => element.getBoundingClientRect().height < 44).map((element) => element.outerHTML.slice(0, 100));
    });
    assert.deepEqual(small, [], `${path}: what a finger presses is at least 44 pixels high`);
  }
  await phone.leave();
  await person.leave();
});
