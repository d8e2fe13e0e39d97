"use strict";
/* The telemetry explorer: small multiples of one metric at every level, or of one level's every metric, cursors in step.
   If anything here fails, the page stays as it is without it: the still charts are shown. */
(() => {
  const element = (name, text) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const byId = (id) => document.getElementById(id);
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Array.from({ length: bytes.length / 4 }, (_, index) => {
      const value = view.getFloat32(4 * index, true);
      return Number.isNaN(value) ? null : value;
    });
  }

  function print(value, digits = 3) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    const places = size === 0 ? 0 : Math.max(0, Math.min(6, digits - 1 - Math.floor(Math.log10(size))));
    return value.toFixed(places);
  }

  const median = (values) => {
    const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
    if (!sorted.length) return null;
    const middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  };

  function start() {
    const data = JSON.parse(byId("telemetry-data").textContent);
    const plots = byId("plots");
    const hidden = new Set();
    let shown = [];

    const choose = (id, entries) => {
      for (const [value, label] of entries) {
        const option = element("option", label);
        option.value = value;
        byId(id).append(option);
      }
      byId(id).addEventListener("change", draw);
    };
    const workloads = [...new Set(data.steps.map((step) => step.workload))];
    choose("metric", data.series.map((series, index) => [index, series.label]));
    choose("workload", [...(workloads.length > 1 ? [["", "all"]] : []), ...workloads.map((name) => [name, name])]);
    choose("step", data.steps.map((step, index) => [index, `${step.workload}, ${step.level}`]));
    byId("workload").value = workloads[0];
    byId("view").addEventListener("change", draw);
    byId("zero").addEventListener("change", draw);

    data.groups.forEach((group, index) => {
      const label = element("label");
      label.className = `a${group.colour}`;
      const box = element("input");
      box.type = "checkbox";
      box.checked = true;
      box.addEventListener("change", () => {
        if (box.checked) hidden.delete(index);
        else hidden.add(index);
        draw();
      });
      const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      swatch.setAttribute("viewBox", "0 0 28 12");
      swatch.setAttribute("aria-hidden", "true");
      const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
      line.setAttribute("d", "M0 6H28");
      line.setAttribute("class", "line");
      if (group.dash) line.setAttribute("stroke-dasharray", group.dash);
      swatch.append(line);
      label.append(box, swatch, element("span", group.label));
      byId("arms").append(label);
    });

    function draw() {
      for (const one of shown) one.destroy();
      shown = [];
      plots.replaceChildren();
      const byLevel = byId("view").value === "levels";
      for (const label of document.querySelectorAll(".for-levels")) label.hidden = !byLevel;
      for (const label of document.querySelectorAll(".for-metrics")) label.hidden = byLevel;
      const wanted = [];
      if (byLevel) {
        const series = Number(byId("metric").value);
        data.steps.forEach((step, index) => {
          if (!byId("workload").value || step.workload === byId("workload").value) wanted.push([index, series]);
        });
      } else {
        data.series.forEach((_, index) => wanted.push([Number(byId("step").value), index]));
      }
      const all = !byId("workload").value;
      for (const [step, series] of wanted) {
        const panel = data.panels[`${step}:${series}`];
        if (panel) shown.push(plot(data, panel, data.steps[step], data.series[series], byLevel, all, hidden, plots));
      }
      if (!shown.length) plots.append(element("p", "No run has this metric here."));
    }

    byId("explorer").hidden = false;
    draw();
    document.documentElement.classList.add("explorer-runs");
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    let width = plots.clientWidth;
    new ResizeObserver(() => {
      if (plots.clientWidth !== width) {
        width = plots.clientWidth;
        for (const one of shown) one.setSize({ width: one.root.parentElement.clientWidth, height: one.height });
      }
    }).observe(plots);
  }

  function plot(data, panel, step, series, byLevel, all, hidden, plots) {
    const holder = element("div");
    holder.setAttribute("role", "figure");
    const name = byLevel ? (all ? `${step.workload}, ${step.level}` : step.level) : series.label;
    const heading = element("h4", name);
    heading.append(element("span", series.unit));
    const chart = element("div");
    const readout = element("div");
    readout.className = "readout";
    holder.append(heading, chart, readout);
    plots.append(holder);

    const unit = data.unit ?? " s";
    const axes = [];
    const columns = [];
    const lines = [{}];
    const bands = [];
    const medians = [];
    let seconds = [];
    for (const [group, middle, low, high] of panel.lines) {
      if (hidden.has(group)) continue;
      const look = data.groups[group];
      const colour = style(`--arm${look.colour}`);
      const scaled = (text) => unpack(text).map((value) => (value === null ? null : value / series.divisor));
      const values = scaled(middle);
      seconds = values.map((_, index) => (index + 1) * panel.width);
      medians.push({ look, values, index: columns.length + 1 });
      columns.push(values);
      lines.push({
        label: look.label, stroke: colour, width: look.copy ? 1 : 1.6, points: { show: false },
        dash: look.dash ? look.dash.split(" ").map(Number) : undefined,
      });
      if (low) {
        columns.push(scaled(high), scaled(low));
        const edge = { width: 0, stroke: "transparent", points: { show: false } };
        lines.push({ ...edge }, { ...edge });
        bands.push({ series: [columns.length - 1, columns.length], fill: `${colour}2b` });
      }
    }
    const inWindow = (index) => !step.window || (seconds[index] > step.window[0] && seconds[index] <= step.window[1]);
    const summary = medians.map(({ look, values }) => {
      return `${look.label} ${print(median(values.filter((_, index) => inWindow(index))))}`;
    });
    holder.setAttribute(
      "aria-label",
      `${series.label} over time, ${step.workload} at ${step.level}, ${series.unit}. Medians in the measured window: ${summary.join(", ")}.`,
    );
    const axis = {
      stroke: style("--soft"), font: "11px system-ui, sans-serif", grid: { stroke: style("--grid"), width: 1 },
      ticks: { show: false },
    };
    axes.push({ ...axis, size: 26, grid: { show: false }, values: (_, ticks) => ticks.map((tick) => `${tick}${unit}`) });
    axes.push({ ...axis, size: 52 });
    const read = (at) => {
      readout.replaceChildren(element("span", at === null ? (step.window ? "window:" : "median:") : `${seconds[at]}${unit}:`));
      for (const { look, values } of medians) {
        const entry = element("span", "");
        entry.className = `a${look.colour}`;
        const value = at === null ? median(values.filter((_, index) => inWindow(index))) : values[at];
        entry.append(element("i"), `${look.label} ${print(value)}`);
        readout.append(entry);
      }
    };
    read(null);
    const fromZero = byId("zero").checked;
    return new uPlot(
      {
        width: chart.clientWidth, height: 190, series: lines, bands, axes, legend: { show: false }, padding: [8, 18, 0, 0],
        cursor: { sync: { key: "telemetry" }, y: false, points: { show: false }, drag: { x: true, y: false } },
        scales: {
          x: { time: false },
          y: { range: (_, low, high) => {
            if (low === null || high === null) return [0, 1];
            const floor = fromZero || low < 0.5 * high ? 0 : low - (high - low) * 0.08;
            const flat = high - floor < Math.abs(high) * 0.02 ? Math.abs(high) * 0.02 || 1 : 0;
            return [Math.min(floor, low) - (floor ? flat : 0), high + (high - floor) * 0.06 + flat];
          } },
        },
        hooks: {
          drawClear: [(u) => {
            if (!step.window) return;
            const { left, top, width, height } = u.bbox;
            u.ctx.save();
            u.ctx.fillStyle = style("--outside");
            u.ctx.globalAlpha = 0.13;
            const at = (second) => Math.min(left + width, Math.max(left, u.valToPos(second, "x", true)));
            u.ctx.fillRect(left, top, at(step.window[0]) - left, height);
            u.ctx.fillRect(at(step.window[1]), top, left + width - at(step.window[1]), height);
            u.ctx.restore();
          }],
          setCursor: [(u) => read(u.cursor.idx ?? null)],
        },
      },
      [seconds, ...columns],
      chart,
    );
  }

  try {
    if (!window.uPlot) throw new Error("uPlot is not there");
    start();
  } catch (error) {
    console.warn("The telemetry explorer could not start; the still charts are shown instead.", error);
    document.documentElement.classList.remove("explorer-runs");
    byId("explorer").hidden = true;
  }
})();
