// A click on a bar of the forecast opens the list of its records. By keyboard, and without this script, its table has the links.
for (const bar of document.querySelectorAll(".plot [data-href]")) {
  bar.addEventListener("click", () => location.assign(bar.dataset.href));
}
