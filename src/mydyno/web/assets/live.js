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
    { title: "Queries", unit: "1/s", lines: [["", scaled("qps", 1), 1]] },
    { title: "Response time", unit: "ms", lines: [["p50", scaled("latency_us.p50", 1e3), 3], ["p95", scaled("latency_us.p95", 1e3), 1], ["p99", scaled("latency_us.p99", 1e3), 2]] },
    { title: "Host CPU", unit: "%", lines: [["busy", scaled("cpu_busy_pct", 1), 1], ["steal", scaled("cpu_steal_pct", 1), 2]] },
    { title: "Checkpoint age", unit: "MiB", lines: [["", scaled("server.innodb_checkpoint_age_bytes", MIB), 1]] },
    { title: "Redo written", unit: "MiB/s", lines: [["", scaled("server.innodb_redo_written_bytes_per_s", MIB), 1]] },
    { title: "Dirty pages", unit: "%", lines: [["", scaled("server.innodb_dirty_pages_pct", 1), 1]] },
  ];
  const TILES = [
    ["Queries", "1/s", scaled("qps", 1)], ["Transactions", "1/s", scaled("tps", 1)],
    ["p50", "ms", scaled("latency_us.p50", 1e3)], ["p95", "ms", scaled("latency_us.p95", 1e3)], ["p99", "ms", scaled("latency_us.p99", 1e3)],
    ["Errors", "1/s", scaled("errors_per_s", 1)], ["Host CPU busy", "%", scaled("cpu_busy_pct", 1)], ["Steal", "%", scaled("cpu_steal_pct", 1)],
    ["Server's queries", "1/s", scaled("server.queries_per_s", 1)], ["Threads running", "", scaled("server.threads_running", 1)],
    ["Buffer pool hits", "%", scaled("server.innodb_buffer_pool_hit_pct", 1)], ["Dirty pages", "%", scaled("server.innodb_dirty_pages_pct", 1)],
    ["Checkpoint age", "MiB", scaled("server.innodb_checkpoint_age_bytes", MIB)], ["Redo written", "MiB/s", scaled("server.innodb_redo_written_bytes_per_s", MIB)],
    ["History list", "", scaled("server.innodb_history_list_length", 1)], ["Row lock waits", "", scaled("server.innodb_row_lock_current_waits", 1)],
    ["Server's memory", "MiB", scaled("server.server_rss_bytes", MIB)],
  ];
  const WORDS = {
    preparing: "Servers, programs and data are being prepared.", starting: "Data are restored and servers started.",
    "warm-up": "The server is warmed up.", step: "The server is under load.",
    slice: "The servers are loaded in turn.", profile: "The servers are profiled in turn; these slices do not count.", alone: "The control is loaded with all other servers stopped.", analysing: "Servers stop, and results are computed.",
    hosts: "Host groups execute the blocks.",
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
    preparing: "preparing", starting: "starting", "warm-up": "warm-up", step: "load", slice: "slice",
    profile: "profile", waits: "waits", kernel: "kernel", alone: "alone", analysing: "analysing", hosts: "hosts", complete: "complete", partial: "partial",
    failed: "failed", killed: "killed", copied: "copied", ended: "ended", silent: "silent", running: "running", waiting: "waiting", lost: "lost",
  };
  const stateWord = (state) => STATES[state] ?? state;

  function duration(total) {
    const whole = Math.round(total);
    const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
    if (hours) return `${hours} h ${minutes} min`;
    return minutes ? `${minutes} min ${rest} s` : `${rest} s`;
  }

  const lane = (line) => (line.copy === 2 ? `${line.arm} again` : line.arm);
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
      const state = line.failed ? "failed" : line.valid ? "used in part" : "not used";
      item.append(stamp(line), (line.group ? `${line.group} · ` : "") + `block ${line.block}, ${lane(line)}, ${state}: ${line.failed || reasons}`);
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
    for (const [metric, width] of Object.entries(line.half_widths)) list.append(element("li", `±${number(100 * width, 2)} % of ${names[metric] ?? metric}`));
    const expected = line.made
      ? `Expected at ${line.blocks} blocks, from ${line.made} blocks:`
      : `Expected at ${line.blocks} blocks, from the first cycles:`;
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
    choose.title = "Show its figures below";
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
    set("figures-title", shown ? `Now: ${shown}` : "Now");
    byId("tiles").hidden = !running && process.kind !== "none";
    if (now) byId("progress").value = over?.state === "complete" ? 1 : share(now);
    if (newest) {
      tiles.forEach(({ value, unit }, index) => {
        value.replaceChildren(number(TILES[index][2](newest)), element("small", unit ? ` ${unit}` : ""));
      });
      set("rates-note", newest.state === "slice" ? "Rates and response times are those of the last slice." : "");
    }
    const x = lines.map((line) => line.unix_ns / 1e9);
    drawn.forEach((chart, index) => chart.set([x, ...PANELS[index].lines.map(([, read]) => lines.map(read))]));
    byId("counted").textContent = runs.all ? `${runs.all - runs.invalid} of ${runs.all} runs count so far.` : "No run has finished yet.";
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
    if (now.made !== undefined) parts.push(`${now.made} of ${now.blocks} blocks finished`);
    if (now.block) parts.push(`Block ${now.block} of ${now.blocks}`);
    if (now.run) parts.push(`run ${now.run} of ${now.runs}`);
    if (now.arm && now.step) parts.push(lane(now), now.cycle ? `${now.step}, cycle ${now.cycle}` : now.step);
    else if (now.arm && now.run) parts.push(lane(now));
    const place = parts.join(" · ");
    const left = running && now.left_s !== undefined ? ` About ${duration(now.left_s)} left.` : "";
    const words = running || process.kind === "none" ? `${WORDS[now.state] ?? ""}${left}` : over ? "" : "This is the last state that was written.";
    const holder = byId("now");
    const wanted = [place, words].filter(Boolean);
    if ([...holder.children].map((one) => one.textContent).join("\n") !== wanted.join("\n")) holder.replaceChildren(...wanted.map((text) => element("p", text)));
  }

  function showEnd() {
    const holder = byId("ended");
    if (!over || !holder.hidden) return;
    holder.hidden = false;
    const link = element("a", "The study, with its report");
    link.href = base;
    const last = element("p");
    last.append(link);
    const words = over.answer?.length ? over.answer : [over.text ? `The study ended: ${over.text}.` : "The study has ended."];
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
    if (document.hidden) return; // by now
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
    source.addEventListener("open", () => connection("connected", false));
    source.addEventListener("error", () => {
      connection(over ? "the server has ended; mydyno serve shows the study again" : "connection lost; trying again", !over);
      if (source.readyState === EventSource.CLOSED) setTimeout(again, 3000);
    });
  }

  /* The browser itself gives up after an error status, e.g. of a server that was started again with another token. */
  async function again() {
    const answer = await fetch("/session").catch(() => null);
    if (answer?.status === 401) connection("access has ended: open the URL that mydyno printed last", true);
    else start();
  }

  async function start() {
    if (document.hidden) return;
    const answer = await fetch(`${base}/live/history`).catch(() => null);
    if (!answer?.ok) {
      connection("connection lost; trying again", true);
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
    const { problem } = await answer.json().catch(() => ({ problem: "the server did not answer" }));
    set("stop-note", problem ? `Not stopped: ${problem}.` : "Stopping: the servers end and the host is restored.");
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source?.close();
    else start();
  });
  start();
})();
