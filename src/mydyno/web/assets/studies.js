"use strict";
/* The list follows the form while it is filled in; without this script the form's button does the same. Studies that are
   marked to be compared remain marked, in this tab, while the list shows others. */
(() => {
  const form = document.getElementById("filter");
  const results = document.getElementById("results");
  const key = `marked ${results.dataset.folder}`;
  const marks = new Set(stored());
  let waiting = 0;
  let asked = 0;

  function stored() {
    try {
      return JSON.parse(sessionStorage.getItem(key) ?? "[]");
    } catch (error) {
      return []; // storage is forbidden, or not ours
    }
  }

  function keep() {
    try {
      sessionStorage.setItem(key, JSON.stringify([...marks]));
    } catch (error) {
      // storage is forbidden or full: marks last as long as this page
    }
  }

  /* A mark of a study that is not in the list is a checkbox below it, so that the form sends it too. */
  function elsewhere(name) {
    const label = document.createElement("label");
    const box = document.createElement("input");
    Object.assign(box, { type: "checkbox", name: "study", value: name, checked: true });
    label.append(box, ` ${name}`);
    return label;
  }

  function showMarks() {
    const holder = document.getElementById("marked");
    const shown = new Set();
    for (const box of results.querySelectorAll(".studies input[name=study]")) {
      box.checked = marks.has(box.value);
      shown.add(box.value);
    }
    const others = [...marks].filter((name) => !shown.has(name));
    holder.querySelectorAll("label").forEach((label) => label.remove());
    holder.append(...others.map(elsewhere));
    holder.hidden = !others.length;
    showControls();
  }

  function showControls() {
    document.getElementById("compare-controls").hidden = !marks.size;
    document.getElementById("unmark").hidden = false;
  }

  const wanted = () => new URLSearchParams([...new FormData(form)].filter(([, value]) => value));

  async function show(query = wanted()) {
    const number = ++asked;
    history.replaceState(null, "", query.size ? `/?${query}` : "/");
    query.set("part", "results");
    const answer = await fetch(`/?${query}`);
    if (!answer.ok) return;
    const text = await answer.text();
    if (number !== asked) return;
    results.innerHTML = text; // escaped by the server
    showMarks();
  }

  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => show(), 150);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
  for (const box of results.querySelectorAll(".studies input[name=study]:checked")) marks.add(box.value);
  keep(); // marked before this script was there
  results.addEventListener("change", ({ target }) => {
    if (target.name !== "study") return;
    if (target.checked) marks.add(target.value);
    else marks.delete(target.value);
    keep();
    showControls();
  });
  results.addEventListener("click", ({ target }) => {
    if (target.id !== "unmark") return;
    marks.clear();
    keep();
    showMarks();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) show(new URLSearchParams(location.search)); // what runs may be another study by now
  });
  addEventListener("pageshow", () => {
    showMarks(); // also after "back"
    const present = new URLSearchParams(location.search);
    present.delete("page");
    if (`${wanted()}` !== `${present}`) show(); // typed before this script was there
  });
})();
