// The page of one record: the editor, and Save and Discard as something changes. The form works without any of it.
import { edit } from "./editing.js";

const form = document.getElementById("editor-form");
const text = document.getElementById("document");
const save = form.querySelector("[value=save]");
const loaded = text.value;

function update() {
  const dirty = text.value !== loaded || "new" in form.dataset || document.querySelector("[role=alert]") !== null;
  let fine = true;
  if (text.dataset.language === "json") {
    try {
      JSON.parse(text.value);
    } catch {
      fine = false;
    }
  }
  save.disabled = !dirty || !fine || text.readOnly;
}

form.addEventListener("input", update);
window.addEventListener("beforeunload", (event) => {
  if (text.value !== loaded && !form.dataset.sent) event.preventDefault();
});
form.addEventListener("submit", () => (form.dataset.sent = "yes"));
form.querySelector("[data-test='CommandBar/Button:Discard']").addEventListener("click", () => (form.dataset.sent = "yes"));
update();
await edit(text);
