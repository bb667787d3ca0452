// Tabs: a tablist that is hidden without scripts, and panels that are shown one below the other then.
export function tabbed(root, list, first) {
  const tabs = [...list.querySelectorAll("[role=tab]")];

  function select(tab) {
    for (const each of tabs) {
      const chosen = each === tab;
      each.setAttribute("aria-selected", String(chosen));
      each.tabIndex = chosen ? 0 : -1;
      document.getElementById(each.getAttribute("aria-controls")).hidden = !chosen;
    }
  }

  for (const tab of tabs) {
    const panel = document.getElementById(tab.getAttribute("aria-controls"));
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => select(tab));
  }
  list.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way) return;
    const next = tabs[(tabs.indexOf(document.activeElement) + way + tabs.length) % tabs.length];
    select(next);
    next.focus();
  });
  root.classList.add("tabbed");
  list.hidden = false;
  select(first ?? tabs[0]);
}
