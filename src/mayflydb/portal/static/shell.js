// What every page has: the tree, the messages, the clock.

// In a narrow window the menu is closed, so that the page begins with the page. Style sheets show it in a wide one.
const menu = document.querySelector(".menu");
const wide = matchMedia("(min-width: 721px)");
menu.open = wide.matches;
wide.addEventListener("change", () => {
  menu.open = wide.matches;
});

// Each tree by keyboard, as trees are used: up and down go through what is shown, left closes, right opens, Enter follows.
function own(item) {
  return item.matches(".node") ? item : item.querySelector(":scope > .node");
}

function shown(tree) {
  return [...tree.querySelectorAll("[role=treeitem]")].filter((item) => own(item).offsetParent !== null);
}

function toggle(item, open) {
  if (item.hasAttribute("aria-expanded")) item.setAttribute("aria-expanded", String(open));
}

function focus(tree, item) {
  for (const each of tree.querySelectorAll("[role=treeitem]")) each.tabIndex = -1;
  item.tabIndex = 0;
  item.focus();
}

function step(tree, item, key) {
  const items = shown(tree);
  const at = items.indexOf(item);
  const open = item.getAttribute("aria-expanded");
  if (key === "ArrowDown") return items[at + 1];
  if (key === "ArrowUp") return items[at - 1];
  if (key === "Home") return items[0];
  if (key === "End") return items.at(-1);
  if (key === "ArrowRight") {
    if (open === "true") return items[at + 1];
    toggle(item, true);
  } else if (key === "ArrowLeft") {
    if (open !== "true") return item.parentElement.closest("[role=treeitem]");
    toggle(item, false);
  } else if (key === "Enter" || key === " ") {
    const node = own(item);
    if (node.href) location.assign(node.href);
    else toggle(item, open !== "true");
  } else {
    return undefined;
  }
  return item;
}

for (const tree of document.querySelectorAll("[role=tree]")) {
  // One stop for Tab; without this script the links are stops of their own.
  for (const each of tree.querySelectorAll("[role=treeitem], a")) each.tabIndex = -1;
  const current = tree.querySelector("[aria-current]") ?? tree.querySelector("[role=treeitem]");
  current.tabIndex = 0;
  tree.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const next = step(tree, event.target.closest("[role=treeitem]"), event.key);
    if (next === undefined && !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    if (next) focus(tree, next);
  });
  tree.addEventListener("click", (event) => {
    const node = event.target.closest("[data-toggle]");
    if (!node) return;
    const item = node.parentElement;
    toggle(item, item.getAttribute("aria-expanded") !== "true");
  });
}

// The field above the trees leaves the containers that have its text in their names, or in the name of their database.
const search = document.querySelector(".find input");
search?.addEventListener("input", () => {
  const text = search.value.trim().toLowerCase();
  for (const database of document.querySelectorAll("[role=tree] > li")) {
    const name = own(database).textContent.toLowerCase();
    let left = name.includes(text);
    for (const branch of database.querySelectorAll(":scope > ul > li[data-test]")) {
      branch.hidden = !`${name}/${own(branch).textContent.toLowerCase()}`.includes(text);
      left ||= !branch.hidden;
    }
    database.hidden = !left;
  }
});

// The messages of this window, the last one first.
const KEPT = 50;
const status = document.querySelector("[data-test='notification-console/header-status']");
const expand = document.querySelector("[data-test='NotificationConsole/ExpandCollapseButton']");
const contents = document.getElementById("messages");
const messages = JSON.parse(sessionStorage.getItem("messages") ?? "[]");
if (status.textContent) {
  messages.unshift(status.textContent);
  messages.splice(KEPT);
  sessionStorage.setItem("messages", JSON.stringify(messages));
}
contents.append(...messages.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
expand.hidden = messages.length === 0;
expand.addEventListener("click", () => {
  contents.hidden = !contents.hidden;
  const state = contents.hidden ? "Expand" : "Collapse";
  expand.setAttribute("aria-expanded", String(!contents.hidden));
  Object.assign(expand.firstElementChild, { alt: `${state} icon`, src: `/_explorer/static/${state.toLowerCase()}.svg` });
});

// A virtual clock that ticks goes on by the seconds that have passed here.
const time = document.querySelector("[data-ticking]");
if (time) {
  const start = Date.parse(time.textContent.replace(" ", "T"));
  const since = performance.now();
  setInterval(() => {
    const now = new Date(start + performance.now() - since);
    time.textContent = `${now.toISOString().slice(0, 19).replace("T", " ")}Z`;
  }, 1000);
}
