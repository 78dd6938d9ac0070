// Every act of the inbox loop in a browser whose scripts are off: create, approve, reject, withdraw, confirm, retry, revoke. Never a press
// that a script would have to make work.

import assert from "node:assert/strict";

import { Connector, HOUR, Muster, PASSWORD, Person, cardOf, test } from "./bench.mjs";

const muster = await Muster.serve({ name: "without-script" });
muster.owner();
muster.chief();
const person = await Person.at(muster, { script: false });
const { page } = person;
const DRAFTS = "/attention?tab=drafts";
let connector = null;

const acts = async (card) => (await card.getByRole("button").allTextContents()).map((words) => words.replace(/ (of )?reply draft \d+/, ""));
const state = (card) => card.locator(".state").first().textContent();
const heading = () => page.getByRole("heading", { level: 1 }).textContent();

/** Presses one of a card's buttons, which leads back to the drafts, or to where `leads` says. */
async function press(card, name, leads = /\/attention\?tab=drafts#draft-\d+$/) {
  await card.getByRole("button", { name }).click();
  await page.waitForURL(leads);
}

// spec: UIP-020 TOK-001 TOK-004 TOK-005 UIP-010 UIP-011 UIP-012
test("the sign-in and the connector's form work, and the new token is shown once", async () => {
  await person.signIn({ next: "/plugins" });
  await page.getByLabel("Name").fill("Mail!");
  await page.getByLabel("Label").fill("Inbox <i>");
  await page.getByLabel("Data scope").fill("notes about the inbox");
  await page.getByRole("button", { name: "Make the connector" }).click();
  assert.equal(await page.getByLabel("Name").getAttribute("aria-invalid"), "true");
  assert.equal(await page.evaluate(() => document.activeElement.id), "name", "the page begins at what is wrong");
  assert.equal(await page.getByLabel("Label").inputValue(), "Inbox <i>", "what was typed is kept");
  assert.equal(await page.locator("#new-token").count(), 0);

  await page.getByLabel("Name").fill("mail");
  await page.getByRole("button", { name: "Make the connector" }).click();
  await page.waitForURL(`${muster.base}/plugins`);
  const token = await page.locator("#new-token").textContent();
  assert.match(token, /^mpl_[0-9A-Za-z_-]{20,}$/);
  assert.match(await page.locator(".secret").textContent(), /it is not shown again/);
  await person.open("/plugins");
  assert.ok(!(await page.content()).includes(token), "shown once");
  const row = page.locator(".row").filter({ hasText: "mail" });
  assert.equal(await row.getByRole("heading").textContent(), "Inbox <i> mail");
  assert.match(await row.textContent(), /Data scope\s*notes about the inbox\s*Last seen\s*never\s.*0 messages waiting/s);
  connector = new Connector(muster, token);

  await page.getByLabel("Name").fill("mail");
  await page.getByLabel("Label").fill("x");
  await page.getByLabel("Data scope").fill("x");
  await page.getByRole("button", { name: "Make the connector" }).click();
  assert.match(await page.locator("#name-error").textContent(), /already have a live connector of this name/);
});

// spec: DRF-036 DRF-037 DRF-038 DRF-039 DRF-040 DRF-041 DRF-042 UIP-016 UIP-017 UIP-019 UIP-020
test("a card shows the message as text and the reply exactly as it will be sent", async () => {
  const printable = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at)).join("").replace("\\", "");
  muster.order({ replies: [`${printable}\ncaf\u00e9 \\n`] });
  const message = await connector.message({
    sender: "<b>Mallory</b>",
    subject: "<script>alert(1)</script>",
    body: "<img src=x onerror=alert(1)>\nsecond line",
    sender_verified: false,
  });
  await person.open(DRAFTS);
  const card = cardOf(page, message);
  assert.equal(await card.locator(".reply-text").textContent(), `${printable}\\ncaf\\u{e9} \\\\n`);
  const read = card.locator(".reply-read");
  assert.ok(!(await read.isVisible()), "the spelled text is what is seen first");
  await card.getByText("As the reader will see it").click();
  assert.ok(await read.isVisible());
  assert.equal(await read.textContent(), `${printable}\ncaf\u00e9 \\n`);
  assert.match(await card.locator(".reply-label").textContent(), new RegExp(`${94 + 1 + 7} characters`));
  const box = card.getByRole("group", { name: "Untrusted text from outside" });
  assert.ok(await box.getByText("Untrusted text from outside").isVisible());
  assert.equal(await box.locator("pre").textContent(), "<img src=x onerror=alert(1)>\nsecond line");
  assert.match(await box.textContent(), /From\s*<b>Mallory<\/b>.*UNVERIFIED.*Subject\s*<script>alert\(1\)<\/script>/s);
  assert.match(await card.textContent(), /through Inbox <i>.*Written just now, expires in [67] days/s);
  assert.deepEqual(await acts(card), ["Approve and send", "Reject"]);
});

// spec: UIP-020 DRF-081
test("Reject rejects, and the draft stands under Archived with what became of it", async () => {
  const card = page.locator("article[data-card]");
  await press(card, "Reject");
  const archived = page.locator("details[data-card]");
  assert.equal(await state(archived), "rejected");
  await archived.locator(":scope > summary").click();
  assert.ok(await archived.getByText("You rejected it. Nothing was sent.").isVisible());
  assert.equal(await page.getByText("No reply draft awaits you.").count(), 1);
  await page.getByRole("navigation", { name: "Asks" }).getByRole("link", { name: "Archived" }).click();
  assert.equal(await heading(), "Archived reply drafts");
  assert.equal(await state(page.locator("details[data-card]")), "rejected");
});

// spec: DRF-047 DRF-048 UIP-018
test("an approval that nobody collected is withdrawn, and then nobody collects it", async () => {
  muster.order({ replies: ["Thank you."] });
  const message = await connector.message();
  await person.open(DRAFTS);
  const card = cardOf(page, message);
  await press(card, "Approve and send");
  assert.equal(await state(card), "approved");
  assert.deepEqual(await acts(card), ["Withdraw the approval"]);
  await press(card, "Withdraw the approval");
  assert.equal(await state(card), "rejected");
  await card.locator(":scope > summary").click();
  assert.ok(await card.getByText("You withdrew the approval before a connector collected it.").isVisible());
  assert.equal((await connector.claim()).status, 204);
});

// spec: DRF-049 DRF-051 UIP-018
test("pages that are behind change nothing: a decided draft is not decided again, a collected one not withdrawn", async () => {
  const message = await connector.message();
  await person.open(DRAFTS);
  const card = cardOf(page, message);
  const stale = [];
  for (const name of ["Approve and send", "Reject"]) {
    const other = await person.context.newPage();
    await other.goto(DRAFTS);
    stale.push([name, other]);
  }
  await press(card, "Approve and send");
  for (const [name, other] of stale) {
    await cardOf(other, message).getByRole("button", { name }).click();
    await other.getByRole("heading", { level: 1, name: "Not done" }).waitFor();
    assert.match(await other.locator(".lead").textContent(), /This draft is approved and no longer pending; nothing was changed\./);
    await other.close();
  }

  const claimed = await connector.claim();
  assert.equal(claimed.status, 200);
  await card.getByRole("button", { name: "Withdraw the approval" }).click();
  assert.equal(await heading(), "Not done");
  assert.match(await page.locator(".lead").textContent(), /The connector already collected this reply, so its approval cannot be withdrawn; nothing was changed\./);
  await page.getByRole("link", { name: "Back to the reply drafts" }).click();
  assert.equal(await state(card), "collected");
  assert.deepEqual(await acts(card), []);
  assert.match(await card.textContent(), /it cannot be withdrawn any more\. Its time to report ends in [12] minute/);

  assert.equal((await connector.result(claimed.body.draft_id, { ok: true, external_ref: "<sent-1@example.test>" })).status, 200);
  await person.open(DRAFTS);
  assert.equal(await state(card), "sent");
  await card.locator(":scope > summary").click();
  assert.ok(await card.getByText("<sent-1@example.test>").isVisible());
});

// spec: DRF-052 DRF-079
test("a reply that was collected and never reported is shown as unconfirmed, and the next card warns that the sender may get both", async () => {
  muster.order({ replies: ["The first answer."] });
  const message = await connector.message();
  await person.open(DRAFTS);
  const card = cardOf(page, message);
  await press(card, "Approve and send");
  assert.equal((await connector.claim()).status, 200);
  muster.later(150);
  await person.open(DRAFTS);
  assert.equal(await state(card), "unconfirmed", "also when nobody claims");
  await card.locator(":scope > summary").click();
  assert.ok(await card.getByText("It may have been sent; it is never offered again.").isVisible());
  assert.equal(await page.getByText("the sender may get both").count(), 0);

  muster.order({ replies: ["The second answer."], to: message });
  await connector.message();
  await person.open(DRAFTS);
  const next = cardOf(page, message).first();
  assert.equal(await state(next), "pending");
  assert.ok(await next.getByText("the sender may get both").isVisible());
});

// spec: RTY-001 UIP-015 RTY-002 UIP-020
test("a message whose turn broke off is listed with Retry, and Retry hands it to the chief again", async () => {
  muster.order({ break: true });
  const message = await connector.message({ sender: "Bob <bob@example.test>", subject: "<u>Broken</u> off", sender_verified: false });
  muster.later(13 * HOUR);
  await person.open("/plugins");
  const section = page.getByRole("region", { name: "Not confirmed by your chief" });
  const row = section.getByRole("listitem");
  assert.equal(await row.count(), 1);
  assert.match(await row.textContent(), /Bob <bob@example\.test>.*UNVERIFIED.*<u>Broken<\/u> off.*through Inbox <i>, stored 13 hours ago, 1 attempt/s);

  muster.order({ replies: ["Sorry for the delay."] });
  await row.getByRole("button", { name: `Retry message ${message}` }).click();
  await page.waitForURL(`${muster.base}/plugins#unconfirmed`);
  assert.match(await page.locator(".note").textContent(), /queued again and on its way to your chief/);
  assert.equal(await row.count(), 0);
  await connector.settled(message);
  await person.open(DRAFTS);
  assert.equal(await state(cardOf(page, message)), "pending");
});

// spec: RTY-004
test("without a chief Retry is disabled and the section says why", async () => {
  muster.order({ break: true });
  await connector.message();
  muster.command(["chief", "remove"]);
  await person.open("/plugins");
  const section = page.getByRole("region", { name: "Not confirmed by your chief" });
  assert.equal(await section.getByRole("button", { name: "Retry" }).isDisabled(), true);
  assert.ok(await section.getByText("You have no chief, so nothing can be retried.").isVisible());
  muster.chief();
  await person.open("/plugins");
  assert.equal(await section.getByRole("button", { name: "Retry" }).isDisabled(), false);
});

// spec: DRF-044 DRF-045 DRF-046 UIP-021 UIP-020
test("an old sign-in rejects at once, but is asked for the password before it approves, and comes back to the card", async () => {
  muster.order({ replies: ["One.", "Two."] });
  const first = await connector.message();
  const second = await connector.message();
  await person.open(DRAFTS);
  assert.match(await cardOf(page, first).last().textContent(), /superseded/, "the chief's second draft took the place of its first");
  const one = cardOf(page, first).first();
  const two = cardOf(page, second).first();
  assert.match(await one.textContent(), /Approving asks for a passkey or your password first/);
  await press(one, "Reject");
  assert.equal(await state(one), "rejected");

  const back = new RegExp(`/attention\\?tab=drafts#${await two.getAttribute("id")}$`);
  await press(two, "Approve and send", /\/confirm\?next=/);
  assert.equal(await heading(), "Confirm that it is you");
  await page.getByLabel("Password").fill("not this");
  await page.getByRole("button", { name: "Confirm" }).click();
  assert.match(await page.locator("#confirm-error").textContent(), /not the password of your account\. Nothing was confirmed/);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Confirm" }).click();
  await page.waitForURL(back);
  assert.equal(await state(two), "pending", "confirming approves nothing");
  await press(two, "Approve and send", back);
  assert.equal(await state(two), "approved");
});

// spec: TOK-002 UIP-012
test("Revoke ends the connector: its token is refused and its approved replies say so", async () => {
  await person.open("/plugins");
  await page.getByRole("button", { name: "Revoke the connector mail" }).click();
  await page.waitForURL(`${muster.base}/plugins`);
  assert.match(await page.locator(".note").textContent(), /its token is refused from now on/);
  assert.equal((await connector.claim()).status, 401);
  assert.equal(await page.getByRole("button", { name: "Revoke" }).count(), 0);
  await page.getByText("Revoked (1)").click();
  assert.ok(await page.getByText("revoked just now").isVisible());
  await person.leave();
});
