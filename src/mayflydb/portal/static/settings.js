// Scale & Settings: tabs, what may be pressed, and the preview while a person types. The form works without any of it.
import { tabbed } from "./tabs.js";

const PAUSE = 300; // milliseconds after the last key
const MOST = 2147483647;

const form = document.getElementById("settings");
const save = form.querySelector("[value=save]");
const discard = form.querySelector("[value=discard]");
const seconds = form.elements.timeToLiveSeconds;
const field = document.getElementById("ttl-field");
const loaded = JSON.parse(form.dataset.loaded);
const asked = form.elements.agreed.value;
const askedLabel = save.textContent;
const askedFor = ttl();
const stale = "stale" in form.dataset;

function ttl() {
  const choice = form.elements.timeToLive.value;
  return choice === "on" ? `on ${seconds.value}` : choice;
}

function differs() {
  const sent = new FormData(form);
  return Object.entries(loaded).some(([name, value]) => {
    if (name === "etag" || name === "agreed") return false;
    if (name === "timeToLiveSeconds" && form.elements.timeToLive.value !== "on") return false;
    if (name === "manualThroughput" && form.elements.throughputMode?.value !== "manual") return false;
    if (name === "autoscaleThroughput" && form.elements.throughputMode?.value !== "autoscale") return false;
    return sent.has(name) && sent.get(name).replaceAll("\r\n", "\n") !== value;
  });
}

function refused() {
  return document.getElementById("refusals").textContent.trim() !== "";
}

// Of the two ways to scale, one is asked for; what it says of its number is said below it.
function scale() {
  let fine = true;
  for (const part of form.querySelectorAll("[data-mode]")) {
    const [input, wrong] = [part.querySelector("input"), part.querySelector(".wrong")];
    part.hidden = part.dataset.mode !== form.elements.throughputMode.value;
    input.required = !part.hidden;
    const said = part.hidden ? "" : input.validationMessage;
    if (wrong.textContent !== said) wrong.textContent = said;
    fine &&= said === "";
  }
  return fine;
}

function update() {
  const on = form.elements.timeToLive.value === "on";
  const missing = on && !(Number(seconds.value) > 0);
  field.hidden = !on;
  const dirty = differs();
  const fine = scale();
  save.disabled = !dirty || !fine || missing || refused() || stale;
  discard.disabled = !dirty && !stale;
  // What was agreed to is one setting; another one is another question.
  const same = asked !== "" && ttl() === askedFor;
  form.elements.agreed.value = same ? asked : "";
  save.textContent = same ? askedLabel : "Save";
  save.classList.toggle("grave", same);
}

let timer;
let asking;

function ask() {
  clearTimeout(timer);
  timer = setTimeout(preview, PAUSE);
}

async function preview() {
  asking?.abort();
  asking = new AbortController();
  const sent = new URLSearchParams(new FormData(form));
  sent.set("action", "preview");
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: sent, signal: asking.signal });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(part.id);
      if (fresh && fresh.innerHTML !== part.innerHTML) part.replaceChildren(...fresh.childNodes);
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    document.getElementById("ttl-preview").textContent = "The server does not answer: there is no preview.";
  }
  update();
}

function bound() {
  if (seconds.validity.badInput) seconds.value = "0";
  else if (Number(seconds.value) > MOST) seconds.value = String(MOST);
}

form.addEventListener("input", (event) => {
  if (event.target === seconds) bound();
  // Turned on, it asks for a number instead of offering one.
  if (event.target.name === "timeToLive") seconds.value = "";
  update();
  ask();
});

const list = form.querySelector("[role=tablist]");
tabbed(form, list, list.querySelector("[data-first]"));
update();
