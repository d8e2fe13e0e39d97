"use strict";
/* A run's telemetry: the server sends each chart's points for the range that is shown. */
(() => {
  const holder = document.getElementById("telemetry");
  if (!holder) return;
  const state = document.getElementById("telemetry-state");
  const made = new Map();
  let whole = null;
  let shown = null;
  let asked = 0;

  async function load(from, to) {
    const number = ++asked;
    const query = from === undefined ? "" : `?from=${from}&to=${to}`;
    const answer = await fetch(holder.dataset.source + query);
    const data = await answer.json();
    if (number !== asked) return;
    if (!answer.ok) {
      state.textContent = data.error ?? "The samples cannot be read.";
      return;
    }
    whole ??= [data.from_s, data.to_s];
    shown = [data.from_s, data.to_s];
    draw(data);
    document.getElementById("zoom").hidden = false;
    const range = `${charts.number(data.from_s, 4)} to ${charts.number(data.to_s, 4)} s of the run`;
    const points = data.bucket_s ? `each point is the mean of ${charts.number(data.bucket_s)} s; the band is from the least to the greatest value` : "every sample is shown";
    state.textContent = data.series.length ? `${range}; ${points}.` : "samples.parquet has none of the metrics that are shown here.";
  }

  function draw(data) {
    for (const one of data.series) {
      const key = `${one.scope} ${one.metric}`;
      if (!made.has(key)) {
        made.set(key, charts.chart(holder, { title: one.name, unit: one.unit, lines: [{ name: "", colour: 1, band: true }], onRange: load }));
      }
      const scaled = (values) => values.map((value) => value / one.divisor);
      made.get(key).set([one.t_s, scaled(one.mean), scaled(one.low), scaled(one.high)], shown);
    }
    const present = new Set(data.series.map((one) => `${one.scope} ${one.metric}`));
    for (const [key, chart] of made) chart.holder.hidden = !present.has(key);
  }

  function move(share) {
    const width = shown[1] - shown[0];
    const from = Math.max(whole[0], Math.min(whole[1] - width, shown[0] + share * width));
    load(from, from + width);
  }

  function scale(factor) {
    const middle = (shown[0] + shown[1]) / 2;
    const half = (factor * (shown[1] - shown[0])) / 2;
    if (half < 1) return;
    load(Math.max(whole[0], middle - half), Math.min(whole[1], middle + half));
  }

  holder.addEventListener("keydown", (event) => {
    const act = { ArrowLeft: () => move(-0.5), ArrowRight: () => move(0.5), "+": () => scale(0.5), "-": () => scale(2), Escape: () => load() }[event.key];
    if (!act || !shown) return;
    event.preventDefault();
    act();
  });
  document.getElementById("whole").addEventListener("click", () => load());
  load();
})();
