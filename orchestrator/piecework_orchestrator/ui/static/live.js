// Replaces the parts of a job's page when the server sends new ones. The server has
// escaped every value in them. The browser connects again by itself.
"use strict";
// What finds a link or a checkbox again; null: the element is neither.
function selectorOf(element) {
  const name = ["href", "value"].find((each) => element.hasAttribute(each));
  return name ? `[${name}="${CSS.escape(element.getAttribute(name))}"]` : null;
}
const source = document.querySelector("[data-live]");
if (source) {
  const state = document.getElementById("live");
  const events = new EventSource(source.dataset.live);
  events.addEventListener("open", () => { state.textContent = "live"; });
  events.addEventListener("error", () => {
    const refused = events.readyState === EventSource.CLOSED;
    state.textContent = refused ? "not live: load the page again" : "reconnecting";
  });
  events.addEventListener("update", (event) => {
    for (const [id, html] of Object.entries(JSON.parse(event.data))) {
      const part = document.getElementById(id);
      const active = part.contains(document.activeElement) ? document.activeElement : null;
      const focused = active && selectorOf(active);
      const picked = [...part.querySelectorAll("input:checked")].map((box) => box.value);
      part.innerHTML = html;
      for (const box of part.querySelectorAll("input[name=pick]")) box.checked = picked.includes(box.value);
      if (focused) part.querySelector(focused)?.focus();
    }
  });
  events.addEventListener("ended", () => { events.close(); location.reload(); });
}
