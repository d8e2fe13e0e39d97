"use strict";
/* The live page: the history once, then each line of live.jsonl as it is written. The browser reconnects by itself and
   sends the id of the last line that it has, so that none is missing. */
(() => {
  const byId = (id) => document.getElementById(id);
  const { element, number } = charts;
  const base = byId("content").dataset.study;
  const KEPT = 1800;
  const seconds = new Map([["", []]]); // the study's own; of a study over host groups also of each group
  let shown = ""; // the group whose figures are shown
  let over = null;
  let process = { kind: "none", words: "" };
  let runs = { all: 0, invalid: 0 };
  let drawing = false;

  const of = (line, path) => path.split(".").reduce((value, key) => value?.[key], line) ?? null;
  const scaled = (path, divisor) => (line) => { const value = of(line, path); return value === null ? null : value / divisor; };
  const MIB = 1 << 20;
  const PANELS = [
    { title: tr("Queries"), unit: "1/s", lines: [["", scaled("qps", 1), 1]] },
    { title: tr("Response time"), unit: "ms", lines: [["p50", scaled("latency_us.p50", 1e3), 3], ["p95", scaled("latency_us.p95", 1e3), 1], ["p99", scaled("latency_us.p99", 1e3), 2]] },
    { title: tr("Host CPU"), unit: "%", lines: [[tr("busy"), scaled("cpu_busy_pct", 1), 1], ["steal", scaled("cpu_steal_pct", 1), 2]] },
    { title: tr("Checkpoint age"), unit: "MiB", lines: [["", scaled("server.innodb_checkpoint_age_bytes", MIB), 1]] },
    { title: tr("Redo written"), unit: "MiB/s", lines: [["", scaled("server.innodb_redo_written_bytes_per_s", MIB), 1]] },
    { title: tr("Dirty pages"), unit: "%", lines: [["", scaled("server.innodb_dirty_pages_pct", 1), 1]] },
  ];
  const TILES = [
    [tr("Queries"), "1/s", scaled("qps", 1)], [tr("Transactions"), "1/s", scaled("tps", 1)],
    ["p50", "ms", scaled("latency_us.p50", 1e3)], ["p95", "ms", scaled("latency_us.p95", 1e3)], ["p99", "ms", scaled("latency_us.p99", 1e3)],
    [tr("Errors"), "1/s", scaled("errors_per_s", 1)], [tr("Host CPU busy"), "%", scaled("cpu_busy_pct", 1)], [tr("Steal"), "%", scaled("cpu_steal_pct", 1)],
    [tr("Server's queries"), "1/s", scaled("server.queries_per_s", 1)], [tr("Threads running"), "", scaled("server.threads_running", 1)],
    [tr("Buffer pool hits"), "%", scaled("server.innodb_buffer_pool_hit_pct", 1)], [tr("Dirty pages"), "%", scaled("server.innodb_dirty_pages_pct", 1)],
    [tr("Checkpoint age"), "MiB", scaled("server.innodb_checkpoint_age_bytes", MIB)], [tr("Redo written"), "MiB/s", scaled("server.innodb_redo_written_bytes_per_s", MIB)],
    [tr("History list"), "", scaled("server.innodb_history_list_length", 1)], [tr("Row lock waits"), "", scaled("server.innodb_row_lock_current_waits", 1)],
    [tr("Server's memory"), "MiB", scaled("server.server_rss_bytes", MIB)],
  ];
  const WORDS = {
    preparing: tr("Servers, programs and data are being prepared."), starting: tr("Data are restored and servers started."),
    "warm-up": tr("The server is warmed up."), pilot: tr("The pilot loads the control and its own copy."), step: tr("The server is under load."),
    slice: tr("The servers are loaded in turn."), profile: tr("The servers are profiled in turn; these slices do not count."), alone: tr("The control is loaded with all other servers stopped."), analysing: tr("Servers stop, and results are computed."),
    hosts: tr("Host groups execute the blocks."),
  };

  const drawn = PANELS.map((panel) => charts.chart(byId("charts"), { title: panel.title, unit: panel.unit, time: true, lines: panel.lines.map(([name, , colour]) => ({ name, colour })) }));
  const tiles = TILES.map(([name, unit]) => {
    const holder = element("div");
    const value = element("dd", "–");
    holder.append(element("dt", name), value);
    byId("tiles").append(holder);
    return { value, unit };
  });

  const STATES = {
    preparing: tr("preparing"), starting: tr("starting"), "warm-up": tr("warm-up"), pilot: tr("pilot"), step: tr("step"), slice: tr("slice"),
    profile: tr("profile"), waits: tr("waits"), kernel: tr("kernel"), alone: tr("alone"), analysing: tr("analysing"), hosts: tr("hosts"), complete: tr("complete"), partial: tr("partial"),
    failed: tr("failed"), killed: tr("killed"), copied: tr("copied"), ended: tr("ended"), silent: tr("silent"), running: tr("running"), waiting: tr("waiting"), lost: tr("lost"),
  };
  const stateWord = (state) => STATES[state] ?? state;

  function duration(total) {
    const whole = Math.round(total);
    const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
    if (hours) return tr("{hours} h {minutes} min", { hours, minutes });
    return minutes ? tr("{minutes} min {seconds} s", { minutes, seconds: rest }) : tr("{seconds} s", { seconds: rest });
  }

  const lane = (line) => (line.copy === 2 ? `${line.arm} (A′)` : line.arm);
  const stamp = (line) => {
    const time = element("time", charts.clock(line.unix_ns / 1e9));
    time.dateTime = new Date(line.unix_ns / 1e6).toISOString();
    return time;
  };

  function take(line) {
    if (line.record === "opened") {
      over = null;
      byId("ended").hidden = true;
    } else if (line.record === "second") {
      const group = line.group ?? "";
      if (!seconds.has(group)) addGroup(group);
      const lines = seconds.get(group);
      lines.push(line);
      if (lines.length > KEPT) lines.splice(0, lines.length - KEPT);
    } else if (line.record === "run") {
      runs.all += 1;
      if (line.valid && !line.failed && !(line.reasons ?? []).length) return;
      runs.invalid += 1;
      const item = element("li");
      const reasons = (line.reasons ?? []).map((reason) => reason.text).join("; ");
      const state = line.failed ? tr("failed") : line.valid ? tr("used in part") : tr("not used");
      item.append(stamp(line), (line.group ? `${line.group} · ` : "") + tr("block {block}, {arm}, {state}: {reasons}", { block: line.block, arm: lane(line), state, reasons: line.failed || reasons }));
      byId("invalid").prepend(item);
    } else if (line.record === "precision") {
      showPrecision(line);
    } else if (line.record === "note") {
      const item = element("li");
      item.append(stamp(line), line.text);
      byId("notes").prepend(item);
    } else if (line.record === "ended") {
      over = line;
    }
  }

  function showPrecision(line) {
    const names = JSON.parse(byId("metric-names").textContent);
    const list = element("ul");
    list.className = "plain";
    for (const [metric, width] of Object.entries(line.half_widths)) list.append(element("li", tr("±{percent} % of {metric}", { percent: number(100 * width, 2), metric: names[metric] ?? metric })));
    const expected = line.made
      ? tr("Expected at {blocks} blocks, from {made} blocks:", { blocks: line.blocks, made: line.made })
      : tr("Expected at {blocks} blocks, from the pilot:", { blocks: line.blocks });
    byId("precision").replaceChildren(element("p", expected), list);
  }

  function set(id, text) {
    if (byId(id).textContent !== text) byId(id).textContent = text;
  }

  function addGroup(group) {
    seconds.set(group, []);
    const row = element("tr");
    row.dataset.group = group;
    const choose = element("button", group);
    choose.type = "button";
    choose.title = tr("Show its figures below");
    choose.addEventListener("click", () => { shown = group; soon(); });
    const head = element("th");
    head.scope = "row";
    head.append(choose);
    row.append(head, ...Array.from({ length: 6 }, (_, index) => { const cell = element("td"); if (index > 2) cell.className = "num"; return cell; }));
    byId("group-rows").append(row);
    byId("groups").hidden = false;
    shown ||= group;
  }

  function showGroups(running) {
    for (const row of byId("group-rows").children) {
      const now = seconds.get(row.dataset.group).at(-1);
      row.querySelector("button").setAttribute("aria-pressed", String(row.dataset.group === shown));
      const load = now.arm && now.step ? `${lane(now)}, ${now.step}` : "";
      const cells = [running ? stateWord(now.state) : "", now.block ?? "", load, ...[now.qps, now.cpu_busy_pct, now.cpu_steal_pct].map((value) => number(value ?? null))];
      cells.forEach((text, index) => { row.children[index + 1].textContent = running || index < 1 ? text : ""; });
      row.classList.toggle("lost", now.state === "lost");
    }
  }

  function draw() {
    drawing = false;
    const now = seconds.get("").at(-1);
    const lines = seconds.get(shown);
    const newest = lines.at(-1);
    const running = !over && (process.kind === "running" || process.kind === "elsewhere");
    const state = byId("state");
    set("state", stateWord(over ? over.state : running || process.kind === "none" ? (now?.state ?? "preparing") : process.kind));
    state.className = `chip ${over ? `state-${over.state === "complete" ? "complete" : over.state === "failed" ? "failed" : "partial"}` : running ? "state-running" : process.kind === "none" ? "none" : "state-failed"}`;
    byId("alarm").hidden = !(process.words && !over);
    set("alarm", process.words);
    byId("stop").disabled = !running;
    showPlace(now, running);
    showGroups(running);
    showEnd();
    set("figures-title", shown ? tr("Now: {group}", { group: shown }) : tr("Now"));
    byId("tiles").hidden = !running && process.kind !== "none";
    if (now) byId("progress").value = over?.state === "complete" ? 1 : share(now);
    if (newest) {
      tiles.forEach(({ value, unit }, index) => {
        value.replaceChildren(number(TILES[index][2](newest)), element("small", unit ? ` ${unit}` : ""));
      });
      set("rates-note", newest.state === "slice" ? tr("Rates and response times are those of the last slice.") : "");
    }
    const x = lines.map((line) => line.unix_ns / 1e9);
    drawn.forEach((chart, index) => chart.set([x, ...PANELS[index].lines.map(([, read]) => lines.map(read))]));
    byId("counted").textContent = runs.all ? tr("{count} of {all} runs count so far.", { count: runs.all - runs.invalid, all: runs.all }) : tr("No run has finished yet.");
  }

  function share(now) {
    const [done, all] = now.made !== undefined ? [now.made, now.blocks] : now.runs ? [(now.run ?? 1) - 1, now.runs] : [(now.block ?? 1) - 1, now.blocks];
    if (!all) return 0;
    const began = seconds.get("").find((line) => line.block || line.state === "hosts");
    const passed = began ? (now.unix_ns - began.unix_ns) / 1e9 : 0;
    return now.left_s !== undefined && passed + now.left_s > 0 ? Math.max(done / all, passed / (passed + now.left_s)) : done / all;
  }

  function showPlace(now, running) {
    if (!now) return;
    const parts = [];
    if (now.made !== undefined) parts.push(tr("{made} of {blocks} blocks finished", { made: now.made, blocks: now.blocks }));
    if (now.block) parts.push(tr("Block {block} of {blocks}", { block: now.block, blocks: now.blocks }));
    if (now.run) parts.push(tr("run {run} of {runs}", { run: now.run, runs: now.runs }));
    if (now.arm && now.step) parts.push(lane(now), now.cycle ? tr("{step}, cycle {cycle}", { step: now.step, cycle: now.cycle }) : now.step);
    else if (now.arm && now.run) parts.push(lane(now));
    const place = parts.join(" · ");
    const left = running && now.left_s !== undefined ? tr(" About {duration} left.", { duration: duration(now.left_s) }) : "";
    const words = running || process.kind === "none" ? `${WORDS[now.state] ?? ""}${left}` : over ? "" : tr("This is the last state that was written.");
    const holder = byId("now");
    const wanted = [place, words].filter(Boolean);
    if ([...holder.children].map((one) => one.textContent).join("\n") !== wanted.join("\n")) holder.replaceChildren(...wanted.map((text) => element("p", text)));
  }

  function showEnd() {
    const holder = byId("ended");
    if (!over || !holder.hidden) return;
    holder.hidden = false;
    const link = element("a", tr("The study, with its report"));
    link.href = base;
    const last = element("p");
    last.append(link);
    const words = over.answer?.length ? over.answer : [over.text ? tr("The study ended: {text}.", { text: over.text }) : tr("The study has ended.")];
    holder.replaceChildren(...words.map((text) => element("p", text)), last);
  }

  function soon() {
    if (drawing) return;
    drawing = true;
    (document.hidden ? setTimeout : requestAnimationFrame)(draw);
  }

  function connection(text, lost) {
    set("connection", text);
    byId("connection").classList.toggle("lost", lost);
  }

  /* A browser has six connections to one server for all its tabs: what is over, or hidden, holds none. */
  const LASTING = ["ended", "copied"];
  let source = null;

  function listen(from) {
    source?.close();
    if (document.hidden) return;
    source = new EventSource(`${base}/live/events?from=${from}`);
    source.addEventListener("line", (event) => {
      try {
        take(JSON.parse(event.data));
      } catch (error) {
        return; // a line that a crash cut short
      }
      soon();
    });
    source.addEventListener("process", (event) => {
      process = JSON.parse(event.data);
      soon();
      if (!LASTING.includes(process.kind)) return;
      source.close();
      connection(stateWord(process.kind), false);
    });
    source.addEventListener("open", () => connection(tr("connected"), false));
    source.addEventListener("error", () => {
      connection(over ? tr("the server has ended; mydyno serve shows the study again") : tr("connection lost; trying again"), !over);
      if (source.readyState === EventSource.CLOSED) setTimeout(again, 3000);
    });
  }

  /* The browser itself gives up after an error status, e.g. of a server that was started again with another token. */
  async function again() {
    if (document.hidden) return;
    const answer = await fetch("/session").catch(() => null);
    if (answer?.status === 401) connection(tr("access has ended: open the URL that mydyno printed last"), true);
    else start();
  }

  async function start() {
    const answer = await fetch(`${base}/live/history`).catch(() => null);
    if (!answer?.ok) {
      connection(tr("connection lost; trying again"), true);
      setTimeout(start, 3000);
      return;
    }
    const { end, lines } = await answer.json();
    seconds.clear();
    seconds.set("", []);
    shown = "";
    byId("group-rows").replaceChildren();
    runs = { all: 0, invalid: 0 };
    byId("invalid").replaceChildren();
    byId("notes").replaceChildren();
    lines.forEach(take);
    soon();
    listen(end);
  }

  byId("stop").addEventListener("click", () => byId("confirm").showModal());
  byId("confirm").addEventListener("close", async () => {
    if (byId("confirm").returnValue !== "stop") return;
    byId("stop").disabled = true;
    const answer = await fetch(`${base}/stop`, { method: "POST", headers: { "X-Mydyno": "1" } });
    const { problem } = await answer.json().catch(() => ({ problem: tr("the server did not answer") }));
    set("stop-note", problem ? tr("Not stopped: {problem}.", { problem }) : tr("Stopping: the servers end and the host is restored."));
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) start();
    else if (!LASTING.includes(process.kind)) source?.close();
  });
  start();
})();
