"use strict";
/* A study that was started from the browser: what it prints, until it has a live page. */
(() => {
  const PERIOD_MS = 1000;
  const note = document.getElementById("started");
  const output = document.getElementById("output");

  async function look() {
    if (document.hidden) {
      document.addEventListener("visibilitychange", look, { once: true });
      return;
    }
    const answer = await fetch("/design/started/status").catch(() => null);
    if (answer?.ok) {
      const status = await answer.json();
      if (status.study) {
        location.replace(`/studies/${encodeURIComponent(status.study)}${status.state === "running" ? "/live" : ""}`);
        return;
      }
      if (output.textContent !== status.output) output.textContent = status.output;
      if (status.state === "ended") {
        note.textContent = `The study ended before its first run, with exit code ${status.exit_code}. Its last output:`;
        return;
      }
      if (status.state === "none") {
        note.textContent = "No study was started since this server was.";
        return;
      }
    }
    setTimeout(look, PERIOD_MS);
  }
  look();
})();
