"use strict";
/* The list follows the form while it is filled in; without this script the form's button does the same. */
(() => {
  const form = document.getElementById("filter");
  const results = document.getElementById("results");
  let waiting = 0;
  let asked = 0;

  async function show() {
    const number = ++asked;
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    history.replaceState(null, "", query.size ? `/?${query}` : "/");
    query.set("part", "results");
    const answer = await fetch(`/?${query}`);
    if (!answer.ok) return;
    const text = await answer.text();
    if (number === asked) results.innerHTML = text; // escaped by the server
  }

  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(show, 150);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
})();
