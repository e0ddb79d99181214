// The card of one request: drafts that are never lost and never sent by themselves, changes that
// are judged while they are typed, and a queue that keeps its place. Loaded after opsconsole.js.

// --- Drafts -----------------------------------------------------------------------------------
// What is typed stays in this tab for this person, whatever becomes of the page or the request.

const TYPED = "input:not([type=hidden], [type=radio]), textarea, select";

function draftKey() {
  const key = document.querySelector("#card[data-draft]")?.dataset.draft;
  return key ? `draft/${key}` : "";
}

function storedDraft() {
  return JSON.parse(sessionStorage.getItem(draftKey()) ?? "null");
}

function store(draft) {
  if (draft) sessionStorage.setItem(draftKey(), JSON.stringify(draft));
  else sessionStorage.removeItem(draftKey());
}

function initial(field) {
  return field.matches("select") ? ([...field.options].find((o) => o.defaultSelected)?.value ?? field.options[0].value) : field.defaultValue;
}

function isBegun(form) {
  return [...form.querySelectorAll(TYPED)].some((field) => field.value !== initial(field));
}

function keepDraft(form) {
  if (form.closest("[data-withheld=ended]")) return;
  if (!isBegun(form)) return store(null);
  const values = Object.fromEntries([...form.querySelectorAll(TYPED)].map((field) => [field.name, field.value]));
  store({ action: form.elements.action_sha256.value, verdict: form.elements.verdict.value, values });
}

// Fields that the server filled in again after a refusal are left as they are.
function restoreDraft(form, draft) {
  if (!draft || draft.action !== form.elements.action_sha256.value || isBegun(form)) return;
  for (const field of form.querySelectorAll(TYPED)) field.value = draft.values[field.name] ?? field.value;
  const radio = form.querySelector(`[name=verdict][value="${draft.verdict}"]`);
  if (radio) radio.checked = true;
  showChanges();
}

function words(draft) {
  const { comment, refusal, advice, correction } = draft.values;
  const noes = { reject: [refusal], send_back: [advice] };
  const changes = Object.entries(draft.values).filter(([name]) => draft.verdict === "adjust" && name.startsWith("set."));
  const said = noes[draft.verdict] ?? [...changes.map(([, value]) => value), correction, comment];
  return said.filter(Boolean).join("\n");
}

function button(label, act) {
  const made = Object.assign(document.createElement("button"), { type: "button", className: "btn sm", textContent: label });
  made.addEventListener("click", () => act(made));
  return made;
}

// What cannot be sent now is grey, and what was typed stands below it; of what is over, above it.
function showDraft() {
  const place = document.querySelector("#deciding");
  const held = place?.dataset.withheld ?? "";
  const form = place?.querySelector("#dform");
  for (const field of form?.querySelectorAll(TYPED) ?? []) {
    const rests = held !== "" && !(held === "yes" && field.closest(".if-reject, .if-back"));
    if (field.matches("select")) field.disabled = rests;
    else field.readOnly = rests;
  }
  const draft = storedDraft();
  const isOver = held === "ended";
  const isNo = held === "yes" && ["reject", "send_back"].includes(draft?.verdict);
  if (!held || !draft || draft.isSent || isNo) return document.querySelector("#draft")?.remove();
  const title = isOver ? "Your draft was not sent" : "Your draft is kept, and was not sent";
  const discard = () => {
    store(null);
    if (isOver) form?.closest(".cq").remove();
    else form?.reset();
    if (!isOver) refresh(["#card"]);
  };
  put(place, keptText("draft", title, words(draft), !form || !isOver, discard), isOver ? "prepend" : "append");
}

// One that is there already stays: a button that is made anew while it is pressed does nothing.
function put(place, box, where = "prepend") {
  const shown = document.getElementById(box.id);
  if (shown?.isEqualNode(box)) return;
  shown?.remove();
  place?.[where](box);
}

function keptText(id, title, text, isShown, discard) {
  const box = Object.assign(document.createElement("section"), { id, className: "draft" });
  const acts = Object.assign(document.createElement("div"), { className: "row" });
  acts.append(
    button("Copy text", async (made) => {
      await navigator.clipboard.writeText(text);
      made.textContent = "Copied";
    }),
    button("Discard", () => (discard(), box.remove())),
  );
  box.append(Object.assign(document.createElement("h3"), { textContent: title }));
  if (isShown) box.append(Object.assign(document.createElement("pre"), { textContent: text }));
  box.append(acts);
  return box;
}

// Comments and notes are kept as drafts are, until a page tells of a newer entry of this person's.
const NOTES = { "hand-over": "Your note was not sent", comment: "Your comment was not sent" };

function newestEntry() {
  return document.querySelector("#card").dataset.entry;
}

function keepNote(form) {
  const text = form.querySelector("textarea").value;
  if (text) sessionStorage.setItem(`${draftKey()}/${form.dataset.unsent}`, text);
  else sessionStorage.removeItem(`${draftKey()}/${form.dataset.unsent}`);
}

function settleNotes(isNew) {
  for (const [name, title] of Object.entries(draftKey() ? NOTES : {})) {
    const key = `${draftKey()}/${name}`;
    const before = isNew ? sessionStorage.getItem(`${key}/sent`) : null;
    if (isNew) sessionStorage.removeItem(`${key}/sent`);
    if (before && before !== newestEntry()) sessionStorage.removeItem(key);
    const text = sessionStorage.getItem(key);
    const shown = document.querySelector(`#unsent-${name}`);
    const field = document.querySelector(`[data-unsent="${name}"] textarea`);
    const isKept = text && !sessionStorage.getItem(`${key}/sent`);
    if (!isKept || field) shown?.remove();
    if (!isKept) continue;
    if (!field) put(document.querySelector("#deciding"), keptText(`unsent-${name}`, title, text, true, () => sessionStorage.removeItem(key)));
    else if (!field.value) field.value = text;
    if (field?.closest("details")) field.closest("details").open = true;
  }
}

// A page that is new knows what became of what was sent; one in which it is under way does not.
function settleDraft(isNew) {
  if (!draftKey()) return;
  const draft = storedDraft();
  if (draft?.isSent && !isNew) return;
  const form = document.querySelector("#deciding:is(:not([data-withheld]), [data-withheld=yes]) #dform");
  if (draft?.isSent) store(document.querySelector("#deciding[data-own]") ? null : { ...draft, isSent: false });
  if (form) restoreDraft(form, storedDraft());
  showDraft();
}

for (const kind of ["input", "change"]) {
  document.addEventListener(kind, (event) => {
    const form = event.target.closest?.("#dform, [data-unsent]");
    if (form?.id === "dform") keepDraft(form);
    else if (form) keepNote(form);
  });
}

// --- Sending ----------------------------------------------------------------------------------
// One press sends once: asked (is anybody there?), go, sent, unanswered. What cannot arrive is not
// sent off to an error page of the browser. The server takes a form sent again as the same one.
// The state is no attribute, which an update would take away.

const NO_ANSWER = 5000; // milliseconds
const SENDING = "Sending…";
const UNANSWERED = "No answer yet. It is not known whether it was done; this page will say so by itself. Pressing again does no harm.";

function showSending(form, words) {
  const said = form.querySelector(".sending") ?? Object.assign(document.createElement("p"), { className: "small sending" });
  said.setAttribute("role", "status");
  (form.querySelector(".acts") ?? form).append(said);
  said.textContent = words;
  [...form.elements].filter((one) => one.type === "submit").forEach((button) => button.setAttribute("aria-disabled", String(words === SENDING)));
  if (!words) said.remove();
}

function waitForAnswer(form) {
  showSending(form, SENDING);
  clearTimeout(form.unanswered);
  form.unanswered = setTimeout(() => {
    if (!form.sending) return;
    if (form.sending === "sent") form.sending = "unanswered";
    showSending(form, UNANSWERED);
    showLive(false);
  }, NO_ANSWER);
}

// Whether a text is missing that its label requires for the chosen answer; the server looks again.
function lacks(form) {
  const isAsked = (field) => [...(field.labels[0]?.querySelectorAll(".req") ?? [])].some((word) => word.offsetParent && word.textContent === "required");
  const empty = [...form.querySelectorAll("textarea")].find((field) => !field.value.trim() && isAsked(field));
  if (!empty) return false;
  const id = `${empty.id}-error`;
  const text = "Fill in this field first. Nothing was decided.";
  if (!document.getElementById(id)) empty.after(Object.assign(document.createElement("p"), { id, className: "error", role: "alert", textContent: text }));
  empty.setAttribute("aria-invalid", "true");
  empty.setAttribute("aria-describedby", id);
  empty.focus();
  empty.addEventListener("input", () => (document.getElementById(id)?.remove(), empty.removeAttribute("aria-invalid")), { once: true });
  return true;
}

function endSending(form) {
  delete form.sending;
  clearTimeout(form.unanswered);
  showSending(form, "");
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches(".inbox form[method=post], #bulk")) return;
  if (form.sending === "go") return (form.sending = "sent");
  event.preventDefault();
  if (form.sending === "sent" || lacks(form)) return;
  form.sending = "asked";
  waitForAnswer(form);
  const isThere = await fetch("/healthz", { cache: "no-store" }).then(() => true, () => false);
  if (form.sending !== "asked") return; // pressed again meanwhile
  if (!isThere) return endSending(form), sayUnsent();
  // An update may have put its like in the place of a form in which nothing is typed, as of a claim.
  const isTyped = form.querySelector("input:not([type=hidden]), textarea, select");
  const here = form.isConnected || isTyped ? form : [...document.forms].find((other) => other.action === form.action && other.id === form.id);
  if (!here?.isConnected || here.closest("[data-withheld]:not([data-withheld=yes])")) return endSending(form);
  if (form.dataset.unsent) sessionStorage.setItem(`${draftKey()}/${form.dataset.unsent}/sent`, newestEntry());
  else if (form.id === "dform" && isBegun(form)) store({ ...storedDraft(), isSent: true });
  if (here !== form) waitForAnswer(here);
  here.sending = "go";
  here.requestSubmit(here === form ? event.submitter : null);
});

// A page that the browser kept aside comes back as it was left.
addEventListener("pageshow", (event) => event.persisted && [...document.forms].filter((form) => form.sending).forEach(endSending));

// A press meant for the card before must not decide the next one, which nobody has read yet.
const UNREAD = 1000; // milliseconds
let isUnread = false;

function holdButtons() {
  document.querySelectorAll("#dform .acts").forEach((acts) => (acts.disabled = isUnread));
}

function sayUnsent() {
  const banner = Object.assign(document.createElement("div"), { className: "banner", role: "alert" });
  banner.dataset.role = "block";
  const text = "Nothing was sent: the server did not answer. What you filled in is kept; send it again once the page is live.";
  banner.append(Object.assign(document.createElement("p"), { textContent: text }));
  document.querySelector("#notice")?.replaceChildren(banner);
}

// --- Changes: repeated in the headline and the buttons, judged by the policy while one types ----
// Minor units, never floats. What cannot be read is not repeated; the server says what is wrong.

function changes() {
  return [...document.querySelectorAll("#dform [data-change]")];
}

function minorOf(field) {
  const digits = Number(field.dataset.digits);
  const found = field.value.trim().match(/^(0|[1-9]\d{0,8})(?:\.(\d+))?$/); // as the server reads it
  if (!found || (found[2] ?? "").length > digits) return null;
  const minor = Number(found[1] + (found[2] ?? "").padEnd(digits, "0"));
  return minor > Number(field.dataset.most ?? minor) ? null : minor;
}

// What the server read of other spellings, such as 1,000.50, and allows.
function readOf(field) {
  return document.querySelector(`#judged [data-read="${field.dataset.change}"]`);
}

// As `show` of the desks writes it; "" for what is no value.
function spoken(field) {
  if (field.type === "date") {
    const day = new Date(`${field.value}T00:00Z`);
    return isNaN(day) ? "" : day.toLocaleDateString("en-GB", { timeZone: "UTC", day: "numeric", month: "long", year: "numeric" });
  }
  if ("lines" in field.dataset) return field.value.split("\n").map((line) => line.trim()).filter(Boolean).join(", ");
  if (field.dataset.unit) return withUnit(field.value.trim(), field.dataset.unit);
  if (!field.dataset.currency) return field.value.trim();
  const minor = minorOf(field);
  if (!minor) return readOf(field)?.textContent ?? "";
  const digits = Number(field.dataset.digits);
  const number = (minor / 10 ** digits).toLocaleString("en-US", { minimumFractionDigits: digits });
  return `${field.dataset.currency} ${number}`;
}

// As the server writes it: 1 unit, 1,200 units.
function withUnit(number, unit) {
  if (!/^-?\d+$/.test(number)) return number;
  return `${Number(number).toLocaleString("en-US")} ${number === "1" ? unit.replace(/s$/, "") : unit}`;
}

// What was said of a change while it could be granted is not true any more once it cannot.
function clearJudged() {
  const judged = document.querySelector("#deciding[data-withheld] #judged");
  judged?.removeAttribute("data-allowed");
  judged?.replaceChildren();
}

function mayChange(isAllowed) {
  const isChanged = changes().some((field) => field.value !== field.dataset.asked);
  document.querySelectorAll("#dform .acts button.if-adjust").forEach((button) => {
    button.disabled = !isAllowed || (changes().length > 0 && !isChanged);
  });
}

function showChanges() {
  const fields = changes();
  const isChanged = fields.some((field) => field.value !== field.dataset.asked);
  document.querySelector("#card")?.toggleAttribute("data-changed", isChanged);
  for (const field of fields) {
    const text = isChanged ? spoken(field) : "";
    for (const out of document.querySelectorAll(`[data-out="${field.dataset.change}"]`)) {
      out.dataset.unread ??= out.textContent;
      out.textContent = text || out.dataset.unread;
    }
  }
}

document.addEventListener("input", (event) => {
  if (!event.target.matches("[data-change], #correction")) return;
  const judged = document.querySelector("#judged");
  judged?.removeAttribute("data-allowed");
  judged?.replaceChildren();
  showChanges();
  // Until the answer is here; the server judges what is sent in any case.
  mayChange(changes().every((field) => !field.dataset.currency || minorOf(field) !== null));
});

document.addEventListener("click", ({ target }) => {
  const chip = target.closest?.("[data-fill]");
  if (!chip) return;
  const field = document.getElementById(chip.dataset.fill);
  if (field.readOnly) return;
  const asAsked = chip.value === field.dataset.asked && document.querySelector("#dform [name=verdict][value=approve]");
  if (asAsked) asAsked.checked = true;
  // A reason comes before what was typed.
  const typed = field.matches("textarea") ? field.value.trim() : "";
  if (!typed.includes(chip.value)) field.value = [chip.value, typed].filter(Boolean).join(". ");
  field.dispatchEvent(new Event("input", { bubbles: true }));
  if (!field.matches("textarea")) (asAsked || field).focus();
});

// --- Marks within a letter ---------------------------------------------------------------------
// A field has none, so the same text lies behind it. Those who hear the page are told them below.

function showMarks() {
  const field = document.querySelector("#correction");
  const told = [...document.querySelectorAll("#own-words q")];
  if (!field || !told.length) return;
  let behind = field.parentElement.querySelector(".behind");
  if (!behind) {
    behind = Object.assign(document.createElement("div"), { className: "textarea behind", ariaHidden: "true" });
    field.before(behind);
    field.addEventListener("scroll", () => (behind.scrollTop = field.scrollTop));
  }
  const passages = told.map((one) => one.textContent).sort((one, other) => other.length - one.length);
  const parts = field.value.split(new RegExp(`(${passages.map((one) => one.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`));
  behind.replaceChildren(
    ...parts.map((text, at) => (at % 2 ? Object.assign(document.createElement("mark"), { textContent: text }) : text)),
    "\n", // a line that is still empty
  );
  behind.scrollTop = field.scrollTop;
  told.forEach((one) => (one.hidden = !field.value.includes(one.textContent)));
  told[0].parentElement.hidden = told.every((one) => one.hidden);
}
document.addEventListener("input", ({ target }) => target.id === "correction" && showMarks());
document.addEventListener("reset", () => setTimeout(showMarks));

// --- The queue keeps its place ----------------------------------------------------------------

function showPlace() {
  const queue = document.querySelector("#queue");
  const row = queue?.querySelector(".qlist [aria-current], .qlist [data-next]");
  if (row && queue.scrollHeight > queue.clientHeight) queue.scrollTop = row.offsetTop - queue.clientHeight / 3;
}

// A view of the queue is this reader's own: what comes live only says that it may have changed.
let asking = null;
document.addEventListener("htmx-before-swap", (event) => {
  if (!event.detail.tasks.some((task) => task.target instanceof Element && task.target.id === "waiting")) return;
  asking ??= setTimeout(() => {
    asking = null;
    follow(["#views", "#queue"]);
  }, 300);
});

// A filter's address names only what was filled in.
document.addEventListener("formdata", ({ target, formData }) => {
  if (target.method !== "get") return;
  for (const [name, text] of [...formData]) if (!text) formData.delete(name);
});

document.addEventListener("htmx-after-swap", () => {
  settleDraft(false);
  settleNotes(false);
  showChanges();
  showMarks();
  clearJudged();
  mayChange(document.querySelector("#judged")?.dataset.allowed !== "no");
  holdButtons();
});
document.addEventListener("DOMContentLoaded", () => {
  settleDraft(true);
  settleNotes(true);
  showChanges();
  showMarks();
  mayChange(true);
  showPlace();
  const left = document.querySelector("#strip [data-draft]");
  if (left && !("waits" in left.dataset)) sessionStorage.removeItem(`draft/${left.dataset.draft}`);
  isUnread = Boolean(left);
  holdButtons();
  setTimeout(() => {
    isUnread = false;
    holdButtons();
  }, UNREAD);
  // Where a form was refused, the address is that of the form, which shows nothing to who copies it.
  const card = draftKey() && live?.dataset.address;
  if (card && new URL(card, location).pathname !== location.pathname) history.replaceState(null, "", card);
  // The headline says what this one is about; what was refused is read first.
  const headline = document.querySelector("#consequence h2");
  if (!document.querySelector("[autofocus], #notice > *")) headline?.focus({ preventScroll: true });
});

// --- Reject several ---------------------------------------------------------------------------
// What is ticked is added up while one ticks; the total is typed by hand, and the server compares.

function showTicked() {
  const place = document.querySelector("#bulk #ticked");
  if (!place) return;
  const ticked = [...document.querySelectorAll("#bulk [name=item]:checked")];
  const sums = {};
  for (const { dataset } of ticked) {
    if (dataset.currency === "requests") continue;
    sums[dataset.currency] ??= { minor: 0, digits: Number(dataset.digits) };
    sums[dataset.currency].minor += Number(dataset.minor);
  }
  const words = Object.entries(sums).sort().map(([currency, { minor, digits }]) => {
    const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    return `${currency} ${(minor / 10 ** digits).toLocaleString("en-US", options)}`;
  });
  place.textContent = `Ticked: ${[`${ticked.length} request${ticked.length === 1 ? "" : "s"}`, ...words].join(", ")}.`;
}

document.addEventListener("change", (event) => event.target.closest("#bulk") && showTicked());
showTicked();
