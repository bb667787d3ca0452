// The progress of an undelete, while it runs. Its end loads the page again.
const twin = document.querySelector("link[type='application/json']");
const shown = document.querySelector("[data-undeleted]");

async function look() {
  const answer = await fetch(twin.href);
  if (!answer.ok) return;
  const { undelete } = await answer.json();
  if (undelete.done) {
    location.reload();
    return;
  }
  shown.textContent = undelete.undeleted.toLocaleString("en");
  setTimeout(look, 1000);
}

if (twin && shown) look();
