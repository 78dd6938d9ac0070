// What the browser tests stand on: starts the real program and a real browser, watches what pages do, ends what it started.
// Never talks to anything but this machine, and never leaves a process or a folder behind.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test as one } from "node:test";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));

function given(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; crates/muster/tests/browser.rs sets it`);
  return value;
}

const binary = given("MUSTER_TEST_BINARY");
const tools = createRequire(join(given("MUSTER_TEST_TOOLS"), "npm/"));
const { chromium } = tools("playwright-core");

/** The text of axe-core, to be put into a page. */
export const axe = () => tools("axe-core").source;

export const HOUR = 3600;
export const PASSWORD = "correct horse battery";

let failed = false;

/** A test of a story: each goes on where the one before ended, so after a failure the rest is skipped. */
export function test(name, story) {
  return one(name, async (context) => {
    if (failed) return context.skip("an earlier test failed");
    failed = true;
    await story(context);
    failed = false;
    return undefined;
  });
}

// ---- Ending what was started

const scratch = mkdtempSync(join(tmpdir(), "muster-browser-"));
const children = new Set();
let open = null;

process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(scratch, { recursive: true, force: true, maxRetries: 3 });
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));
const patience = Number(process.env.MUSTER_TEST_PATIENCE ?? 600) * 1000;
setTimeout(() => {
  console.error(`the browser tests did not end within ${patience / 1000} seconds`);
  process.exit(1);
}, patience).unref();

after(async () => {
  if (open) await (await open).close();
  await Promise.all([...children].map((child) => ended(child, "SIGTERM")));
});

/** A folder of its own, gone when the tests end. */
export function folder(name) {
  return mkdtempSync(join(scratch, `${name}-`));
}

// ---- The program

/** The environment without any setting of muster's, plus `settings`. */
function environment(settings) {
  const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("MUSTER_"));
  return { ...Object.fromEntries(kept), ...settings };
}

async function ended(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((resolve) => child.once("exit", resolve));
  child.kill(signal);
  const impatient = setTimeout(() => child.kill("SIGKILL"), 8000);
  await exit;
  clearTimeout(impatient);
  children.delete(child);
}

/** Starts the program and waits until `ready` stands on its standard output. */
async function start(args, settings, ready) {
  const child = spawn(binary, args, { env: environment(settings), stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  const said = { out: "", err: "" };
  child.stderr.setEncoding("utf8").on("data", (text) => { said.err += text; });
  const match = await new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`muster ${args[0]} did not start:\n${said.out}${said.err}`)), 60000);
    child.stdout.setEncoding("utf8").on("data", (text) => {
      said.out += text;
      const found = ready.exec(said.out);
      if (!found) return;
      clearTimeout(late);
      resolve(found);
    });
    child.once("exit", (code) => reject(new Error(`muster ${args[0]} ended with ${code}:\n${said.out}${said.err}`)));
  });
  return { child, said, match };
}

/** A server on a data folder of its own. */
export class Muster {
  static async serve({ name = "serve", settings = {}, plugins = true } = {}) {
    const muster = new Muster();
    muster.data = folder(name);
    muster.settings = { ...(plugins ? { MUSTER_PLUGINS: "1" } : {}), ...settings, MUSTER_TEST_CLOCK: join(muster.data, "clock") };
    muster.at = 0;
    muster.later(0);
    await muster.begin();
    return muster;
  }

  async begin() {
    const args = ["serve", "--data-dir", this.data, "--listen", "127.0.0.1:0"];
    const { child, said, match } = await start(args, this.settings, /listening on http:\/\/127\.0\.0\.1:(\d+)\n/);
    this.child = child;
    this.said = said;
    this.port = match[1];
    this.base = `http://localhost:${this.port}`;
    this.direct = `http://127.0.0.1:${this.port}`;
  }

  /** Moves the server's clock forward. */
  later(seconds) {
    this.at += seconds;
    const clock = join(this.data, "clock");
    writeFileSync(`${clock}.new`, String(this.at));
    renameSync(`${clock}.new`, clock);
  }

  /** Ends the server as Ctrl-C does; answers its exit code. */
  async stop() {
    await ended(this.child, "SIGINT");
    return this.child.exitCode;
  }

  /** Runs a command on the data folder and answers its standard output. */
  command(args, input = "") {
    const done = spawnSync(binary, ["--data-dir", this.data, ...args], { env: environment(this.settings), input, encoding: "utf8" });
    assert.equal(done.status, 0, `muster ${args.join(" ")}: ${done.stderr}`);
    return done.stdout.trim();
  }

  owner(name = "ada") {
    this.command(["owner", "add", name, "--password-stdin"], `${PASSWORD}\n`);
  }

  /** Makes the scripted chief the owner's chief. */
  chief(owner = "ada") {
    this.orders ??= folder("chief");
    const words = [process.execPath, join(here, "chief.mjs"), this.orders].map((word) => `'${word}'`);
    this.command(["chief", "set", "--owner", owner, "--runtime", "command", "--command", words.join(" ")]);
  }

  /** Tells the scripted chief what to do from now on; see chief.mjs. */
  order(orders) {
    writeFileSync(join(this.orders, "orders.json"), JSON.stringify(orders));
  }

  connector(name, { label = `Label of ${name}`, scope = "notes about the inbox", owner = "ada" } = {}) {
    const token = this.command(["connector", "add", name, "--owner", owner, "--label", label, "--data-scope", scope]);
    return new Connector(this, token);
  }
}

/** A connector: what it says to the connector API. */
export class Connector {
  constructor(muster, token) {
    this.muster = muster;
    this.token = token;
    this.sent = 0;
    this.told = new Map();
  }

  async say(path, body) {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    const answer = await fetch(`${this.muster.direct}/plugin/v1/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    const text = await answer.text();
    return { status: answer.status, body: text ? JSON.parse(text) : null };
  }

  /** Brings a message in and waits until the chief's turn about it has ended; answers its id. */
  async message(fields = {}, { wait = true } = {}) {
    this.sent += 1;
    const body = { external_id: `m${this.sent}`, sender: "Ada <ada@example.test>", subject: `Subject ${this.sent}`, body: "Hello.", sender_verified: true, ...fields };
    const answer = await this.say("messages", body);
    assert.equal(answer.status, 202, JSON.stringify(answer.body));
    this.told.set(answer.body.id, body);
    if (wait) await this.settled(answer.body.id);
    return answer.body.id;
  }

  /** Waits until the chief's turn about a message has ended. Asks as a connector does: by sending it once more. */
  settled(message) {
    return until("the end of the chief's turn", async () => (await this.say("messages", this.told.get(message))).body.status !== "queued");
  }

  claim(wait = 0) {
    return this.say("drafts/claim", { wait_seconds: wait });
  }

  result(draft, body) {
    return this.say(`drafts/${draft}/result`, body);
  }
}

/** The tour, and what it printed. */
export async function demo() {
  const data = join(folder("demo"), "tour");
  const { child, said, match } = await start(
    ["demo", "--data-dir", data],
    {},
    /listening on http:\/\/(\S+)\n[^]*\n {2}(http:\S+)\n[^]*\n {2}name +(\S+)\n {2}password +(\S+)\n[^]*Ctrl-C/,
  );
  const [, address, link, name, password] = match;
  return { child, said, data, address, link, name, password, base: new URL(link).origin, stop: () => ended(child, "SIGINT") };
}

// ---- The browser

const ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The one browser of this run. */
export function browser() {
  open ??= chromium.launch({ executablePath: given("MUSTER_TEST_CHROMIUM"), args: ARGS, headless: true });
  return open;
}

/**
 * A person with a browser profile of their own. Whatever a page of muster's must never do is noted in `faults`: ask another origin, open a
 * dialog, break the content security policy, throw.
 */
export class Person {
  static async at(muster, { script = true, width = 1280, height = 900, ...options } = {}) {
    const person = new Person();
    person.base = muster.base;
    person.context = await (await browser()).newContext({
      baseURL: muster.base,
      javaScriptEnabled: script,
      viewport: { width, height },
      reducedMotion: "reduce",
      ...options,
    });
    // A browser beside three other tests on two cores is slow; what does not come at all is told by any limit.
    person.context.setDefaultTimeout(60000);
    person.faults = [];
    person.allowed = new Set([muster.base]);
    person.watch();
    person.page = await person.context.newPage();
    return person;
  }

  watch() {
    this.context.on("request", (request) => {
      const url = new URL(request.url());
      if (!this.allowed.has(url.origin)) this.faults.push(`asked another origin: ${url.href}`);
    });
    this.context.on("dialog", (dialog) => {
      this.faults.push(`opened a dialog: ${dialog.message()}`);
      dialog.dismiss().catch(() => {});
    });
    this.context.on("weberror", (error) => this.faults.push(`threw: ${error.error().message}`));
    this.context.on("console", (message) => {
      // A refusal is a 4xx by design, and the browser notes each one.
      if (/^Failed to load resource: the server responded with a status of 4\d\d/.test(message.text())) return;
      if (message.type() === "error" || /content security policy/i.test(message.text())) this.faults.push(`complained: ${message.text()}`);
    });
  }

  /** Opens `path` and answers the response. */
  open(path) {
    return this.page.goto(path, { waitUntil: "load" });
  }

  async signIn({ name = "ada", password = PASSWORD, next = "/" } = {}) {
    await this.open(`/sign-in?next=${encodeURIComponent(next)}`);
    await this.fillSignIn(name, password);
    await this.page.waitForURL(new URL(next, this.base).href);
  }

  async fillSignIn(name, password) {
    await this.page.getByLabel("Name").fill(name);
    await this.page.getByLabel("Password").fill(password);
    await this.page.getByRole("button", { name: "Sign in", exact: true }).click();
  }

  async leave() {
    await this.context.close();
    assert.deepEqual(this.faults, []);
  }
}

/** Moves the focus with Tab alone until `matches` fits what has it. */
export async function tabTo(page, selector, most = 150) {
  for (let pressed = 0; pressed < most; pressed += 1) {
    await page.keyboard.press("Tab");
    const reached = await page.evaluate((wanted) => document.activeElement?.matches(wanted) ?? false, selector);
    if (reached) return;
  }
  assert.fail(`${selector} was not reached with ${most} presses of Tab`);
}

/**
 * Presses a button of a card and waits for the page that follows. A page that changed within the last half second holds a press back, and
 * muster's tests are quicker than any hand, so this waits that long and presses again when something moved meanwhile.
 */
export async function press(button) {
  const page = button.page();
  for (let tries = 0; tries < 6; tries += 1) {
    await new Promise((resolve) => setTimeout(resolve, 600));
    const followed = page.waitForEvent("framenavigated", { timeout: 2000 }).then(() => true, () => false);
    await button.click();
    if (await followed) return page.waitForLoadState("load");
  }
  return assert.fail("the button was pressed and nothing followed");
}

/** Asks again and again until `ask` answers something that is not null, false or undefined. */
export async function until(what, ask, seconds = 60) {
  for (let tries = 0; tries < seconds * 20; tries += 1) {
    const answer = await ask();
    if (answer) return answer;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return assert.fail(`within ${seconds} seconds there was not: ${what}`);
}

/** The card of the reply to a message, once the chief has drafted it: found by the message's number, which each card names. */
export function cardOf(page, message) {
  return page.locator("[data-card]").filter({ has: page.getByText(`as message ${message}`, { exact: true }) });
}

/** Where screenshots go, or null when nobody wants them. */
export function screenshots() {
  const wanted = process.env.MUSTER_TEST_SCREENSHOTS;
  if (!wanted) return null;
  if (!existsSync(wanted)) mkdirSync(wanted, { recursive: true });
  return wanted;
}
