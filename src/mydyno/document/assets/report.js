"use strict";
/* Folds that a link leads to are opened, and tables marked sortable are sorted by a click on a heading. */
(() => {
  const openTarget = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    const inside = target.querySelector(":scope > details.section");
    if (inside) inside.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", openTarget);
  openTarget();

  /* The cell's first line; a factor, ×3 or ÷3, as the percentage that it stands for. */
  const lineOf = (cell) => [...cell.childNodes].filter((one) => one.nodeName !== "SMALL").map((one) => one.textContent).join("");
  const numberOf = (text) => {
    const found = text.replaceAll("\u2212", "-").replaceAll(/[\u202f\u00a0]/g, "").match(/[-+]?\d[\d.]*/);
    if (!found) return null;
    const value = Number(found[0]);
    if (text.includes("×")) return 100 * (value - 1);
    return text.includes("÷") ? 100 * (1 / value - 1) : value;
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const isText = !original.some((row) => row.cells[column].classList.contains("num"));
        const order = { none: isText ? "ascending" : "descending", descending: isText ? "none" : "ascending", ascending: isText ? "descending" : "none" }[head.ariaSort ?? "none"];
        for (const one of heads) one.removeAttribute("aria-sort");
        if (order === "none") {
          body.append(...original);
          return;
        }
        head.setAttribute("aria-sort", order);
        const key = new Map(original.map((row) => [row, isText ? lineOf(row.cells[column]) : numberOf(lineOf(row.cells[column]))]));
        const sign = order === "ascending" ? 1 : -1;
        body.append(...original.toSorted((a, b) => {
          const [first, second] = [key.get(a), key.get(b)];
          if (first === null || second === null) return (first === null) - (second === null);
          return sign * (isText ? first.localeCompare(second) : first - second);
        }));
      });
    });
  }
})();
