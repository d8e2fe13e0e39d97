"use strict";
/* The page /design: sends the TOML to be checked while it is edited, and shows what comes back. */
(() => {
  const WAIT_MS = 350;
  const byId = (id) => document.getElementById(id);
  const toml = byId("toml");
  const before = toml.defaultValue;
  let waiting = 0;
  let current = null; // the request under way
  let valid = false;
  let wrong = new Set(); // lines with a mistake

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const draft = () => ({ toml: toml.value, scale: byId("scale").value, time: byId("time").value });
  const post = (path, signal) => fetch(path, { method: "POST", body: JSON.stringify(draft()), headers: { "X-Mydyno": "1", "Content-Type": "application/json" }, signal });

  function soon() {
    current?.abort();
    current = null; // its answer is of what was there before
    clearTimeout(waiting);
    waiting = setTimeout(check, WAIT_MS);
    pending(true);
  }

  function pending(is) {
    byId("plan").classList.toggle("stale", is);
    byId("mistakes").classList.toggle("stale", is);
    if (byId("run")) byId("run").disabled = is || !valid;
  }

  async function check() {
    const mine = new AbortController();
    current = mine;
    const answer = await post("/design/check", mine.signal).catch(() => null);
    if (mine !== current) return;
    if (answer?.ok) show(await answer.json());
    else verdict({ 413: "too large to be checked", 401: "access has ended: open the URL that mydyno printed last" }[answer?.status] ?? "the server did not answer", false);
  }

  function verdict(text, good) {
    byId("verdict").textContent = text;
    byId("verdict").className = `chip ${good ? "state-complete" : "state-failed"}`;
  }

  function show({ file, command, scales, mistakes, plan }) {
    byId("file").textContent = file;
    byId("download").download = file;
    URL.revokeObjectURL(byId("download").href);
    byId("download").href = URL.createObjectURL(new Blob([toml.value], { type: "application/toml" }));
    byId("command").textContent = command;
    showScales(scales);
    valid = Boolean(plan) && !plan.obstacles.length;
    verdict(valid ? "valid" : plan ? "valid, but this host cannot do it" : "not valid", valid);
    wrong = new Set((mistakes?.found ?? []).map((one) => one.line));
    numberLines();
    byId("mistakes").replaceChildren(...(mistakes ? [list(mistakes.found), element("p", mistakes.hint, "note")] : []));
    byId("plan").replaceChildren(...(plan ? planned(plan) : []));
    pending(false);
  }

  function showScales(scales) {
    const choice = byId("scale");
    const wanted = choice.value;
    const known = [...choice.options].slice(1).map((one) => one.value);
    if (!scales.length || known.join() === scales.join()) return;
    choice.replaceChildren(choice.options[0], ...scales.map((one) => new Option(one)));
    if (scales.includes(wanted)) choice.value = wanted;
    else if (wanted) soon();
  }

  function list(found) {
    const holder = element("ul", undefined, "plain");
    for (const { line, text } of found) {
      const button = element("button");
      button.type = "button";
      button.append(...(line ? [element("b", `line ${line}`), ": "] : []), text);
      button.addEventListener("click", () => goTo(line ?? 1));
      const item = element("li");
      item.append(button);
      holder.append(item);
    }
    return holder;
  }

  function goTo(line) {
    const lines = toml.value.split("\n");
    const from = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    toml.focus();
    toml.setSelectionRange(from, from + (lines[line - 1] ?? "").length);
    toml.scrollTop = (toml.scrollHeight / lines.length) * (line - 5);
  }

  function planned({ title, first, rest }) {
    const fold = element("details", undefined, "group");
    fold.open = byId("plan").querySelector("details")?.open ?? false;
    fold.append(element("summary", "The whole plan"), entries(rest));
    return [element("p", title, "note"), entries(first), ...(rest.length ? [fold] : [])];
  }

  function entries(found) {
    const holder = element("dl", undefined, "entries");
    for (const [label, lines] of found) {
      const alarm = label === "OBSTACLE" ? "alarm-entry" : "";
      const value = element("dd", undefined, alarm);
      value.append(...lines.map((line) => element("div", line)));
      holder.append(element("dt", label, alarm), value);
    }
    return holder;
  }

  function numberLines() {
    const count = toml.value.split("\n").length;
    byId("lines").replaceChildren(...Array.from({ length: count }, (_, at) => element("span", at + 1, wrong.has(at + 1) ? "mistake" : "")));
    byId("lines").scrollTop = toml.scrollTop;
  }

  toml.addEventListener("input", () => { numberLines(); soon(); });
  toml.addEventListener("scroll", () => { byId("lines").scrollTop = toml.scrollTop; });
  byId("scale").addEventListener("change", soon);
  byId("time").addEventListener("input", soon);
  byId("start").addEventListener("submit", (event) => {
    if (toml.value !== before && !confirm("Replace the experiment? What you have changed is lost.")) event.preventDefault();
  });
  byId("copy").addEventListener("click", async () => {
    const done = await navigator.clipboard?.writeText(toml.value).then(() => true, () => false);
    if (!done) toml.select(); // without permission: the text is selected, for Ctrl-C
    byId("copied").textContent = done ? "Copied." : "Selected: copy it with Ctrl-C.";
  });
  byId("run")?.addEventListener("click", async () => {
    byId("run").disabled = true;
    byId("run-note").textContent = "Starting…";
    const answer = await post("/design/run").catch(() => null);
    const found = await answer?.json().catch(() => null);
    if (answer?.status === 202) { location.assign("/design/started"); return; }
    byId("run-note").textContent = found ? [found.problem, found.hint].filter(Boolean).join("; ") : "the server did not answer";
    byId("run").disabled = !valid;
  });
  addEventListener("pageshow", () => { numberLines(); check(); }); // with the text that a browser restores
})();
