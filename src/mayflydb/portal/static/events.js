// The expiry stream live: new rows come above those that the page was loaded with.
const KEPT = 500;
const stream = document.getElementById("stream");
const body = document.querySelector("#events tbody");
const pause = document.getElementById("pause");
const live = document.getElementById("live");

const query = new URLSearchParams({ types: "expired,clock,reset", after: stream.dataset.after });
if (stream.dataset.target) query.set("target", stream.dataset.target);
const source = new EventSource(`/_mayfly/events?${query}`);
addEventListener("pagehide", () => source.close());

let waiting = [];
let paused = false;
let planned = false;

function readable(time) {
  return time.replace("T", " ").replace(/\.\d+/, "");
}

function delay(event) {
  const milliseconds = Date.parse(event.purged_at) - Date.parse(event.due);
  if (!(milliseconds > 0)) return "at once";
  if (milliseconds < 1000) return `${milliseconds} ms later`;
  const parts = [];
  let seconds = Math.floor(milliseconds / 1000);
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]) {
    const count = Math.floor(seconds / size);
    seconds %= size;
    if (count) parts.push(`${count} ${unit}`);
  }
  return `${parts.slice(0, 2).join(" ")} later`;
}

function line(event) {
  const row = document.createElement("tr");
  row.className = "fresh";
  const cells = [readable(event.due), event.target, event.id, event.text, delay(event)];
  row.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  row.children[0].className = "t";
  row.children[3].className = "muted";
  return row;
}

function tell() {
  live.textContent = paused ? `Paused: ${waiting.length} new` : "Live";
}

// Many events of one purge are drawn at once.
function draw() {
  planned = false;
  if (!paused && waiting.length) {
    document.getElementById("none")?.remove();
    body.prepend(...waiting.reverse().map(line));
    waiting = [];
    while (body.rows.length > KEPT) body.lastElementChild.remove();
  }
  tell();
}

function plan() {
  if (!planned) setTimeout(draw, 100);
  planned = true;
}

source.addEventListener("expired", (event) => {
  waiting.push(JSON.parse(event.data));
  if (waiting.length > KEPT) waiting.shift();
  plan();
});
source.addEventListener("open", tell);
source.addEventListener("error", () => {
  live.textContent = source.readyState === EventSource.CLOSED ? "Not live: load the page again" : "Not connected";
});

pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Go on" : "Pause";
  draw();
});
document.getElementById("target").addEventListener("change", (event) => event.target.form.requestSubmit());
