// A page of records: countdowns, the buttons for picked rows, saved filters. The grid works without any of it.
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const FILTERS = 20;

// The two largest units, as the server writes them.
function span(seconds) {
  const parts = [];
  let rest = seconds;
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count) parts.push(`${count.toLocaleString("en")} ${unit}`);
  }
  return parts.slice(0, 2).join(" ") || "less than 1 s";
}

for (const table of document.querySelectorAll("[data-runs]")) {
  const start = Date.parse(table.dataset.now.replace(" ", "T"));
  const since = performance.now();
  const cells = [...table.querySelectorAll("[data-deadline]")].map((cell) => [cell, Date.parse(cell.dataset.deadline)]);
  const timer = setInterval(() => {
    const now = start + performance.now() - since;
    for (const [cell, deadline] of cells) {
      const left = Math.floor((deadline - now) / 1000);
      const text = left >= 0 ? (cell.dataset.before ?? "") + span(left) : (cell.dataset.done ?? "expired");
      if (cell.textContent !== text) cell.textContent = text;
      if (left < 0 && !cell.dataset.done) cell.parentElement.classList.add("gone");
    }
  }, 1000);
  if (cells.length === 0) clearInterval(timer);
}

for (const form of document.querySelectorAll("form.picked")) {
  const boxes = [...form.querySelectorAll("[name=pick]")];
  const count = form.querySelector("#picked-count");
  const all = Object.assign(document.createElement("input"), { type: "checkbox" });
  all.setAttribute("aria-label", "Pick all of this page");
  form.querySelector("th.pick")?.replaceChildren(all);

  function update() {
    const picked = boxes.filter((box) => box.checked).length;
    all.checked = picked > 0 && picked === boxes.length;
    all.indeterminate = picked > 0 && picked < boxes.length;
    for (const button of form.querySelectorAll("[data-picked]")) button.disabled = picked === 0;
    count.textContent = picked ? `${picked} picked` : "";
  }

  all.addEventListener("change", () => {
    for (const box of boxes) box.checked = all.checked;
    update();
  });
  form.addEventListener("change", update);
  update();
}

for (const form of document.querySelectorAll("form.filter")) {
  const key = `filters:${form.dataset.saved}`;
  const box = form.elements.filter;
  let kept;
  try {
    kept = JSON.parse(localStorage.getItem(key)) ?? [];
  } catch {
    kept = [];
  }
  form.querySelector("datalist").append(...kept.map((value) => Object.assign(document.createElement("option"), { value })));
  form.addEventListener("submit", () => {
    if (!box.value.trim()) return;
    const saved = [box.value, ...kept.filter((each) => each !== box.value)].slice(0, FILTERS);
    try {
      localStorage.setItem(key, JSON.stringify(saved));
    } catch {
      // A browser that keeps nothing has no saved filters.
    }
  });
}
