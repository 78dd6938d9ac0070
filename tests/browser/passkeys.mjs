// Passkeys with a real authenticator, virtual but the browser's own: made, used to sign in and to confirm, refused without its check of the
// person, useless once removed. Never mocks the browser's credentials.

import assert from "node:assert/strict";

import { HOUR, Muster, PASSWORD, Person, cardOf, press, test } from "./bench.mjs";

const muster = await Muster.serve({ name: "passkeys" });
muster.owner();
muster.chief();
const connector = muster.connector("mail");
const person = await Person.at(muster);
const { page } = person;

const devtools = await person.context.newCDPSession(page);
await devtools.send("WebAuthn.enable");
const { authenticatorId } = await devtools.send("WebAuthn.addVirtualAuthenticator", {
  options: {
    protocol: "ctap2",
    transport: "internal",
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true,
    automaticPresenceSimulation: true,
  },
});
const verified = (isUserVerified) => devtools.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified });
const held = async () => (await devtools.send("WebAuthn.getCredentials", { authenticatorId })).credentials;

const passkeys = () => page.getByRole("region", { name: "Passkeys" });
const refusal = () => page.locator("[data-passkey-error]").filter({ visible: true });
const signOut = async () => {
  await page.getByRole("button", { name: "Sign out", exact: true }).first().click();
  await page.waitForURL(`${muster.base}/sign-in`);
};
const withPasskey = async (name = "ada") => {
  await page.getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Sign in with a passkey" }).click();
};

// spec: UIP-007
test("a passkey is made on the settings and listed there", async () => {
  await person.signIn({ next: "/settings" });
  await passkeys().getByRole("button", { name: "Add a passkey" }).click();
  assert.equal(await refusal().textContent(), "Give the new passkey a name first.");
  await passkeys().getByLabel("Name of a new passkey").fill("phone <b>");
  await passkeys().getByRole("button", { name: "Add a passkey" }).click();
  await page.locator(".note").filter({ hasText: "The passkey is added" }).waitFor();
  assert.equal(await passkeys().getByRole("heading", { level: 3 }).textContent(), "phone <b>");
  assert.match(await passkeys().getByRole("listitem").textContent(), /never used/);
  const [credential, ...others] = await held();
  assert.equal(others.length, 0);
  assert.equal(credential.rpId, "localhost");
});

test("an authenticator that holds a passkey of the account makes no second one", async () => {
  await passkeys().getByLabel("Name of a new passkey").fill("again");
  await passkeys().getByRole("button", { name: "Add a passkey" }).click();
  await refusal().filter({ hasText: "already holds a passkey" }).waitFor();
  assert.equal((await held()).length, 1);
});

// spec: TOK-026
test("a passkey signs in without the password, and leads to the page that was asked for", async () => {
  await signOut();
  await person.open("/chief");
  await withPasskey();
  await page.waitForURL(`${muster.base}/chief`);
  assert.equal(await page.locator(".who").textContent(), "Signed in as ada");
  await person.open("/settings");
  assert.match(await passkeys().getByRole("listitem").textContent(), /last used just now/);
});

// spec: DRF-043 DRF-044 UIP-021 TOK-026
test("a sign-in of twelve hours approves; an older one confirms with the passkey first and comes back to the card", async () => {
  const fresh = await connector.message({ subject: "While it is fresh" });
  const old = await connector.message({ subject: "When it is old" });
  await person.open("/attention?tab=drafts");
  muster.later(12 * HOUR - 120);
  await page.reload();
  assert.equal(await page.getByText("your sign-in is older").count(), 0);
  await press(cardOf(page, fresh).getByRole("button", { name: "Approve and send" }));
  assert.equal(await cardOf(page, fresh).locator(".state").textContent(), "approved");

  muster.later(240);
  await page.reload();
  const card = cardOf(page, old);
  assert.match(await card.textContent(), /Approving asks for a passkey or your password first: your sign-in is older than 12 hours/);
  const id = await card.getAttribute("id");
  await press(card.getByRole("button", { name: "Approve and send" }));
  await page.waitForURL(/\/confirm\?next=/);
  assert.match(await page.locator(".lead").textContent(), /needs a sign-in from the last 12 hours.*othing (was done|has been approved) yet/);
  await page.getByRole("button", { name: "Confirm with a passkey" }).click();
  await page.waitForURL(`${muster.base}/attention?tab=drafts#${id}`);
  assert.equal(await card.locator(".state").textContent(), "pending", "confirming approves nothing");
  await press(card.getByRole("button", { name: "Approve and send" }));
  assert.equal(await card.locator(".state").textContent(), "approved");
});

test("an old sign-in makes itself no passkey and no mirror host token", async () => {
  muster.later(13 * HOUR);
  await person.open("/settings");
  await passkeys().getByLabel("Name of a new passkey").fill("another");
  await passkeys().getByRole("button", { name: "Add a passkey" }).click();
  await page.waitForURL(/\/confirm\?next=\/settings/);
  await person.open("/settings");
  const hosts = page.getByRole("region", { name: "Mirror host tokens" });
  await hosts.getByLabel("Label of a new token").fill("x");
  await hosts.getByLabel("Host").fill("x");
  await hosts.getByRole("button", { name: "Make a mirror host token" }).click();
  await page.waitForURL(/\/confirm\?next=\/settings/);
  await page.getByRole("button", { name: "Confirm with a passkey" }).click();
  await page.waitForURL(/\/settings#mirror-hosts$/);
  assert.equal(await page.locator("#new-token").count(), 0, "confirming makes nothing");
});

test("an authenticator that did not check who holds it is refused, by the browser and by muster", async () => {
  await signOut();
  await verified(false);
  await withPasskey();
  await refusal().filter({ hasText: "The passkey was not used" }).waitFor();

  // A page that asks for less than muster does gets an answer from the authenticator; muster refuses that answer.
  await page.evaluate(() => {
    const asked = navigator.credentials.get.bind(navigator.credentials);
    navigator.credentials.get = (options) => asked({ publicKey: { ...options.publicKey, userVerification: "discouraged" } });
  });
  await withPasskey();
  await refusal().filter({ hasText: "could not be verified; nothing was changed" }).waitFor();
  await verified(true);
  await person.open("/settings");
  assert.equal(new URL(page.url()).pathname, "/sign-in", "nobody was signed in");
});

test("a name without a passkey is asked for one as any other, which no authenticator has", async () => {
  muster.owner("grace");
  for (const name of ["grace", "nobody"]) {
    await person.open("/sign-in");
    await withPasskey(name);
    await refusal().filter({ hasText: "The passkey was not used" }).waitFor();
  }
});

test("under a bare address the page says where passkeys work, and the password works there too", async () => {
  person.allowed.add(muster.direct);
  await page.goto(`${muster.direct}/sign-in`);
  const note = page.locator("[data-passkey-elsewhere]");
  assert.equal(await note.textContent(), `Passkeys work where muster is opened as ${muster.base}.`);
  assert.equal(await page.getByRole("button", { name: "Sign in with a passkey" }).count(), 0);
  await person.fillSignIn("ada", PASSWORD);
  await page.waitForURL(`${muster.direct}/`);
  await page.goto(`${muster.direct}/settings`);
  assert.equal(await passkeys().getByRole("button", { name: "Add a passkey" }).count(), 0);
  await note.getByRole("link").click();
  await page.waitForURL(`${muster.base}/sign-in?next=/settings`);
});

// spec: UIP-007
test("a removed passkey signs in and confirms nothing", async () => {
  await withPasskey();
  await page.waitForURL(`${muster.base}/settings`);
  await passkeys().getByRole("button", { name: "Remove the passkey" }).click();
  await page.locator(".note").filter({ hasText: "The passkey is removed" }).waitFor();
  assert.equal(await passkeys().getByRole("listitem").count(), 0);
  assert.equal((await held()).length, 1, "the authenticator still has it");
  await person.open("/confirm?next=/");
  assert.equal(await page.getByRole("button", { name: "Confirm with a passkey" }).count(), 0);
  await person.open("/");
  await signOut();
  await withPasskey();
  await refusal().filter({ hasText: "The passkey was not used" }).waitFor();
  await person.open("/settings");
  assert.equal(new URL(page.url()).pathname, "/sign-in", "nobody was signed in");
  await person.leave();
});
