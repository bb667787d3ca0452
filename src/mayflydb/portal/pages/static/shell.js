// The tree by keyboard, as trees are used: up and down go through what is shown, left closes, right opens, Enter follows.
const tree = document.querySelector("[role=tree]");

function own(item) {
  return item.matches(".node") ? item : item.querySelector(":scope > .node");
}

function shown() {
  return [...tree.querySelectorAll("[role=treeitem]")].filter((item) => own(item).offsetParent !== null);
}

function toggle(item, open) {
  if (item.hasAttribute("aria-expanded")) item.setAttribute("aria-expanded", String(open));
}

function focus(item) {
  for (const each of tree.querySelectorAll("[role=treeitem]")) each.tabIndex = -1;
  item.tabIndex = 0;
  item.focus();
}

function step(item, key) {
  const items = shown();
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

if (tree) {
  for (const item of tree.querySelectorAll("[role=treeitem]")) item.tabIndex = -1;
  const current = tree.querySelector("[aria-current]") ?? tree.querySelector("[role=treeitem]");
  current.tabIndex = 0;
  tree.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const next = step(event.target.closest("[role=treeitem]"), event.key);
    if (next === undefined && !event.key.startsWith("Arrow")) return;
    event.preventDefault();
    if (next) focus(next);
  });
  tree.addEventListener("click", (event) => {
    const node = event.target.closest("[data-toggle]");
    if (!node) return;
    const item = node.parentElement;
    toggle(item, item.getAttribute("aria-expanded") !== "true");
  });
}
