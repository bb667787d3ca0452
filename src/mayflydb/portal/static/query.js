// The query page: runs a query without leaving the page, cancels it, keeps a history. The forms work without any of it.
import { edit, select, selected, write } from "./editing.js";
import { tabbed } from "./tabs.js";

const KEPT = 50;
const form = document.getElementById("query-form");
const text = document.getElementById("query");
const results = document.getElementById("results");
const execute = document.getElementById("execute");
const executeSelection = document.getElementById("execute-selection");
const cancel = document.getElementById("cancel");
const said = document.querySelector("[data-test='notification-console/header-status']");

// --- results ---------------------------------------------------------------------------------------------------------

function arrange() {
  const list = results.querySelector("[role=tablist]");
  if (list) tabbed(results, list);
  results.querySelector("form")?.addEventListener("submit", submit);
  const fault = results.querySelector("[data-start]");
  fault?.addEventListener("click", () => select(text, Number(fault.dataset.start), Number(fault.dataset.end)));
}

let running;

async function submit(event) {
  const button = event.submitter;
  if (button && "file" in button.dataset) return;
  event.preventDefault();
  running?.abort();
  running = new AbortController();
  const mine = running;
  const sent = new FormData(event.target);
  if (button?.name) sent.set(button.name, button.value);
  if (event.target === form) remember(text.value);
  state(true);
  try {
    const answer = await fetch(event.target.getAttribute("action"), { method: "POST", body: sent, signal: mine.signal });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("results");
    if (fresh) results.replaceChildren(...fresh.childNodes);
    else tell(page.querySelector("main")?.textContent.trim() ?? "The server gave no answer.");
    said.textContent = page.querySelector("[data-test='notification-console/header-status']")?.textContent ?? "";
    arrange();
  } catch (error) {
    tell(error.name === "AbortError" ? "The query was cancelled." : "The server does not answer.");
  }
  if (running === mine) state(false);
}

function tell(message) {
  said.textContent = message;
  results.replaceChildren(Object.assign(document.createElement("p"), { className: "muted", textContent: message }));
}

function state(busy) {
  cancel.disabled = !busy;
  execute.disabled = busy;
  results.setAttribute("aria-busy", String(busy));
  if (!busy) choose();
  else executeSelection.disabled = true;
}

cancel.hidden = executeSelection.hidden = false;
cancel.addEventListener("click", () => running?.abort());
form.addEventListener("submit", submit);

// --- a selection -----------------------------------------------------------------------------------------------------

function choose() {
  executeSelection.disabled = !cancel.disabled || selected(text).text.trim() === "";
}

document.addEventListener("selectionchange", choose);
text.addEventListener("select", choose);
executeSelection.addEventListener("click", () => {
  const part = selected(text);
  form.elements.selection.value = part.text;
  form.elements.selected_at.value = String(part.start);
  form.requestSubmit(execute);
  form.elements.selection.value = "";
});

// --- history and examples --------------------------------------------------------------------------------------------

const key = `queries:${form.dataset.history}`;
const history = document.getElementById("history");

function read() {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? [];
  } catch {
    return [];
  }
}

function remember(query) {
  if (!query.trim()) return;
  const kept = [query, ...read().filter((each) => each !== query)].slice(0, KEPT);
  try {
    localStorage.setItem(key, JSON.stringify(kept));
  } catch {
    // A browser that keeps nothing has no history.
  }
  offer();
}

function offer() {
  const kept = read();
  history.hidden = kept.length === 0;
  const options = kept.map((query) => new Option(query.replace(/\s+/g, " ").slice(0, 80), query));
  history.querySelector("select").replaceChildren(new Option("Choose one", ""), ...options);
}

for (const label of [history, document.getElementById("examples")]) {
  if (!label) continue;
  label.hidden = false;
  const list = label.querySelector("select");
  list.addEventListener("change", () => {
    if (list.value) write(text, list.value);
    list.value = "";
  });
}
offer();
arrange();
form.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
  event.preventDefault();
  form.requestSubmit(execute);
});
await edit(text);
