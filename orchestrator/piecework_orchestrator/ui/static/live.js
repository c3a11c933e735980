// Replaces the parts of a job's page when the server sends new ones. The server has
// escaped every value in them. The browser connects again by itself.
"use strict";
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
      const focused = part.contains(document.activeElement)
        ? document.activeElement.getAttribute("href") : null;
      part.innerHTML = html;
      if (focused) part.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
    }
  });
  events.addEventListener("ended", () => { events.close(); location.reload(); });
}
