// Copies the lines of a program. Browsers allow it on https and on this machine; elsewhere there are no buttons.
const said = document.querySelector("[data-test='notification-console/header-status']");

if (navigator.clipboard) {
  for (const button of document.querySelectorAll("[data-copies]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const what = document.getElementById(button.dataset.copies);
      try {
        await navigator.clipboard.writeText(what.textContent);
        said.textContent = `${what.getAttribute("aria-label")}: copied`;
      } catch {
        said.textContent = "The browser does not allow to copy: select the lines instead";
      }
    });
  }
}
