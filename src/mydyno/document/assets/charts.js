"use strict";
/* One chart: lines over time, with a readout below. Colours are those of the page, read again when they change.
   For the pages of `mydyno serve`, and for the telemetry of reports. */
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

  const median = (values) => {
    const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
    const middle = sorted.length >> 1;
    if (!sorted.length) return null;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  };

  /* lines: [{name, colour, band: whether [low, high] columns follow, dash, width}]; columns: [x, …].
     x: the unit of x where it is no time of day. shaded: [from, to] of x outside of which the chart is shaded.
     summary: what the readout says of the medians in between, while no cursor is on the chart; else it has the last values.
     cut: whether the axis may begin above 0. */
  function chart(parent, { title, unit, lines, time = false, height = 170, onRange, x = " s", shaded, summary, cut = false, level = "h3" }) {
    const holder = element("div");
    const heading = element(level, title);
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

    const inside = (at) => !shaded || (columns[0][at] > shaded[0] && columns[0][at] <= shaded[1]);
    const middle = (column) => median(columns[column].filter((_, at) => inside(at)));

    function show(index) {
      readout.replaceChildren();
      if (!columns || !columns[0].length) return;
      const rests = index === null || index === undefined;
      const at = rests ? columns[0].length - 1 : index;
      const when = columns[0][at];
      readout.append(element("span", rests && summary ? summary : time ? clock(when) : `${number(when, 4)}${x}`));
      let column = 1;
      for (const line of lines) {
        const part = element("span");
        const mark = element("i");
        mark.className = `a${line.colour}`;
        part.append(mark, `${line.name ? `${line.name} ` : ""}${number(rests && summary ? middle(column) : columns[column][at])}`);
        readout.append(part);
        column += line.band ? 3 : 1;
      }
    }

    function make() {
      if (plot) plot.destroy();
      const axis = { stroke: style("--soft"), grid: { stroke: style("--grid"), width: 1 }, ticks: { stroke: style("--grid"), width: 1 }, font: "13px system-ui, sans-serif" };
      const series = [{}];
      const bands = [];
      for (const line of lines) {
        const colour = style(`--arm${line.colour}`);
        /* A few values apart from each other, e.g. of slices, are dots; without them a single one is invisible. */
        const points = { size: 5, fill: colour, show: (one) => !summary && one.data[0].length < 60, filter: alone };
        series.push({ label: line.name, stroke: colour, width: line.width ?? 1.5, dash: line.dash, points, spanGaps: false });
        if (line.band) {
          bands.push({ series: [series.length + 1, series.length], fill: `${colour}33` });
          series.push({ stroke: "transparent", points: { show: false } }, { stroke: "transparent", points: { show: false } });
        }
      }
      plot = new uPlot({
        width: Math.max(220, place.clientWidth), height, series, bands,
        legend: { show: false },
        cursor: { y: false, drag: { x: Boolean(onRange || summary), y: false, setScale: !onRange }, points: { show: false }, sync: { key: "mydyno" } },
        scales: { x: { time, range: (_, low, high) => range ?? [low, high] }, y: { range: cut ? cutRange : (_, low, high) => [Math.min(0, low ?? 0), (high ?? 1) > 0 ? 1.08 * high : 1] } },
        axes: [time ? { ...axis, space: 70, values: (_, values) => values.map((value) => clock(value)) } : { ...axis, values: (_, values) => values.map((value) => `${value}${x}`) }, { ...axis, size: 52, values: (_, values) => values.map((value) => number(value, 2)) }],
        hooks: {
          drawClear: [shade],
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

    /* From 0, unless that would take half of the height. */
    function cutRange(_, low, high) {
      if (low === null || high === null) return [0, 1];
      const floor = low < 0.5 * high ? 0 : low - (high - low) * 0.08;
      const flat = high - floor < Math.abs(high) * 0.02 ? Math.abs(high) * 0.02 || 1 : 0;
      return [Math.min(floor, low) - (floor ? flat : 0), high + (high - floor) * 0.06 + flat];
    }

    function shade(one) {
      if (!shaded) return;
      const { left, top, width, height: tall } = one.bbox;
      const at = (value) => Math.min(left + width, Math.max(left, one.valToPos(value, "x", true)));
      one.ctx.save();
      one.ctx.fillStyle = style("--outside");
      one.ctx.globalAlpha = 0.13;
      one.ctx.fillRect(left, top, at(shaded[0]) - left, tall);
      one.ctx.fillRect(at(shaded[1]), top, left + width - at(shaded[1]), tall);
      one.ctx.restore();
    }

    make();
    const sized = new ResizeObserver(() => {
      const width = Math.max(220, place.clientWidth);
      if (plot.width !== width) plot.setSize({ width, height });
    });
    sized.observe(place);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const repaint = () => { make(); show(null); };
    scheme.addEventListener("change", repaint);
    return {
      holder,
      medians: () => lines.reduce(([found, column], line) => [[...found, middle(column)], column + (line.band ? 3 : 1)], [[], 1])[0],
      destroy() {
        sized.disconnect();
        scheme.removeEventListener("change", repaint);
        plot.destroy();
      },
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
