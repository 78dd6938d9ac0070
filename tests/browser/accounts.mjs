// Accounts in a real browser: the set-up link, signing in and out, tokens on /settings. Never looks behind the pages.

import assert from "node:assert/strict";

import { Muster, PASSWORD, Person, test } from "./bench.mjs";

const muster = await Muster.serve({ name: "accounts" });
const setup = /http:\/\/localhost:\d+(\/setup\?code=\S+)/.exec(muster.said.err)?.[1];
const person = await Person.at(muster);
const { page } = person;
const heading = () => page.getByRole("heading", { level: 1 }).textContent();

// spec: TOK-025
test("the set-up link makes the first owner, who is signed in, and then leads nowhere", async () => {
  assert.ok(setup, "the link stands on standard error");
  assert.equal((await person.open("/setup")).status(), 404);
  assert.equal((await person.open("/setup?code=0")).status(), 404);

  await person.open(setup);
  await page.getByLabel("Name").fill("ada");
  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByLabel("Password again").fill(`${PASSWORD}!`);
  await page.getByRole("button", { name: "Make the account" }).click();
  assert.match(await page.locator("#again-error").textContent(), /two passwords differ; nothing was stored/);
  assert.equal(await page.getByLabel("Name").inputValue(), "ada", "what was typed is kept");
  assert.equal(await page.evaluate(() => document.activeElement.id), "again", "the page begins at what is wrong");

  await page.getByLabel("Password", { exact: true }).fill(PASSWORD);
  await page.getByLabel("Password again").fill(PASSWORD);
  await page.getByRole("button", { name: "Make the account" }).click();
  await page.waitForURL(`${muster.base}/`);
  assert.equal(await page.locator(".who").textContent(), "Signed in as ada");

  assert.equal((await person.open(setup)).status(), 404);
  assert.equal(await heading(), "Nothing to set up here");
});

// spec: TOK-003 TOK-026
test("signed out, every page leads to the sign-in, and the sign-in leads back to the page", async () => {
  await person.open("/");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(`${muster.base}/sign-in`);
  for (const path of ["/", "/attention?tab=drafts", "/plugins", "/chief", "/settings", "/audit", "/confirm"]) {
    await person.open(path);
    assert.equal(new URL(page.url()).pathname, "/sign-in", path);
    assert.equal(await heading(), "Sign in");
  }

  await person.open("/plugins");
  for (const [name, password] of [["ada", "wrong password"], ["nobody", PASSWORD]]) {
    await person.fillSignIn(name, password);
    const refused = page.getByRole("alert").filter({ visible: true });
    assert.equal(await refused.textContent(), "This name and password do not belong to an account that may sign in.");
    assert.equal(await page.getByLabel("Name").inputValue(), name);
    assert.equal(await page.getByLabel("Password").inputValue(), "");
  }

  await person.fillSignIn("ada", PASSWORD);
  await page.waitForURL(`${muster.base}/plugins`);
  assert.equal(await heading(), "Connectors");
});

// spec: UIP-007
test("tokens of scripts and of mirror hosts are made on the settings, shown once, and revoked there", async () => {
  for (const [section, prefix, host] of [["Personal tokens", "mst_", null], ["Mirror host tokens", "mmh_", "tower"]]) {
    await person.open("/settings");
    const box = () => page.getByRole("region", { name: section });
    await box().getByLabel("Label of a new token").fill("laptop");
    if (host) await box().getByLabel("Host").fill(host);
    await box().getByRole("button", { name: "Make a" }).click();
    const token = await page.locator("#new-token").textContent();
    assert.ok(token.startsWith(prefix), section);
    await page.reload();
    assert.equal(await page.getByText(token).count(), 0, "shown once");
    assert.equal(await box().getByText("laptop").filter({ visible: true }).count() > 0, true);

    await box().getByRole("button", { name: "Revoke the token laptop" }).click();
    assert.match(await page.locator(".note").textContent(), /The token is revoked/);
    assert.equal(await box().getByText("revoked", { exact: true }).count(), 1);
    assert.equal(await box().getByRole("button", { name: "Revoke" }).count(), 0);
  }
});

// spec: UIP-007
test("signing out everywhere ends every browser's sign-in, and an open page says so by itself", async () => {
  const other = await Person.at(muster);
  await other.signIn({ next: "/attention?tab=drafts" });
  await person.open("/settings");
  await page.getByRole("button", { name: "Sign out everywhere" }).click();
  await page.waitForURL(`${muster.base}/sign-in`);
  await other.page.getByRole("status").filter({ hasText: "You are signed out" }).waitFor();
  await other.page.reload();
  assert.equal(new URL(other.page.url()).pathname, "/sign-in");
  await person.open("/settings");
  assert.equal(new URL(page.url()).pathname, "/sign-in");
  await other.leave();
});

// spec: TOK-025
test("a disabled account is refused at its next request and at the sign-in", async () => {
  muster.owner("grace");
  const grace = await Person.at(muster);
  await grace.signIn({ name: "grace" });
  muster.command(["owner", "disable", "grace"]);
  await grace.open("/settings");
  assert.equal(new URL(grace.page.url()).pathname, "/sign-in");
  await grace.fillSignIn("grace", PASSWORD);
  assert.match(await grace.page.getByRole("alert").filter({ visible: true }).textContent(), /account that may sign in/);
  await grace.leave();
});

test("nothing that a page must not do was done", async () => {
  await person.leave();
  assert.equal(await muster.stop(), 0);
});
