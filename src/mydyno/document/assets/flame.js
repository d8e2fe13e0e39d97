"use strict";
/* The flame graph of an arm and its control: callers above, callees below, each as wide as its CPU time. A click zooms,
   a click on its sign or Space folds a frame: what it calls is hidden.
   If anything here fails, the page stays as it is without it: the table has the functions that differ. */
(() => {
  const byId = (id) => document.getElementById(id);
  const ROW_PX = 19;
  const LEAST_PX = 1.5;
  const LABEL_PX = 30;
  const SIGN_PX = 12;
  const OPEN_SIGN_PX = 60;
  const FOLD_SHARES = [0, 0.01, 0.02, 0.05, 0.1, 0.2];

  function time(us) {
    const [value, unit] = Math.abs(us) >= 1000 ? [us / 1000, "ms"] : [us, "µs"];
    const size = Math.abs(value);
    const places = size === 0 ? 0 : Math.max(0, Math.min(2, 2 - Math.floor(Math.log10(size))));
    return `${value.toFixed(places).replace("-", "\u2212")}\u00a0${unit}`;
  }
  const signed = (us) => (us > 0 ? "+" : "") + time(us);
  const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)}\u202f%`;

  function start() {
    const data = JSON.parse(byId("flame-data").textContent);
    const frames = byId("flame-frames");
    let zoomed = null;
    let selected = null;
    let graph = null;

    function unpack([name, control, arm, interval, children], parent) {
      const text = data.names[name];
      const at = text.indexOf("`");
      const place = { parent, control, arm, interval, folded: false, module: at < 0 ? "" : text.slice(0, at), function: text.slice(at + 1) };
      place.children = children.map((child) => unpack(child, place));
      return place;
    }
    for (const one of data.graphs) {
      one.tree = unpack(one.root, null);
      one.tree.function = "all";
    }
    const widthOf = (place) => {
      const which = byId("flame-width").value;
      return which === "control" ? place.control : which === "arm" ? place.arm : Math.max(place.control, place.arm);
    };
    const largest = () => Math.max(1e-9, Math.abs(graph.tree.arm - graph.tree.control), 0.02 * graph.tree.control);

    function kind(place) {
      if (!place.interval) return "small";
      if (!place.interval[2]) return "";
      const strong = Math.min(1, Math.abs(place.arm - place.control) / largest());
      return `${place.arm > place.control ? "more" : "less"} ${strong > 0.5 ? "s3" : strong > 0.15 ? "s2" : "s1"}`;
    }

    function describe(place) {
      const { control, arm } = graph.tree;
      const name = place.module ? `${place.function} (${place.module})` : place.function;
      const sides =
        `${graph.control} ${time(place.control)}, ${percent(place.control / control)}; ` +
        `${graph.arm} ${time(place.arm)}, ${percent(place.arm / arm)}`;
      let difference = "too small to be compared";
      if (place.interval) {
        const [low, high, beyond] = place.interval;
        const sizes = { size: signed(place.arm - place.control), low: signed(low), high: signed(high) };
        difference = beyond
          ? `difference ${sizes.size} (${sizes.low} … ${sizes.high}), beyond noise`
          : `difference ${sizes.size} (${sizes.low} … ${sizes.high}), within noise`;
      }
      const text = `${name}: ${sides}; ${difference}`;
      return place.folded ? `${text}; folded, frames in it: ${below(place).length}` : text;
    }

    const below = (place) => place.children.flatMap((child) => [child, ...below(child)]);
    const isIn = (place, other) => place === other || (place.parent !== null && isIn(place.parent, other));

    const matches = (place, words) => `${place.module} ${place.function}`.toLowerCase().includes(words);

    function searched() {
      const words = byId("flame-search").value.trim().toLowerCase();
      for (const button of frames.children) {
        const { place } = button;
        button.classList.toggle("hit", words !== "" && matches(place, words));
        button.classList.toggle("hit-inside", words !== "" && place.folded && below(place).some((one) => matches(one, words)));
      }
      if (!words) return "";
      const sum = (place) => (matches(place, words) ? [place.control, place.arm] : place.children.map(sum).reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]));
      const [control, arm] = sum(graph.tree);
      const sides = `${graph.control} ${time(control)}, ${percent(control / graph.tree.control)}; ${graph.arm} ${time(arm)}, ${percent(arm / graph.tree.arm)}`;
      return `“${words}” and what it calls: ${sides}`;
    }
    const rest = () => searched() || (selected === graph.tree && !selected.folded ? "" : describe(selected));
    const show = (text) => { byId("flame-details").textContent = text || "Point at a frame, or select it, for its numbers."; };

    function frameButton(one, row, px, above) {
      const button = document.createElement("button");
      button.type = "button";
      button.place = one;
      one.button = button;
      button.className = `frame ${kind(one)}`;
      button.tabIndex = -1;
      button.setAttribute("role", "treeitem");
      button.setAttribute("aria-level", row + 1);
      if (one.children.length) button.setAttribute("aria-expanded", !one.folded);
      button.classList.toggle("above", above);
      button.classList.toggle("folded", one.folded);
      button.style.top = `${row * ROW_PX}px`;
      const name = px >= LABEL_PX ? one.function : "";
      if (one.children.length && !above && px >= (one.folded ? SIGN_PX : OPEN_SIGN_PX)) {
        const sign = document.createElement("span");
        sign.className = "fold-sign";
        sign.textContent = one.folded ? "\u25b8" : "\u25be";
        sign.title = one.folded ? "Open" : "Fold";
        button.replaceChildren(sign, name);
      } else button.textContent = name;
      button.setAttribute("aria-label", describe(one));
      return button;
    }
    function select(place) {
      if (selected?.button) selected.button.tabIndex = -1;
      selected = place;
      selected.button.tabIndex = 0;
      const fold = byId("flame-fold");
      fold.disabled = !selected.children.length;
      fold.textContent = selected.folded ? "Open frame" : "Fold frame";
    }

    function draw() {
      const wide = frames.clientWidth || 320;
      const made = [];
      let depth = 0;
      function place(one, left, width, row) {
        const scale = width / Math.max(1e-9, widthOf(one));
        const px = width * wide;
        if (px < LEAST_PX) return;
        const button = frameButton(one, row, px, false);
        button.style.left = `${100 * left}%`;
        button.style.width = `${100 * width}%`;
        made.push(button);
        depth = Math.max(depth, row);
        if (one.folded) return;
        const sum = one.children.reduce((total, child) => total + widthOf(child), 0);
        const fit = Math.min(scale, width / Math.max(1e-9, sum));
        let x = left;
        for (const child of [...one.children].sort((a, b) => (a.function < b.function ? -1 : 1))) {
          place(child, x, widthOf(child) * fit, row + 1);
          x += widthOf(child) * fit;
        }
      }
      const above = [];
      for (let one = zoomed.parent; one; one = one.parent) above.unshift(one);
      above.forEach((one, row) => {
        const button = frameButton(one, row, wide, true);
        button.style.left = "0";
        button.style.width = "100%";
        made.push(button);
      });
      place(zoomed, 0, 1, above.length);
      frames.replaceChildren(...made);
      frames.style.height = `${(depth + 1) * ROW_PX}px`;
      select(selected.button?.isConnected ? selected : zoomed);
      byId("flame-reset").disabled = zoomed === graph.tree;
      show(rest());
    }

    function zoom(place, focus) {
      zoomed = selected = place;
      place.folded = false;
      draw();
      if (focus) place.button.focus({ preventScroll: true });
    }
    function fold(place, focus) {
      if (!place.children.length) return;
      place.folded = !place.folded;
      if (isIn(zoomed, place)) zoomed = place;
      selected = place;
      draw();
      if (focus) place.button.focus({ preventScroll: true });
    }
    /* Each frame of the graph with something in it; what is zoomed, and the frames around it, remain open. */
    function foldWhere(which) {
      for (const one of [graph.tree, ...below(graph.tree)]) one.folded = one.children.length > 0 && !isIn(zoomed, one) && which(one);
    }
    function foldSmall() {
      const least = Number(byId("flame-least").value);
      const { control, arm } = graph.tree;
      foldWhere((one) => Math.max(one.control / control, one.arm / arm) < least);
    }
    function choose() {
      graph = data.graphs[Number(byId("flame-graph").value)];
      zoomed = selected = graph.tree;
      if (Number(byId("flame-least").value)) foldSmall();
      const kept = byId("flame-width").value;
      byId("flame-width").replaceChildren(
        ...[["larger", "the larger of both"], ["arm", graph.arm], ["control", graph.control]].map(([value, label]) => new Option(label, value)),
      );
      byId("flame-width").value = kept || "larger";
      draw();
    }

    data.graphs.forEach((one, index) => byId("flame-graph").append(new Option(one.label, index)));
    byId("flame-graph").parentElement.hidden = data.graphs.length < 2;
    byId("flame-graph").addEventListener("change", choose);
    byId("flame-width").addEventListener("change", draw);
    byId("flame-search").addEventListener("input", () => show(rest()));
    byId("flame-reset").addEventListener("click", () => zoom(graph.tree, false));
    byId("flame-least").append(...FOLD_SHARES.map((share) => new Option(`${100 * share}\u202f%`, share)));
    byId("flame-least").addEventListener("change", () => { foldSmall(); draw(); });
    byId("flame-fold").addEventListener("click", () => fold(selected, false));
    for (const [id, folded] of [["flame-fold-all", true], ["flame-open-all", false]]) {
      byId(id).addEventListener("click", () => {
        byId("flame-least").value = "0";
        foldWhere(() => folded);
        draw();
      });
    }
    const frameOf = (event) => event.target.closest("button.frame")?.place;
    frames.addEventListener("click", (event) => {
      const place = frameOf(event);
      if (place) (event.target.closest(".fold-sign") ? fold : zoom)(place, true);
    });
    frames.addEventListener("pointerover", (event) => { const place = frameOf(event); if (place) show(describe(place)); });
    frames.addEventListener("pointerleave", () => show(rest()));
    frames.addEventListener("focusin", (event) => {
      const place = frameOf(event);
      if (!place) return;
      select(place);
      show(describe(place));
    });
    frames.addEventListener("keyup", (event) => { if (event.key === " ") event.preventDefault(); });
    frames.addEventListener("keydown", (event) => {
      const place = frameOf(event);
      if (!place) return;
      if (event.key === "Escape") { zoom(graph.tree, true); return; }
      if (event.key === " ") {
        event.preventDefault();
        if (!event.repeat) fold(place, true);
        return;
      }
      const drawn = (list) => list.filter((one) => one.button?.isConnected);
      const row = place.parent ? drawn(place.parent.children).sort((a, b) => a.button.offsetLeft - b.button.offsetLeft) : [place];
      const next = {
        ArrowUp: place.parent,
        ArrowDown: drawn(place.children).sort((a, b) => widthOf(b) - widthOf(a))[0],
        ArrowLeft: row[row.indexOf(place) - 1],
        ArrowRight: row[row.indexOf(place) + 1],
      }[event.key];
      if (!(event.key in { ArrowUp: 1, ArrowDown: 1, ArrowLeft: 1, ArrowRight: 1 })) return;
      event.preventDefault();
      if (!next?.button?.isConnected) return;
      next.button.focus();
    });
    let drawnAt = 0;
    new ResizeObserver(() => {
      if (Math.abs(frames.clientWidth - drawnAt) > 20) { drawnAt = frames.clientWidth; draw(); }
    }).observe(frames);
    byId("flame").hidden = false;
    choose();
  }

  try {
    start();
  } catch (error) {
    byId("flame").hidden = true;
    console.warn("The flame graph could not start; the tables are shown instead.", error);
  }
})();
