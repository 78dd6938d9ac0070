// What an open page does by itself: new facts appear, and nothing is taken from the hand: no half-typed word, no focus, no opened part, no
// token shown elsewhere. Never a reload, except where the test says so.

import assert from "node:assert/strict";

import { Muster, PASSWORD, Person, cardOf, press, test, until } from "./bench.mjs";

const DRAFTS = "/attention?tab=drafts";
const muster = await Muster.serve({ name: "live" });
muster.owner();
const person = await Person.at(muster);
const { page } = person;
await person.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: muster.base });
const connector = muster.connector("mail", { label: "Inbox" });
const row = (where = page) => where.locator(".row").filter({ has: where.getByText("mail", { exact: true }) });
const seen = async () => Date.parse(await row().locator("dt:text-is('Last seen') + dd time").getAttribute("datetime"));
const stay = (where) => where.evaluate(() => { window.sameDocument = true; });
const stayed = async (where) => assert.equal(await where.evaluate(() => window.sameDocument), true, "there was no reload");

// spec: TOK-005 UIP-011
test("a new token is shown once, to the page that made it, also while the same page is open elsewhere and looks for news", async () => {
  await person.signIn({ next: "/plugins" });
  const other = await person.context.newPage();
  await other.goto("/plugins");
  await page.getByLabel("Name").fill("chat");
  await page.getByLabel("Label").fill("Chat");
  await page.getByLabel("Data scope").fill("nothing");
  await page.getByRole("button", { name: "Make the connector" }).click();
  await other.getByRole("heading", { name: "Chat chat" }).waitFor();
  const token = await page.locator("#new-token").textContent();
  assert.match(token, /^mpl_/);
  await page.getByRole("button", { name: "Copy" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), token);
  assert.equal(await other.locator("#new-token").count(), 0);
  await page.reload();
  assert.ok(!(await page.content()).includes(token));
  await other.close();
});

// spec: TOK-024 UIP-012
test("news keeps what is being typed, the focus and the place in the field", async () => {
  await page.getByLabel("Data scope").fill("half");
  await page.getByLabel("Name").fill("half-typed");
  await page.getByLabel("Name").evaluate((field) => field.setSelectionRange(2, 4));
  await stay(page);
  await connector.message({}, { wait: false });
  await row().getByText("1 message waiting").waitFor();
  await connector.message({}, { wait: false });
  await row().getByText("2 messages waiting").waitFor();
  await stayed(page);
  const field = await page.evaluate(() => {
    const { id, value, selectionStart, selectionEnd } = document.activeElement;
    return { id, value, selectionStart, selectionEnd };
  });
  assert.deepEqual(field, { id: "name", value: "half-typed", selectionStart: 2, selectionEnd: 4 });
  assert.equal(await page.getByLabel("Data scope").inputValue(), "half");
});

// spec: TOK-022 TOK-023
test("last seen moves with every call that carries the token, and with no other", async () => {
  const before = await seen();
  muster.later(3600);
  const stranger = await fetch(`${muster.direct}/plugin/v1/drafts/claim`, { method: "POST", headers: { authorization: "Bearer mpl_0" }, body: "{}" });
  assert.equal(stranger.status, 401);
  await page.reload();
  assert.equal(await seen(), before);
  assert.equal((await connector.claim()).status, 204);
  await page.reload();
  assert.ok((await seen()) - before >= 3_600_000, "an hour later");
});

// spec: UIP-016
test("a new card takes neither the focus nor the parts that were opened", async () => {
  muster.chief();
  await connector.claim();
  await person.open(DRAFTS);
  await until("both cards", async () => (await page.locator("article[data-card]").count()) === 2);
  await press(page.locator("article[data-card]").last().getByRole("button", { name: "Reject" }));
  assert.equal(await page.locator("details[data-card]").getAttribute("open"), "", "the address names it, so it is open");
  const reject = page.locator("article[data-card]").first().getByRole("button", { name: "Reject" });
  const mine = await reject.textContent();
  await reject.focus();
  await stay(page);
  const message = await connector.message({ subject: "The newest" });
  await cardOf(page, message).waitFor();
  await stayed(page);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), mine);
  assert.equal(await page.locator("details[data-card]").getAttribute("open"), "");
  await page.getByRole("status").filter({ hasText: "2 reply drafts await you." }).waitFor();
  assert.equal(await page.locator("nav .badge").first().textContent(), ": 2 waiting", "the navigation counts along");
});

test("a press that a card has just moved away from under the hand is held back", async () => {
  await until("a quiet page", () => page.evaluate(() => performance.now() > 600));
  const first = page.locator("article[data-card]").first();
  const id = await first.getAttribute("id");
  await first.locator("button.primary").hover();
  const message = await connector.message();
  const fresh = cardOf(page, message);
  await fresh.waitFor();
  await page.mouse.down();
  await page.mouse.up();
  await page.getByRole("status").filter({ hasText: "The page changed just now. Look again" }).waitFor();
  await stayed(page);
  for (const card of [fresh, page.locator(`#${id}`)]) assert.equal(await card.locator(".state").textContent(), "pending");

  await press(page.locator(`#${id} button.primary`));
  assert.equal(await page.locator(`#${id} .state`).textContent(), "approved");
});

// spec: UIP-008 UIP-018
test("the overview's notices and the card's buttons follow what happens elsewhere", async () => {
  await person.open("/");
  assert.equal(await page.locator("[data-notice]").count(), 2);
  const other = await person.context.newPage();
  await other.goto(DRAFTS);
  await stay(page);
  const approved = other.locator("article.approved");
  assert.equal(await approved.getByRole("button", { name: "Withdraw the approval" }).count(), 1);
  await stay(other);
  const claimed = await connector.claim();
  await other.locator("article.collected").waitFor();
  assert.equal(await other.getByRole("button", { name: "Withdraw the approval" }).count(), 0);
  await connector.result(claimed.body.draft_id, { ok: false, detail: "the server <b>said</b> no" });
  await other.locator(`details#draft-${claimed.body.draft_id}.failed`).waitFor();
  await until("a notice of the reply that failed", async () => (await page.locator("[data-notice]").count()) === 3);
  assert.equal(await page.locator("[data-notice]").getByText("A reply was not sent").count(), 1);
  await stayed(other);
  await press(other.locator("article.pending").first().getByRole("button", { name: "Reject" }));
  await until("one notice less", async () => (await page.locator("[data-notice]").count()) === 2);
  await stayed(page);
  await other.close();
});

// spec: UIP-005
test("the chief's page has a conversation for each connector, which grows while it is open", async () => {
  await person.open("/chief");
  assert.deepEqual((await page.locator("#conversations").getByRole("link").allTextContents()).sort(), ["Chat", "Inbox"]);
  await page.getByRole("link", { name: "Inbox" }).click();
  await page.waitForURL(/\/chief\/conversations\/\d+$/);
  const turns = page.locator("article.turn");
  const before = await turns.count();
  await stay(page);
  await connector.message({ body: "A new turn, @/etc/passwd and all." });
  await until("one more turn", async () => (await turns.count()) === before + 1);
  await turns.first().locator(".state").filter({ hasText: "delivered" }).waitFor();
  await stayed(page);
  assert.match(await turns.first().locator(".outside-text").textContent(), /^from:\n# /, "the message first");
  assert.ok(!(await turns.first().locator(".preface").isVisible()), "what is the same in each turn is folded away");
  assert.match(await turns.first().textContent(), /A new turn, ＠\/etc\/passwd and all\..*Read it, and did as the orders say\./s);
});

// spec: DRF-035
test("a link to a card leads to that card, also by way of the sign-in", async () => {
  const link = `${DRAFTS}#${await person.open(DRAFTS).then(() => page.locator("[data-card]").last().getAttribute("id"))}`;
  const visitor = await Person.at(muster, { height: 500 });
  await visitor.open(link);
  await visitor.fillSignIn("ada", PASSWORD);
  await visitor.page.waitForURL(`${muster.base}${link}`);
  const { y } = await visitor.page.locator(new URL(visitor.page.url()).hash).boundingBox();
  assert.ok(y >= 0 && y < 500, "the card is in view");
  await visitor.leave();
});

test("keys move from card to card, and from nowhere else", async () => {
  await person.open(DRAFTS);
  const at = () => page.evaluate(() => (document.activeElement.closest("[data-card]") ?? {}).id);
  const cards = await page.locator("[data-card]").evaluateAll((all) => all.map((card) => card.id));
  assert.ok(cards.length > 3);
  await page.keyboard.press("j");
  assert.equal(await at(), cards[0]);
  await page.keyboard.press("j");
  assert.equal(await at(), cards[1]);
  await page.keyboard.press("k");
  assert.equal(await at(), cards[0]);
  await person.open("/plugins");
  await page.getByLabel("Name").focus();
  await page.keyboard.type("jk");
  assert.equal(await page.getByLabel("Name").inputValue(), "jk");
  await person.leave();
});
