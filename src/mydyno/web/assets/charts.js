"use strict";
/* One chart: lines over time, with a readout below. Colours are those of the page, read again when they change. */
const charts = (() => {
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const element = (name, text) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  function number(value, digits = 3) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const size = Math.abs(value);
    const places = size === 0 ? 0 : Math.max(0, Math.min(4, digits - 1 - Math.floor(Math.log10(size))));
    return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
  }

  const clock = (unix_s) => new Date(1000 * unix_s).toLocaleTimeString("en-GB");

  /* Where lines have gaps: the values without a neighbour, which no line shows; null: all, or none. */
  function alone(plot, series, showsAll) {
    const values = plot.data[series];
    const found = showsAll ? [] : [...values.keys()].filter((at) => values[at] != null && values[at - 1] == null && values[at + 1] == null);
    return found.length ? found : null;
  }

  /* lines: [{name, colour, band: [low, high] columns or undefined}]; columns: [x, …]. */
  function chart(parent, { title, unit, lines, time = false, height = 170, onRange }) {
    const holder = element("div");
    const heading = element("h3", title);
    heading.append(element("span", unit));
    const place = element("div");
    const readout = element("div");
    readout.className = "readout";
    holder.append(heading, place, readout);
    holder.setAttribute("role", "group");
    holder.setAttribute("aria-label", unit ? `${title}, ${unit}` : title);
    if (onRange) holder.tabIndex = 0;
    parent.append(holder);
    let columns = null;
    let plot = null;
    let range = null;

    function show(index) {
      readout.replaceChildren();
      if (!columns || !columns[0].length) return;
      const at = index === null || index === undefined ? columns[0].length - 1 : index;
      const when = columns[0][at];
      readout.append(element("span", time ? clock(when) : `${number(when, 4)} s`));
      let column = 1;
      for (const line of lines) {
        const part = element("span");
        const mark = element("i");
        mark.className = `a${line.colour}`;
        part.append(mark, `${line.name ? `${line.name} ` : ""}${number(columns[column][at])}`);
        readout.append(part);
        column += line.band ? 3 : 1;
      }
    }

    function make() {
      if (plot) plot.destroy();
      const axis = { stroke: style("--soft"), grid: { stroke: style("--grid"), width: 1 }, ticks: { stroke: style("--grid"), width: 1 }, font: "11px system-ui, sans-serif" };
      const series = [{}];
      const bands = [];
      for (const line of lines) {
        const colour = style(`--arm${line.colour}`);
        /* A few values apart from each other, e.g. of slices, are dots; without them a single one is invisible. */
        const points = { size: 5, fill: colour, show: (one) => one.data[0].length < 60, filter: alone };
        series.push({ label: line.name, stroke: colour, width: 1.5, points, spanGaps: false });
        if (line.band) {
          bands.push({ series: [series.length + 1, series.length], fill: `${colour}33` });
          series.push({ stroke: "transparent", points: { show: false } }, { stroke: "transparent", points: { show: false } });
        }
      }
      plot = new uPlot({
        width: Math.max(220, place.clientWidth), height, series, bands,
        legend: { show: false },
        cursor: { y: false, drag: { x: Boolean(onRange), y: false, setScale: false }, points: { show: false }, sync: { key: "mydyno" } },
        scales: { x: { time, range: (_, low, high) => range ?? [low, high] }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 1) > 0 ? 1.08 * high : 1] } },
        axes: [time ? { ...axis, space: 70, values: (_, values) => values.map((value) => clock(value)) } : axis, { ...axis, size: 52, values: (_, values) => values.map((value) => number(value, 2)) }],
        hooks: {
          setCursor: [(one) => show(one.cursor.idx)],
          setSelect: [(one) => {
            if (!onRange || one.select.width < 8) return;
            const range = [one.select.left, one.select.left + one.select.width].map((left) => one.posToVal(left, "x"));
            one.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            onRange(...range);
          }],
        },
      }, columns ?? [[], ...series.slice(1).map(() => [])], place);
    }

    make();
    new ResizeObserver(() => {
      const width = Math.max(220, place.clientWidth);
      if (plot.width !== width) plot.setSize({ width, height });
    }).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { make(); show(null); });
    return {
      holder,
      /* `whole`: [least, greatest] x; without it that of the data. */
      set(data, whole) {
        columns = data;
        if (whole) range = whole;
        plot.setData(data);
        if (plot.cursor.left < 0 || plot.cursor.left === undefined) show(null);
      },
    };
  }

  return { chart, clock, number, element };
})();
