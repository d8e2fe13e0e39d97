"use strict";
/* The telemetry explorer: small multiples of one metric at every level, or of one level's every metric, cursors in step.
   If anything here fails, the page stays as it is without it. */
(() => {
  const { element, number } = charts;
  const byId = (id) => document.getElementById(id);

  function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    return Array.from({ length: bytes.length / 4 }, (_, index) => {
      const value = view.getFloat32(4 * index, true);
      return Number.isNaN(value) ? null : value;
    });
  }

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
  }

  function plot(data, panel, step, series, byLevel, all, hidden, plots) {
    const columns = [];
    const lines = [];
    for (const [group, ...packed] of panel.lines) {
      if (hidden.has(group)) continue;
      const { label, colour, dash, copy } = data.groups[group];
      const [middle, low, high] = packed.map((text) => unpack(text).map((value) => (value === null ? null : value / series.divisor)));
      lines.push({ name: label, colour, band: Boolean(low), width: copy ? 1 : 1.6, dash: dash ? dash.split(" ").map(Number) : undefined });
      columns.push(middle, ...(low ? [low, high] : []));
    }
    const title = byLevel ? (all ? `${step.workload}, ${step.level}` : step.level) : series.label;
    const chart = charts.chart(plots, {
      title, unit: series.unit, lines, height: 190, level: "h4", shaded: step.window ?? undefined,
      summary: step.window ? "window:" : "median:", cut: !byId("zero").checked,
    });
    const seconds = (columns[0] ?? []).map((_, index) => (index + 1) * panel.width);
    chart.set([seconds, ...columns]);
    const medians = chart.medians().map((value, index) => `${lines[index].name} ${number(value)}`);
    chart.holder.setAttribute("role", "figure");
    chart.holder.setAttribute(
      "aria-label",
      `${series.label} over time, ${step.workload} at ${step.level}, ${series.unit}. Medians in the measured window: ${medians.join(", ")}.`,
    );
    return chart;
  }

  try {
    if (!window.uPlot) throw new Error("uPlot is not there");
    start();
  } catch (error) {
    console.warn("The charts of the telemetry could not start.", error);
    document.documentElement.classList.remove("explorer-runs");
    byId("explorer").hidden = true;
  }
})();
