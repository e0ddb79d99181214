// Every page works without this file. It keeps pages fresh and answers keys.

// --- Live parts -------------------------------------------------------------------------------
// The stream sends the newest state of a part. What is under the pointer or has the focus waits.

const live = document.getElementById("live");
const HELD = "#queue, #runs"; // lists whose rows must not move under the pointer
const POLL = 5000; // milliseconds between looks while there is no stream
const SILENCE = 20000; // milliseconds: a server that hangs closes nothing, one that works is heard every 15 s
let heard = Date.now();

const PARTS = ["#waiting", "#run", "#card", ".queuepage > #strip", "#overview", "#views", "#queue", "#runs", "#boards"];
let known = new Date(); // when what the page shows was last known to be so

function showLive(isLive) {
  if (!live) return;
  if (!live.classList.contains("stale")) known = new Date(heard);
  live.classList.toggle("stale", !isLive);
  live.firstElementChild.textContent = isLive ? "Live" : "Updates on reload";
  if (isLive) showAway(false);
  else look();
}

// Without a stream the page looks for itself. It says when there is nobody to answer.
async function look() {
  const isThere = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(POLL) }).then((answer) => answer.ok, () => false);
  const isFresh = isThere && (await refresh(PARTS.filter((part) => !isInUse(document.querySelector(part) ?? live))));
  if (!live.classList.contains("stale")) return;
  if (isFresh) known = new Date();
  showAway(!isThere);
  if (isFresh) live.firstElementChild.textContent = `Updated every ${POLL / 1000} s`;
}

function showAway(isAway) {
  const away = document.querySelector("#away");
  if (away.hidden === !isAway) return;
  const time = away.querySelector("time");
  time.dateTime = known.toISOString();
  localise(away);
  away.hidden = !isAway;
}

function isInUse(part) {
  return part.matches(":hover") || (part.contains(document.activeElement) && document.activeElement !== document.body);
}

// What the server refused stays to be read until it is dismissed.
function keepNotice(part, fresh) {
  const notice = document.querySelector(`${part} #notice`);
  if (notice?.childElementCount) fresh.querySelector("#notice")?.replaceWith(notice.cloneNode(true));
}

// Who may not decide, for now or any more, gets no form. One that was begun stays, without its
// buttons: the swap keeps what is typed in it and, while the request waits, where the caret is.
function keepForm(part, fresh) {
  const form = document.querySelector(`${part} #dform`);
  const place = fresh.querySelector("[data-withheld]:not([data-withheld=yes])");
  const isUsed = form?.contains(document.activeElement) && place?.dataset.withheld !== "ended";
  if (form && place && (isUsed || isBegun(form))) place.append(form.closest(".cq").cloneNode(true));
}

// What a form answers to: the first yes of two that it shows, and the answers that it offers. That
// it can be passed on now is no reason to make it anew; that it no longer can is one.
function answersOf(form) {
  return [form.elements.approval?.value, ...[...form.querySelectorAll("[name=verdict]:not([value=pass])")].map((radio) => radio.value)].join();
}

// What is typed in a form is left alone. Where it would answer to something else, it is made anew,
// with the draft in it; not while a yes is withheld, as it then comes back to what was typed.
function renewForm(part, fresh) {
  const form = document.querySelector(`${part} #dform`);
  const other = fresh.querySelector("#dform");
  if (!form || !other) return;
  const isStuck = form.querySelector("[value=pass]") && !other.querySelector("[value=pass]");
  if (answersOf(form) === answersOf(other) && !isStuck) return;
  if (fresh.querySelector("[data-withheld]") && isBegun(form)) return;
  const { name } = form.contains(document.activeElement) ? document.activeElement : {};
  form.replaceWith(document.importNode(other, true));
  if (name) document.querySelector(`#dform [name="${name}"]:not([type=radio]), #dform [name="${name}"]:checked`)?.focus();
}

// What comes while somebody decides is announced at the answers, and nothing above them moves.
function announce(fresh) {
  const news = document.querySelector(".read #same") ? null : fresh.querySelector(".read #same");
  if (news && document.querySelector("#dform")) fresh.querySelector("#deciding").prepend(news);
}

// Access has ended, or the page is gone: the page itself knows what to say about it.
const leave = () => location.replace(live.dataset.address ?? location.pathname + location.search);

// What was announced is asked for until an answer comes.
async function follow(parts) {
  if (!(await refresh(parts))) setTimeout(follow, POLL, parts);
}

let asked = 0;
const shown = {}; // by part, the number of the request whose answer it shows

// Asks for the page's content and takes over only the parts that are named.
async function refresh(parts) {
  const present = parts.filter((part) => document.querySelector(part));
  if (!present.length) return true;
  const headers = { "HX-Request": "true", "HX-Current-URL": location.href };
  if (present.join() === "#queue") headers["HX-Target"] = "queue"; // nothing else is drawn
  const address = new URL(live.dataset.address ?? location.href, location.href);
  const newest = document.querySelector("#queue")?.dataset.newest;
  if (newest) address.searchParams.set("since", newest);
  const number = ++asked;
  const answer = await fetch(address, { headers }).catch(() => null);
  if ([401, 403, 404, 410].includes(answer?.status)) {
    leave(); // asking again is no use
    return true;
  }
  const page = answer?.ok ? await answer.text().catch(() => null) : null;
  if (page === null) return false;
  if (answer.headers.has("HX-Redirect")) location.assign(answer.headers.get("HX-Redirect"));
  const fresh = new DOMParser().parseFromString(page, "text/html");
  for (const part of present) {
    const node = fresh.querySelector(part);
    if (!node || shown[part] > number) continue; // a later answer came first
    shown[part] = number;
    keepNotice(part, node);
    keepForm(part, node);
    renewForm(part, node);
    announce(node);
    document.querySelectorAll("details.fold[open]").forEach((fold) => fresh.getElementById(fold.id)?.setAttribute("open", ""));
    const text = `<hx-partial hx-target="${part}" hx-swap="outerMorph">${node.outerHTML}</hx-partial>`;
    await htmx.swap({ sourceElement: live, target: live, swap: "none", text });
  }
  return true;
}

const held = new Set();
let isAsked = false; // the reader wants to see it now

// What a list holds, without its clocks: the same list again is no news.
function contents(list) {
  return [...list.querySelectorAll("li[id], tr[id]")].map((row) => row.id + (row.querySelector(".end, .chip")?.textContent ?? "")).join();
}

// How many requests have come since those that the queue shows.
function arrivals(fragment) {
  const count = Number(fragment.querySelector("#queue")?.dataset.arrived ?? 0);
  return count ? `${count} new request${count > 1 ? "s" : ""}` : "";
}

function hold(part, words = "") {
  held.add(part);
  document.querySelectorAll(`${part} .news`).forEach((news) => {
    if (words) news.textContent = words;
    news.hidden = false;
  });
}

async function letGo() {
  const free = [...held].filter((part) => !document.querySelector(part) || !isInUse(document.querySelector(part)));
  if (!free.length) return;
  free.forEach((part) => held.delete(part));
  if (!(await refresh(free))) free.forEach((part) => held.add(part));
}

// A reader may hold a part that changes by itself, and take over what is new when they are ready.
const holder = document.querySelector("[data-hold]");

function isPaused(part) {
  return holder?.getAttribute("aria-pressed") === "true" && part.matches(holder.dataset.hold);
}

function showNews(isNew) {
  document.querySelector("[data-hold-news]").textContent = isNew ? "There is something new." : "";
}

if (live) {
  if (holder) {
    holder.hidden = false;
    holder.addEventListener("click", () => {
      const isOn = holder.getAttribute("aria-pressed") !== "true";
      holder.setAttribute("aria-pressed", String(isOn));
      holder.lastElementChild.textContent = isOn ? "Resume page updates" : "Pause page updates";
      showNews(false);
      if (!isOn) refresh([holder.dataset.hold]);
    });
  }
  document.addEventListener("htmx-before-swap", (event) => {
    // A field that was wrong has the focus when the page comes. htmx would give it back with each swap.
    document.querySelector("[autofocus]")?.removeAttribute("autofocus");
    const tasks = event.detail.tasks;
    for (const task of [...tasks]) {
      if (task.target instanceof Element && isPaused(task.target)) {
        tasks.splice(tasks.indexOf(task), 1);
        showNews(true);
        continue;
      }
      localise(task.fragment);
      const part = task.target instanceof Element && task.target.matches(HELD) ? task.target : null;
      const words = part ? arrivals(task.fragment) : "";
      if (part && isInUse(part) && !isAsked) {
        tasks.splice(tasks.indexOf(task), 1);
        if (words || contents(part) !== contents(task.fragment)) hold(`#${part.id}`, words);
      } else if (words) document.querySelector("#arrivals").textContent = words;
    }
  });
  document.addEventListener("htmx-after-swap", () => tick());
  document.addEventListener("htmx-sse-after-connection", () => {
    heard = Date.now();
    showLive(true);
  });
  document.addEventListener("htmx-sse-after-message", () => {
    heard = Date.now();
    if (live.classList.contains("stale")) showLive(true);
  });
  document.addEventListener("htmx-sse-error", () => showLive(false));
  document.addEventListener("htmx-sse-close", () => showLive(false));
  document.addEventListener("htmx-sse-before-connection", (event) => {
    if (event.detail.connection.attempt > 0) showLive(false);
  });
  // Not before this file listens: a stream that is there first is never seen to have come. And htmx
  // may have looked at the page before its extension was there.
  setTimeout(() => {
    live.dataset.htmxPowered ?? htmx.process(live);
    htmx.trigger(live, "open");
  });
  // What belongs to who reads it is not sent, only that it changed.
  live.addEventListener("card", () => follow(["#card", "#evidence", ".queuepage > #strip"]));
  let later = null;
  live.addEventListener("activity", () => {
    later ??= setTimeout(() => {
      later = null;
      const parts = ["#overview", "#runs", "#boards"].filter((part) => document.querySelector(part));
      const busy = parts.filter((part) => part !== "#overview" && isInUse(document.querySelector(part)));
      busy.forEach((part) => hold(part));
      follow(parts.filter((part) => !busy.includes(part)));
    }, 500);
  });
  live.addEventListener("ended", leave);
  document.addEventListener("click", async (event) => {
    if (!event.target.closest(".news")) return;
    const parts = [...held];
    held.clear();
    isAsked = true;
    await refresh(parts);
    isAsked = false;
  });
  document.addEventListener("pointerout", () => setTimeout(letGo));
  document.addEventListener("focusout", () => setTimeout(letGo));
  setInterval(() => {
    if (Date.now() - heard > SILENCE && !live.classList.contains("stale")) showLive(false);
    if (!live.classList.contains("stale") || document.hidden) return;
    look();
    // A stream that broke is opened again by the extension; one that never came, by us.
    htmx.trigger(live, "open");
  }, POLL);
}

// --- Times ------------------------------------------------------------------------------------
// The server writes times in the zone that the cookie names. What comes live is one text for every
// viewer, in UTC; `localise` writes it as `moment` in formats.py would.

const zone = document.body.dataset.zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
const zoned = new Intl.DateTimeFormat("en-US", {
  timeZone: zone, hourCycle: "h23", year: "numeric", month: "short", day: "numeric",
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});

function localise(part) {
  const read = (at) => Object.fromEntries(zoned.formatToParts(at).map(({ type, value }) => [type, value]));
  const day = ({ year, month, day }) => `${day} ${month} ${year}`;
  const today = day(read(new Date()));
  for (const time of part.querySelectorAll("time[datetime]")) {
    const at = read(new Date(time.dateTime));
    const text = day(at) === today ? `${at.hour}:${at.minute}:${at.second}` : `${at.day} ${at.month} ${at.hour}:${at.minute}`;
    if (time.textContent !== text) time.textContent = text;
  }
}

if (!document.body.dataset.zone && !document.cookie.includes(`zone=${zone};`) && !document.cookie.endsWith(`zone=${zone}`)) {
  document.cookie = `zone=${zone}; path=/; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
  document.querySelectorAll("[data-zone-name]").forEach((name) => (name.textContent = zone));
  localise(document);
}

// --- Clocks -----------------------------------------------------------------------------------

function left(until) {
  const rest = Math.max(0, Math.floor((new Date(until) - Date.now()) / 1000));
  const minutes = Math.floor(rest / 60);
  const two = (number) => String(number).padStart(2, "0");
  const long = minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${two(minutes % 60)}`;
  const text = minutes < 10 ? `${minutes}:${two(rest % 60)} min` : long;
  return { rest, minutes, text };
}

// Which tab has something to do, and how long: (3) 4:12, before the page's own title.
const title = document.title;

function showWaiting() {
  const { count, soonest } = document.getElementById("waiting")?.dataset ?? {};
  const words = Number(count) ? [`(${count})`, ...(soonest ? [left(soonest).text] : []), title].join(" ") : title;
  if (document.title === words) return;
  document.title = words;
  // Only where the page is installed as an app has it a badge; elsewhere nothing happens.
  navigator.setAppBadge?.(Number(count) || 0).catch(() => {});
}

function tick() {
  showWaiting();
  for (const clock of document.querySelectorAll("[data-until]")) {
    const { rest, minutes, text } = left(clock.dataset.until);
    const words = rest ? clock.dataset.words.replace("{}", text) : "Time is over";
    if (clock.textContent !== words) clock.textContent = words;
    const countdown = clock.closest(".countdown");
    if (countdown) countdown.dataset.sla = minutes < 5 ? "now" : minutes < 10 ? "soon" : "";
  }
  for (const clock of document.querySelectorAll("[data-since]")) {
    const words = lasting((Date.now() - new Date(clock.dataset.since)) / 1000);
    if (clock.textContent !== words) clock.textContent = words;
  }
}
setInterval(tick, 1000);

// How long something has gone on, as `duration` in formats.py writes it.
function lasting(seconds) {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")}`.replace(/ 00$/, "");
}

// --- Sifting ----------------------------------------------------------------------------------
// While one types, a page shows only its items with all the words, as the server does when asked.

function sift(field) {
  const has = field.value.toLowerCase().split(/\s+/);
  for (const item of document.querySelectorAll("[data-item]")) {
    const text = `${item.closest("[data-group]")?.dataset.group} ${item.textContent}`.toLowerCase();
    item.hidden = !has.every((word) => text.includes(word));
  }
  const told = field.form.querySelector("[data-sifted]");
  told.textContent = told.dataset.sifted.replace("{}", document.querySelectorAll("[data-item]:not([hidden])").length);
}
document.addEventListener("input", ({ target }) => target.matches("[data-sift]") && sift(target));

// --- A curve ----------------------------------------------------------------------------------
// Its line follows the control, which names a row of the table below; so do the sentences.

document.addEventListener("input", ({ target }) => {
  if (!target.matches(".slide")) return;
  const card = target.closest(".card");
  const row = card.querySelectorAll("[data-x]")[target.value];
  const [value, said, asked] = [...row.children].map((cell) => cell.textContent);
  for (const end of ["x1", "x2"]) card.querySelector(".curve .at").setAttribute(end, row.dataset.x);
  target.setAttribute("aria-valuetext", `${value}: ${said}`);
  card.querySelector("output").textContent = `${value}: ${said}${asked && `, ${asked} asked`}`;
  document.getElementById("result").textContent = row.dataset.headline;
  document.getElementById("said").textContent = row.dataset.more;
});

// --- Keys -------------------------------------------------------------------------------------
// A letter never decides, and it is nothing while one types.

function pick(key) {
  const labels = [...document.querySelectorAll(".dform .choices label")];
  const radio = labels.find((label) => label.querySelector("kbd").textContent === key)?.control;
  if (!radio) return false;
  radio.checked = true;
  const fields = [...document.querySelectorAll(".dform .inner :is(input, textarea, select[data-change])")];
  const field = fields.find((candidate) => candidate.offsetParent !== null) ?? radio;
  field.focus();
  // A letter is not selected, or the next key would erase it.
  if (!field.matches("textarea")) field.select?.();
  else if (field.value === field.defaultValue) field.setSelectionRange(0, 0);
  return true;
}

// In a list, or in the steps of a run, the focus moves; from an open card the request beside it is opened.
function step(by) {
  const links = [...document.querySelectorAll(".qlist a, .rowlink, .trace > .step > summary, [data-item]:not([hidden]) button")];
  if (!links.length) return false;
  let at = links.indexOf(document.activeElement);
  const isOpen = at < 0 && document.querySelector("#consequence");
  if (at < 0) at = links.findIndex((link) => link.hasAttribute("aria-current"));
  const next = links.findIndex((link) => link.hasAttribute("data-next"));
  if (at < 0 && next >= 0) at = by > 0 ? next - 1 : next; // one that was decided stood before it
  const to = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.max(0, Math.min(links.length - 1, at + by));
  const fold = links[to].closest("details.fold");
  if (fold) fold.open = true;
  if (!isOpen) links[to].focus();
  else if (to !== at) links[to].click();
  return true;
}

function narrow(field = "input:not([type=hidden])") {
  const target = document.querySelector(`#narrow ${field}`);
  if (!target) return false;
  target.closest("#narrow").open = true;
  target.focus();
  return true;
}

let beforeSearch = null; // what had the focus then

function search() {
  const field = [...document.querySelectorAll("#q, #words")].find((one) => one.offsetParent !== null);
  if (!document.activeElement.closest(".searching")) beforeSearch = document.activeElement;
  field?.select();
  field?.focus();
  return Boolean(field);
}

function endSearch() {
  document.activeElement.blur();
  beforeSearch?.focus();
  beforeSearch = null;
}

// As a dialog it takes the focus; the browser gives it back.
function help() {
  const keys = document.getElementById("keys");
  keys?.togglePopover();
  if (keys?.matches(":popover-open")) keys.querySelector("button").focus();
  return true;
}

function press(selector) {
  const button = document.querySelector(selector);
  if (button) button.click();
  return Boolean(button);
}

// Opens what is folded and goes to its first field.
function unfold(selector) {
  const part = document.querySelector(selector);
  if (part?.matches("details")) part.open = true;
  part?.querySelector("select, textarea").focus();
  return Boolean(part);
}

const SHARES = { h: () => unfold("#hand-over"), s: () => press("#wake button") || unfold("#snooze"), m: () => unfold("#comment-form") };
const KEYS = {
  ...SHARES,
  j: () => step(1), k: () => step(-1), c: () => press(".claiming button"), n: () => press("#next"),
  u: () => press("#reopen"), l: () => press("#back"), x: () => press("#bulk-link") || narrow("#by-rule"), f: () => narrow(), ".": () => press(".news:not([hidden])"), "/": search, "?": help,
};
for (const digit of "123456") KEYS[digit] = () => press(`[data-key="${digit}"]`);

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
    if (event.repeat) return; // held down, it would send the next card unread
    const other = event.target.closest?.(".share form, #narrow form, [data-unsent]");
    if (other) return other.requestSubmit();
    // From the search, a list, the dialog of keys or a link, the key is not meant for the card.
    const isOnCard = event.target.matches?.("#card :not(a, button, summary)");
    const form = event.target.closest?.(".dform") ?? (isOnCard ? document.querySelector(".dform") : null);
    const button = [...(form?.querySelectorAll(".acts [type=submit]") ?? [])].find((b) => b.offsetParent !== null && b.matches(":enabled"));
    if (button) button.form.requestSubmit(button);
    return;
  }
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && search()) return event.preventDefault();
  if (event.key === "Escape" && event.target.closest?.(".searching")) return endSearch();
  const unfolded = event.key === "Escape" && event.target.closest?.("details[open]:not(#comment-form)");
  if (unfolded) {
    unfolded.open = false;
    return unfolded.querySelector("summary").focus();
  }
  const types = event.target.matches?.("input:not([type=radio]), textarea, select, [contenteditable]");
  // Letters are keys again, and what was typed stays.
  if (types && event.key === "Escape") document.querySelector("#consequence h2")?.focus();
  if (types || event.ctrlKey || event.metaKey || event.altKey || document.body.dataset.keys === "off") return;
  // A key that is tried out of the list acts on the page, and the list would lie above it.
  if (/^[^ ?]$/.test(event.key)) document.querySelector("#keys:popover-open")?.hidePopover();
  const done = pick(event.key) || KEYS[event.key]?.();
  if (done) event.preventDefault();
});
