// The one script: keeps an open page up to date, moves by keys, talks to passkeys. Every act works without it; it never acts by itself.
"use strict";

(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const announcer = document.getElementById("announce");

  function announce(words) {
    if (!announcer || !words) return;
    announcer.textContent = "";
    // A fresh node, so that the same words are spoken again.
    setTimeout(() => { announcer.textContent = words; }, 50);
  }

  // ---- Times, in the same words as the server's ----

  function counted(count, what) {
    return `${count} ${what}${count === 1 ? "" : "s"}`;
  }

  function toTheNearest(seconds) {
    const nearest = (unit) => Math.floor((seconds + unit / 2) / unit) * unit;
    if (seconds < 60) return seconds;
    if (nearest(60) < 3600) return nearest(60);
    return nearest(3600) < 86400 ? nearest(3600) : nearest(86400);
  }

  function relative(at, now) {
    const past = at <= now;
    let seconds = Math.floor(Math.abs(now - at) / 1000);
    if (!past) seconds = toTheNearest(seconds);
    if (seconds < 60) return past ? "just now" : "in less than a minute";
    if (seconds >= 60 * 86400) return null;
    let span;
    if (seconds < 3600) span = counted(Math.floor(seconds / 60), "minute");
    else if (seconds < 86400) span = counted(Math.floor(seconds / 3600), "hour");
    else span = counted(Math.floor(seconds / 86400), "day");
    return past ? `${span} ago` : `in ${span}`;
  }

  // The server's clock counts, also where this machine's differs: the page says what the server calls now.
  let offset = 0;

  function setClock(page) {
    const now = Date.parse(page.body.dataset.now || "");
    if (!Number.isNaN(now)) offset = Math.abs(now - Date.now()) > 5000 ? now - Date.now() : 0;
  }

  function tellTimes(root = document) {
    const now = Date.now() + offset;
    for (const time of all("time[datetime]", root)) {
      const at = Date.parse(time.dateTime);
      const words = relative(at, now);
      if (words && time.textContent !== words) time.textContent = words;
      if (!time.dataset.local && !Number.isNaN(at)) {
        time.dataset.local = "1";
        time.title = `${new Date(at).toLocaleString()} (${time.title})`;
      }
    }
  }

  // ---- A spelled reply: the same characters, with the spellings coloured and a line's end shown as one ----

  const SPELLING = /\\\\|\\n|\\u\{[0-9a-f]+\}/g;

  function colourSpellings(root = document) {
    for (const pre of all("[data-spelled]", root)) {
      const text = pre.textContent;
      const parts = [];
      let end = 0;
      for (const found of text.matchAll(SPELLING)) {
        parts.push(text.slice(end, found.index));
        const span = document.createElement("span");
        span.className = "spelled";
        span.textContent = found[0];
        parts.push(span);
        if (found[0] === "\\n") parts.push(document.createElement("br"));
        end = found.index + found[0].length;
      }
      parts.push(text.slice(end));
      pre.replaceChildren(...parts);
      pre.removeAttribute("data-spelled");
    }
  }

  // ---- Live fragments: fetch the same page, put in what differs, keep focus, open parts and what is being typed ----

  const served = new WeakMap();
  let changedAt = Number.NEGATIVE_INFINITY;

  // What the server sent for a node, without the words of times, which differ with every look.
  function signature(node) {
    if (node.nodeType !== Node.ELEMENT_NODE) return node.textContent.trim();
    const copy = node.cloneNode(true);
    for (const time of all("time", copy)) { time.textContent = ""; }
    return copy.outerHTML;
  }

  function remember(root) {
    for (const live of all("[data-live]", root)) {
      for (const child of live.children) served.set(child, signature(child));
    }
  }

  function key(element, index) {
    return element.id || `${element.tagName}-${index}`;
  }

  function isBeingTyped(element) {
    const chosen = (field) => (field.localName === "select"
      ? Array.from(field.options).some((option) => option.selected !== option.defaultSelected) && field.selectedIndex > 0
      : field.value !== field.defaultValue);
    return all("input, select", element).some((field) => field.type !== "hidden" && (field === document.activeElement || chosen(field)));
  }

  // Where the focus was inside `element`, in terms that hold for its successor too.
  function focusWithin(element) {
    const active = document.activeElement;
    if (!element.contains(active)) return null;
    if (active.id) return `#${CSS.escape(active.id)}`;
    const form = active.closest("form");
    if (form) return `form[action="${CSS.escape(form.getAttribute("action"))}"] ${active.localName}`;
    if (active.localName === "a") return `a[href="${CSS.escape(active.getAttribute("href"))}"]`;
    if (active.localName === "summary") return "summary";
    return "";
  }

  function replace(before, after) {
    const focus = focusWithin(before);
    for (const part of [before, ...all("details", before)]) {
      if (part.localName !== "details" || !part.open || !part.id) continue;
      const successor = after.id === part.id ? after : after.querySelector(`#${CSS.escape(part.id)}`);
      if (successor) successor.open = true;
    }
    before.replaceWith(after);
    if (focus !== null) {
      const target = (focus && (after.matches(focus) ? after : after.querySelector(focus))) || after;
      target.focus({ preventScroll: true });
    }
  }

  function patch(live, fresh) {
    const wanted = Array.from(fresh.children);
    const before = new Map(Array.from(live.children).map((child, index) => [key(child, index), child]));
    const marks = wanted.map((child) => signature(child));
    let moved = false;
    wanted.forEach((child, index) => {
      const name = key(child, index);
      const old = before.get(name);
      if (!old) { moved = true; return; }
      before.delete(name);
      if (served.get(old) === marks[index] || isBeingTyped(old)) {
        wanted[index] = old;
      } else {
        const node = document.importNode(child, true);
        served.set(node, marks[index]);
        replace(old, node);
        wanted[index] = node;
        moved = true;
      }
    });
    let lostFocus = false;
    for (const gone of before.values()) {
      lostFocus ||= gone.contains(document.activeElement);
      gone.remove();
      moved = true;
    }
    wanted.forEach((child, index) => {
      if (live.children[index] === child) return;
      let node = child;
      if (node.ownerDocument !== document) {
        node = document.importNode(child, true);
        served.set(node, marks[index]);
      }
      live.insertBefore(node, live.children[index] || null);
    });
    if (lostFocus) {
      const heading = document.getElementById(live.dataset.heading || "") || document.getElementById("main");
      heading.focus({ preventScroll: true });
    }
    if (moved) {
      changedAt = performance.now();
      colourSpellings(live);
      all("[data-grant]", live).forEach(narrowScopes);
    }
  }

  // What is worth saying aloud: cards whose state is another now, and the sentences of fragments that changed.
  function sayings() {
    const cards = all("[data-says]").map((card) => [card.id, card.dataset.says]);
    const fragments = all("[data-spoken]").map((live) => [`live ${live.dataset.live}`, live.dataset.spoken]);
    return new Map([...cards, ...fragments]);
  }

  function sayWhatChanged(before) {
    const news = Array.from(sayings()).filter(([id, words]) => before.has(id) && before.get(id) !== words).map(([, words]) => words);
    announce(news.slice(0, 3).join(" "));
  }

  let looking = false;
  let lookAgain = false;

  async function refresh() {
    if (looking) { lookAgain = true; return; }
    looking = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin", cache: "no-store" });
      if (answer.redirected || !answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      setClock(page);
      document.title = page.title;
      const before = sayings();
      for (const live of all("[data-live]")) {
        const fresh = page.querySelector(`[data-live="${CSS.escape(live.dataset.live)}"]`);
        if (!fresh) continue;
        patch(live, fresh);
        if (fresh.dataset.spoken !== undefined) live.dataset.spoken = fresh.dataset.spoken;
      }
      sayWhatChanged(before);
      tellOfAsks();
      tellTimes();
    } catch {
      // The server is away; the stream's own retry brings the next look.
    } finally {
      looking = false;
      if (lookAgain) { lookAgain = false; refresh(); }
    }
  }

  // A page that has just changed under a hand that did not move: the press was meant for what stood there before.
  const hand = { x: -1, y: -1, aimedAt: Number.NEGATIVE_INFINITY, pressedAt: Number.NEGATIVE_INFINITY };
  document.addEventListener("pointermove", (event) => {
    if (event.clientX === hand.x && event.clientY === hand.y) return;
    Object.assign(hand, { x: event.clientX, y: event.clientY, aimedAt: performance.now() });
  }, { capture: true, passive: true });
  document.addEventListener("pointerdown", () => { hand.pressedAt = performance.now(); }, { capture: true, passive: true });
  document.addEventListener("submit", (event) => {
    const byHand = performance.now() - hand.pressedAt < 1000;
    if (event.target.matches("[data-careful]") && byHand && hand.aimedAt < changedAt && hand.pressedAt - changedAt < 500) {
      event.preventDefault();
      announce("The page changed just now. Look again, then press once more.");
    }
  });

  // ---- New notices, as the browser's own notifications, when the person asked for them ----

  const TELL = "muster-tell";
  const wantsTelling = () => "Notification" in window && Notification.permission === "granted" && localStorage.getItem(TELL) === "1";
  let known = null;

  async function lookAtNotices() {
    if (!wantsTelling()) return;
    const answer = await fetch(document.body.dataset.notices, { credentials: "same-origin", cache: "no-store" });
    if (answer.redirected || !answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const open = all("[data-notice]", page);
    const newest = Math.max(known || 0, ...open.map((notice) => Number(notice.dataset.notice)));
    // Who looks at the page sees them there.
    if (known !== null && !document.hasFocus()) {
      for (const notice of open.filter((notice) => Number(notice.dataset.notice) > known)) tell(notice);
    }
    known = newest;
  }

  function tell(notice) {
    const link = notice.querySelector("a");
    const words = notice.querySelector(".notice-body");
    const shown = new Notification(link.textContent, { body: words ? words.textContent : "", tag: `muster-${notice.dataset.notice}` });
    shown.onclick = () => { window.focus(); location.assign(link.getAttribute("href")); shown.close(); };
  }

  // A call that parks while nobody looks at the page that shows it.
  let knownAsks = new Set();
  const askCards = () => all("article[data-card]").map((card) => card.id).filter((id) => id.startsWith("ask-"));

  function tellOfAsks() {
    const now = askCards();
    const fresh = now.filter((id) => !knownAsks.has(id));
    knownAsks = new Set(now);
    if (fresh.length === 0 || document.hasFocus() || !wantsTelling()) return;
    const shown = new Notification("A call waits for you", { body: "An agent asks before it goes on.", tag: `muster-${fresh.at(-1)}` });
    shown.onclick = () => { window.focus(); shown.close(); };
  }

  function offerTelling() {
    const box = document.querySelector("[data-tell-box]");
    if (!box || !("Notification" in window) || !window.isSecureContext) return;
    const button = box.querySelector("[data-tell]");
    const show = () => {
      const on = wantsTelling();
      button.setAttribute("aria-pressed", String(on));
      button.textContent = on ? "Do not tell me any more" : "Tell me";
    };
    button.addEventListener("click", async () => {
      if (wantsTelling()) {
        localStorage.removeItem(TELL);
      } else if (await Notification.requestPermission() === "granted") {
        localStorage.setItem(TELL, "1");
        await lookAtNotices();
      } else {
        announce("This browser does not allow notifications from this site.");
      }
      show();
    });
    box.hidden = false;
    show();
  }

  // ---- The stream of hints ----

  // A browser keeps six connections to a server, so only a page that is seen holds one; of those that are not, one, when it is to tell, and
  // one, when asks are answered on it: that page can still show one, and its stream is what muster takes for somebody who can be asked.
  function listen() {
    const address = document.body.dataset.events;
    if (!address || !("EventSource" in window)) return;
    const answers = address.includes("asks=1");
    let stream = null;
    let release = null;
    let queued = null;
    const look = () => { refresh(); lookAtNotices().catch(() => {}); };
    const stop = () => {
      if (stream) stream.close();
      stream = null;
    };
    const start = () => {
      if (stream) return;
      stream = new EventSource(address);
      // Also after a lost connection: what changed meanwhile sent its hint to nobody.
      stream.addEventListener("open", look);
      stream.addEventListener("changed", look);
      stream.addEventListener("signed-out", () => {
        stop();
        announce("You are signed out. Load the page again to sign in.");
      });
      // A server that could not answer ends the stream for good; one that is away is asked again by the browser itself.
      stream.addEventListener("error", (event) => {
        if (event.target.readyState !== EventSource.CLOSED || event.target !== stream) return;
        stream = null;
        setTimeout(() => { if (!document.hidden || release) start(); }, 5000);
      });
    };
    const holdInBackground = (lock) => {
      if (!lock || !document.hidden) {
        if (document.hidden) stop();
        return undefined;
      }
      start();
      return new Promise((resolve) => { release = resolve; });
    };
    // The pages that nobody looks at stand in line: when the one that holds the stream is closed, the next one takes its place.
    const standInLine = () => {
      queued = new AbortController();
      const { signal } = queued;
      navigator.locks.request("muster-asks", { ifAvailable: true }, (lock) => {
        if (lock) return holdInBackground(lock);
        if (!document.hidden || signal.aborted) return undefined;
        stop();
        navigator.locks.request("muster-asks", { signal }, holdInBackground).catch(() => {});
        return undefined;
      });
    };
    const leaveLine = () => {
      if (queued) queued.abort();
      queued = null;
    };
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) {
        leaveLine();
        if (release) release();
        release = null;
        start();
      } else if (answers) {
        if (navigator.locks) standInLine();
      } else if (wantsTelling() && navigator.locks) {
        navigator.locks.request("muster-background", { ifAvailable: true }, holdInBackground);
      } else {
        stop();
      }
    });
    addEventListener("pagehide", stop);
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
    if (!document.hidden) start();
    else if (answers) (navigator.locks ? standInLine : start)();
  }

  // ---- Keys ----

  function move(step) {
    const cards = all("[data-card]");
    if (cards.length === 0) return;
    const here = cards.findIndex((card) => card.contains(document.activeElement));
    const next = here < 0 ? (step > 0 ? 0 : cards.length - 1) : Math.min(Math.max(here + step, 0), cards.length - 1);
    const card = cards[next];
    (card.localName === "details" ? card.querySelector("summary") : card).focus({ preventScroll: true });
    card.scrollIntoView({ block: "start" });
  }

  // Presses the button that this key stands for, on the card that has the focus and on no other.
  function answer(event) {
    const at = document.activeElement;
    const card = at && at.closest("[data-card]");
    const form = card && card.querySelector(`form[data-key="${CSS.escape(event.key)}"]`);
    if (!form) return;
    event.preventDefault();
    form.requestSubmit();
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    const at = event.target;
    if (at instanceof Element && (at.closest("input, textarea, select") || at.isContentEditable)) return;
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (!event.repeat) answer(event);
  });

  // A link to a decided draft opens it.
  function openTarget() {
    let target = null;
    try {
      target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    } catch {
      return;
    }
    if (target && target.localName === "details") target.open = true;
  }

  // A link to a card leads to the card also by way of the sign-in: the browser keeps what follows #, the server never sees it.
  function keepTarget() {
    if (location.hash.length < 2) return;
    for (const field of all("form[action='/sign-in'] input[name=next]")) {
      if (!field.value.includes("#")) field.value += location.hash;
    }
    for (const box of all("[data-passkey=sign-in]")) {
      if (!box.dataset.next.includes("#")) box.dataset.next += location.hash;
    }
  }

  // ---- Passkeys ----

  const toBytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0)).buffer;
  const toText = (buffer) => btoa(Array.from(new Uint8Array(buffer), (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

  class Refused extends Error {
    constructor(words, next) {
      super(words);
      this.next = next;
    }
  }

  async function send(address, body) {
    const answer = await fetch(address, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      credentials: "same-origin",
      body: JSON.stringify(body),
    });
    const isJson = (answer.headers.get("content-type") || "").startsWith("application/json");
    if (answer.redirected || !isJson) throw new Refused("Your sign-in has ended, or muster could not answer. Load the page again.");
    const sent = await answer.json();
    if (!answer.ok) throw new Refused(sent.error || "muster refused this.", sent.next);
    return sent;
  }

  function withIds(list) {
    return (list || []).map((entry) => ({ ...entry, id: toBytes(entry.id) }));
  }

  async function prove(options) {
    const given = options.publicKey;
    const publicKey = { ...given, challenge: toBytes(given.challenge), allowCredentials: withIds(given.allowCredentials) };
    const got = await navigator.credentials.get({ publicKey });
    return {
      id: got.id,
      rawId: toText(got.rawId),
      type: got.type,
      extensions: got.getClientExtensionResults(),
      response: {
        authenticatorData: toText(got.response.authenticatorData),
        clientDataJSON: toText(got.response.clientDataJSON),
        signature: toText(got.response.signature),
        userHandle: got.response.userHandle ? toText(got.response.userHandle) : null,
      },
    };
  }

  async function make(options) {
    const given = options.publicKey;
    const publicKey = {
      ...given,
      challenge: toBytes(given.challenge),
      user: { ...given.user, id: toBytes(given.user.id) },
      excludeCredentials: withIds(given.excludeCredentials),
    };
    const made = await navigator.credentials.create({ publicKey });
    return {
      id: made.id,
      rawId: toText(made.rawId),
      type: made.type,
      extensions: made.getClientExtensionResults(),
      response: {
        attestationObject: toText(made.response.attestationObject),
        clientDataJSON: toText(made.response.clientDataJSON),
        transports: made.response.getTransports ? made.response.getTransports() : null,
      },
    };
  }

  const CEREMONIES = {
    "sign-in": async (box) => {
      const name = document.getElementById("name").value.trim();
      if (!name) throw new Refused("Type your name first; the passkey is looked up by it.");
      const begun = await send("/sign-in/passkey/begin", { name });
      return send("/sign-in/passkey/finish", { ceremony: begun.ceremony, answer: await prove(begun.options), next: box.dataset.next });
    },
    confirm: async (box) => {
      const begun = await send("/confirm/passkey/begin", {});
      return send("/confirm/passkey/finish", { ceremony: begun.ceremony, answer: await prove(begun.options), next: box.dataset.next });
    },
    register: async (box) => {
      const label = box.querySelector("[data-passkey-label]").value.trim();
      if (!label) throw new Refused("Give the new passkey a name first.");
      const begun = await send("/settings/passkeys/begin", {});
      return send("/settings/passkeys/finish", { ceremony: begun.ceremony, label, answer: await make(begun.options) });
    },
  };

  function words(error) {
    if (error instanceof Refused) return error.message;
    switch (error.name) {
      case "NotAllowedError": return "The passkey was not used: it was declined, or it took too long. Try again, or use your password.";
      case "InvalidStateError": return "This authenticator already holds a passkey of your account.";
      case "SecurityError": return "The browser does not allow a passkey at this address.";
      case "NotSupportedError": return "This authenticator cannot make the kind of passkey that muster takes.";
      case "TypeError": return "muster did not answer. Check that it runs, then try again.";
      default: return "The passkey could not be used. Try again, or use your password.";
    }
  }

  // A whole new page, also when only the part behind # differs.
  function goTo(address) {
    const next = new URL(address, location.href);
    if (next.origin !== location.origin) return;
    const same = next.pathname === location.pathname && next.search === location.search;
    location.assign(next.href);
    if (same) location.reload();
  }

  function offerPasskeys() {
    for (const note of all("[data-passkey-elsewhere]")) {
      if (location.origin === note.dataset.origin) {
        if (!window.PublicKeyCredential) {
          note.textContent = "This browser has no passkeys. Use your password.";
          note.hidden = false;
        }
        continue;
      }
      const link = document.createElement("a");
      link.href = note.dataset.origin + location.pathname + location.search;
      link.textContent = note.dataset.origin;
      note.append("Passkeys work where muster is opened as ", link, ".");
      note.hidden = false;
    }
    for (const box of all("[data-passkey]")) {
      if (location.origin !== box.dataset.origin || !window.PublicKeyCredential) continue;
      const button = box.querySelector("[data-passkey-act]");
      const error = box.querySelector("[data-passkey-error]");
      button.addEventListener("click", async () => {
        button.disabled = true;
        error.hidden = true;
        try {
          const done = await CEREMONIES[box.dataset.passkey](box);
          goTo(done.next);
        } catch (failure) {
          if (failure instanceof Refused && failure.next) { goTo(failure.next); return; }
          error.textContent = words(failure);
          error.hidden = false;
        } finally {
          button.disabled = false;
        }
      });
      box.hidden = false;
    }
  }

  // ---- A grant's form: only the resources whose kind the chosen action is about ----

  function narrowScopes(form) {
    const action = form.querySelector("[data-grant-action]");
    const scope = form.querySelector("[data-grant-scope]");
    const kinds = (action.selectedOptions[0].dataset.kinds || "").split(" ");
    for (const group of all("optgroup", scope)) {
      group.hidden = !kinds.includes(group.dataset.kind);
      group.disabled = group.hidden;
    }
    if (scope.selectedOptions[0] && scope.selectedOptions[0].parentElement.disabled) scope.value = "any";
  }

  document.addEventListener("change", (event) => {
    const form = event.target.closest("[data-grant]");
    if (form) narrowScopes(form);
  });

  // ---- Copying a token ----

  function offerCopies() {
    if (!navigator.clipboard) return;
    for (const button of all("[data-copy]")) {
      button.hidden = false;
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
          button.textContent = "Copied";
          announce("Copied.");
        } catch {
          announce("The browser did not allow copying. Select the token and copy it.");
        }
      });
    }
  }

  setClock(document);
  remember(document);
  colourSpellings();
  tellTimes();
  setInterval(tellTimes, 20000);
  openTarget();
  keepTarget();
  addEventListener("hashchange", openTarget);
  for (const line of all("[data-keys]")) { line.hidden = false; }
  offerPasskeys();
  offerTelling();
  offerCopies();
  all("[data-grant]").forEach(narrowScopes);
  knownAsks = new Set(askCards());
  listen();
})();
