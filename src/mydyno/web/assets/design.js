"use strict";
/* The page /design: sends the form, or the TOML that was edited, to be checked, and shows what comes back. */
(async () => {
  const WAIT_MS = 350;
  const byId = (id) => document.getElementById(id);
  const words = JSON.parse(byId("form").dataset.words);
  const toml = byId("toml");
  let waiting = 0;
  let current = null; // the request under way
  let from = "tree"; // where the last change was made
  let valid = false;

  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const post = (path, sent, signal) => fetch(path, { method: "POST", body: JSON.stringify(sent), headers: { "X-Mydyno": "1", "Content-Type": "application/json" }, signal });
  const sent = (what) => ({ ...what, scale: byId("scale").value, time: byId("time").value });
  const draft = () => sent(from === "toml" ? { toml: toml.value } : { tree: form.get() });

  const schema = await (await fetch("/design/schema")).json();
  const form = designForm(schema, byId("form"), words, () => { from = "tree"; soon(); });

  function soon() {
    current?.abort();
    current = null; // its answer is of what was there before, and would overwrite what was typed since
    clearTimeout(waiting);
    waiting = setTimeout(() => check(draft()), WAIT_MS);
    pending(true);
  }

  function pending(is) {
    byId("plan").classList.toggle("stale", is);
    if (byId("run")) byId("run").disabled = is || !valid;
  }

  async function check(wanted) {
    current?.abort();
    const mine = new AbortController();
    current = mine;
    const answer = await post("/design/check", wanted, mine.signal).catch(() => null);
    if (mine !== current) return;
    if (!answer?.ok) {
      verdict(answer?.status === 413 ? words.too_large : answer?.status === 401 ? words.no_access : words.no_answer, "state-failed");
      return;
    }
    show(await answer.json(), wanted);
  }

  function verdict(text, kind) {
    byId("verdict").textContent = text;
    byId("verdict").className = `chip ${kind}`;
  }

  function show(found, wanted) {
    if (!("toml" in wanted)) toml.value = found.toml;
    if (!("tree" in wanted) && found.tree) form.set(found.tree);
    byId("file").textContent = found.file;
    byId("download").download = found.file;
    URL.revokeObjectURL(byId("download").href);
    byId("download").href = URL.createObjectURL(new Blob([toml.value], { type: "application/toml" }));
    byId("command").textContent = found.command;
    showScales(found.scales);
    const mistakes = found.mistakes?.found ?? [];
    form.mark(mistakes);
    const obstacles = found.plan?.obstacles ?? [];
    valid = Boolean(found.plan) && obstacles.length === 0;
    if (valid) verdict(words.valid, "state-complete");
    else if (found.plan) verdict(words.obstacle, "state-failed");
    else verdict(words.mistakes, "state-failed");
    showMistakes(found.mistakes);
    showPlan(found.plan);
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

  function showMistakes(mistakes) {
    const holder = byId("mistakes");
    if (!mistakes) { holder.replaceChildren(); return; }
    const title = element("p", mistakes.title, "empty alarm");
    const list = element("ul", undefined, "plain");
    for (const one of mistakes.found) {
      const item = element("li");
      const button = element("button", one.text);
      button.type = "button";
      button.addEventListener("click", () => form.focus(one.key));
      item.append(button);
      list.append(item);
    }
    holder.replaceChildren(title, list, ...(mistakes.hint ? [element("p", mistakes.hint, "note")] : []));
  }

  function showPlan(plan) {
    const holder = byId("plan");
    if (!plan) { holder.replaceChildren(); return; }
    const parts = plan.parts.map((part) => {
      const list = element("dl", undefined, "entries");
      for (const { label, lines, alarm } of part) {
        const value = element("dd", undefined, alarm ? "alarm-entry" : "");
        lines.forEach((line) => value.append(element("div", line)));
        list.append(element("dt", label, alarm ? "alarm-entry" : ""), value);
      }
      return list;
    });
    holder.replaceChildren(element("p", plan.title, "lead"), ...parts);
  }

  toml.addEventListener("input", () => { from = "toml"; soon(); });
  byId("scale").addEventListener("change", soon);
  byId("time").addEventListener("input", soon);
  byId("form").addEventListener("submit", (event) => event.preventDefault());
  byId("start").addEventListener("change", () => {
    const name = byId("start").value;
    history.replaceState(null, "", name ? `/design?from=${encodeURIComponent(name)}` : "/design");
    from = "tree";
    check(sent({ start: name }));
  });
  byId("copy").addEventListener("click", async () => {
    const done = await navigator.clipboard?.writeText(toml.value).then(() => true, () => false);
    if (!done) toml.select(); // without permission: the text is selected, for Ctrl-C
    byId("copied").textContent = done ? words.copied : words.selected;
  });
  byId("run")?.addEventListener("click", async () => {
    byId("run").disabled = true;
    byId("run-note").textContent = words.starting;
    const answer = await post("/design/run", draft()).catch(() => null);
    const found = await answer?.json().catch(() => null);
    if (answer?.status === 202) { location.assign("/design/started"); return; }
    byId("run-note").textContent = found ? [found.problem, found.hint].filter(Boolean).join("; ") : words.no_answer;
    byId("run").disabled = !valid;
  });
  check(sent({ start: byId("start").value }));
})();
