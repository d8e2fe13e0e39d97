"use strict";
/* A form of an experiment's tree, made from the JSON Schema that `mydyno schema` prints. Tables are objects, lists of
   tables are arrays, and other values are leaves as in web/form_values.py: { t, s, d } from the server, { s } or { v }
   once they are edited. What the schema does not describe is a field with its TOML. */
const designForm = (() => {
  const USUAL = {
    "": ["name", "question", "server", "data", "steps", "design", "verdict"],
    server: ["variables"], data: ["workload", "tables", "rows"], steps: ["workload", "connections"],
    design: ["time", "blocks"], verdict: ["primary", "margin"],
  };
  const WAYS = ["arms", "vary", "factors"];
  const SHOWN_NOTE = new Set(["text", "value", "choice"]);

  const isLeaf = (node) => !Array.isArray(node) && ["t", "s", "v"].some((name) => typeof node?.[name] === "string");
  const isTable = (node) => node !== null && typeof node === "object" && !Array.isArray(node) && !isLeaf(node);
  const key = (name) => (/^[A-Za-z0-9_-]+$/.test(name) ? name : JSON.stringify(name));

  function inline(node) {
    if (Array.isArray(node)) return `[${node.map(inline).join(", ")}]`;
    if (isLeaf(node)) return node.t ?? (node.s !== undefined ? JSON.stringify(node.s) : node.v);
    return `{ ${Object.entries(node).map(([name, one]) => `${key(name)} = ${inline(one)}`).join(", ")} }`;
  }

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) {
      if (value === true) made.setAttribute(attribute, "");
      else if (value !== undefined && value !== null && value !== false) made.setAttribute(attribute, value);
    }
    made.append(...children);
    return made;
  }

  return (schema, holder, words, onChange) => {
    let tree = {};
    let count = 0;
    const put = {}; // the ways to give arms that were replaced, until the page is left

    function resolved(node) {
      let found = node ?? {};
      while (found.$ref) found = { ...schema.$defs[found.$ref.replace("#/$defs/", "")], ...(found.description ? { description: found.description } : {}) };
      if (found.oneOf && !found.anyOf) found = { ...found, anyOf: found.oneOf };
      const some = (found.anyOf ?? []).filter((one) => one.type !== "null");
      if (found.anyOf && some.length === 1) return { ...resolved(some[0]), description: found.description ?? some[0].description, default: found.default };
      return found;
    }

    const members = (node) => node.additionalProperties instanceof Object ? node.additionalProperties : Object.values(node.patternProperties ?? {})[0];

    function kindOf(node) {
      if (node.enum) return "choice";
      if (node.anyOf) return "value";
      if (node.type === "object") return node.properties || members(node) ? "table" : "value";
      if (node.type === "array") return resolved(node.items).type === "object" ? "tables" : "value";
      return { boolean: "choice", string: "text" }[node.type] ?? "value";
    }

    const isList = (node) => node.type === "array" || (node.anyOf ?? []).some((one) => resolved(one).type === "array");

    /* "16, 64" where a list is possible, as TOML; other texts as they are. */
    function listed(text) {
      if (!text.includes(",") || /[[\]{}"']/.test(text)) return text;
      const parts = text.split(",").map((one) => one.trim()).filter((one) => one);
      return `[${parts.map((one) => (Number.isNaN(Number(one)) ? JSON.stringify(one) : one)).join(", ")}]`;
    }

    const suggestions = (node) => (node.anyOf ?? []).flatMap((one) => resolved(one).enum ?? []);
    const usual = (path) => USUAL[path.filter((part) => typeof part === "string").join(".")] ?? [];

    function changed(structure) {
      if (structure) draw();
      onChange();
    }

    function value(node, path, current, set) {
      const kind = kindOf(node);
      const id = `field-${++count}`;
      const known = suggestions(node);
      let input;
      if (kind === "choice") {
        const options = (node.enum ?? [true, false]).map(String);
        const shown = current === undefined ? "" : (current.s ?? current.d ?? current.v ?? current.t);
        input = element("select", { id });
        input.append(new Option(node.default === undefined || node.default === null ? "" : words.standard.replace("{value}", node.default), ""));
        options.forEach((one) => input.append(new Option(one)));
        if (shown !== "" && !options.includes(shown)) input.append(new Option(shown));
        input.value = shown;
      } else {
        const standard = path.join() === "question" ? words.question : node.default === undefined || node.default === null || node.default === "" ? "" : words.standard.replace("{value}", typeof node.default === "object" ? JSON.stringify(node.default) : node.default);
        input = element("input", { id, placeholder: standard, spellcheck: "false", list: known.length ? `${id}-known` : null });
        const text = current === undefined ? "" : isLeaf(current) ? (kind === "text" && current.s !== undefined ? current.s : (current.d ?? current.s ?? current.v)) : inline(current);
        input.value = text;
      }
      input.addEventListener(kind === "choice" ? "change" : "input", () => {
        const text = input.value;
        if (text === "" && kind !== "text") set(undefined);
        else set(kind === "text" || known.includes(text) || (kind === "choice" && node.enum) ? { s: text } : { v: isList(node) ? listed(text) : text });
        changed(false);
      });
      input.dataset.path = JSON.stringify(path);
      const extra = known.length ? [element("datalist", { id: `${id}-known` }, ...known.map((one) => new Option(one)))] : [];
      return { id, input, extra, kind };
    }

    function field(name, node, path, current, set, remove) {
      const { id, input, extra, kind } = value(node, path, current, set);
      const row = element("div", { class: "field" }, element("label", { for: id }, element("code", {}, name)), input, ...extra);
      if (remove) row.append(removal(path, remove));
      if (node.description && SHOWN_NOTE.has(kind)) {
        row.append(element("p", { class: "note", id: `${id}-note` }, node.description));
        input.setAttribute("aria-describedby", `${id}-note`);
      }
      return row;
    }

    function removal(path, act) {
      const button = element("button", { type: "button", class: "remove", "aria-label": words.remove.replace("{name}", label(path)) }, "×");
      button.addEventListener("click", () => { act(); changed(true); });
      return button;
    }

    const label = (path) => path.reduce((text, part) => (typeof part === "number" ? `${text}[${part + 1}]` : text ? `${text}.${part}` : part), "");

    /* A node of any kind below `parent[name]`. */
    function part(name, schemaNode, path, parent, fixed) {
      let node = resolved(schemaNode);
      const current = parent[name];
      const set = (made) => { if (made === undefined) delete parent[name]; else parent[name] = made; };
      const remove = fixed ? null : () => { delete parent[name]; };
      if (isTable(current) && node.anyOf) node = node.anyOf.map(resolved).find((one) => kindOf(one) === "table") ?? node;
      if (kindOf(node) === "table" && (current === undefined || isTable(current))) return table(name, node, path, current ?? (parent[name] = {}), remove);
      if (kindOf(node) === "tables" && (current === undefined || (Array.isArray(current) && current.every(isTable)))) return tables(name, resolved(node.items), path, current ?? (parent[name] = []));
      return field(name, node, path, current, set, remove);
    }

    function table(name, node, path, current, remove) {
      const box = group(name, path, node.description);
      if (remove) box.querySelector("legend").append(" ", removal(path, remove));
      fill(box, node, path, current);
      return box;
    }

    function group(name, path, description) {
      const box = element("fieldset", { "data-path": JSON.stringify(path), tabindex: "-1" }, element("legend", {}, element("code", {}, name)));
      if (description) box.append(element("p", { class: "note" }, description.split("\n\n")[0].replaceAll("\n", " ")));
      return box;
    }

    function fill(box, node, path, current) {
      const known = node.properties ?? {};
      const free = members(node);
      const first = [...new Set([...usual(path), ...(node.required ?? [])])].filter((one) => one in known);
      const fixed = new Set(path.length ? first : [...first, ...WAYS]);
      const shown = Object.keys(known).filter((one) => first.includes(one) || one in current);
      const others = Object.keys(current).filter((one) => !(one in known));
      for (const one of shown) box.append(part(one, known[one], [...path, one], current, fixed.has(one)));
      for (const one of others) {
        const anySchema = free ?? {};
        const made = part(one, anySchema, [...path, one], current, false);
        if (made.matches(".field")) made.classList.add("named");
        box.append(made);
      }
      const left = Object.keys(known).filter((one) => !shown.includes(one));
      if (left.length && !(free && !path.length)) box.append(adderOfKnown(left, known, path, current));
      if (free || (!node.properties && node.type === "object")) box.append(adderOfNames(free, path, current));
      if (path[0] === "arms" && path.length === 1) nameControl(box, current);
    }

    function nameControl(box, current) {
      const input = [...box.querySelectorAll("[data-path]")].find((one) => one.dataset.path === '["arms","control"]');
      if (!input) return;
      const arms = Object.keys(current).filter((one) => one !== "control");
      input.setAttribute("list", "arm-names");
      box.append(element("datalist", { id: "arm-names" }, ...arms.map((one) => new Option(one))));
    }

    function adderOfKnown(left, known, path, current) {
      const id = `field-${++count}`;
      const choice = element("select", { id, "data-adds": JSON.stringify(path) }, new Option(words.choose, ""), ...left.map((one) => new Option(one)));
      choice.addEventListener("change", () => {
        const name = choice.value;
        const node = resolved(known[name]);
        if (!name) return;
        if (!path.length && WAYS.includes(name)) for (const way of WAYS) delete tree[way];
        current[name] = { table: {}, tables: [{}] }[kindOf(node)] ?? (kindOf(node) === "text" ? { s: "" } : node.enum ? { s: node.enum[0] } : { v: suggest(node) });
        changed(true);
        focus([...path, name]);
      });
      return element("p", { class: "adder" }, element("label", { for: id }, path.length ? words.key : words.section), choice);
    }

    function suggest(node) {
      const standard = node.default;
      if (standard !== undefined && standard !== null) return typeof standard === "object" ? JSON.stringify(standard) : String(standard);
      return suggestions(node)[0] ?? (node.type === "boolean" ? "true" : "");
    }

    function adderOfNames(free, path, current) {
      const id = `field-${++count}`;
      const input = element("input", { id, size: "16", spellcheck: "false" });
      const button = element("button", { type: "button" }, words.add);
      const add = () => {
        const name = input.value.trim();
        if (!name || name in current) { input.focus(); return; }
        const kind = kindOf(resolved(free));
        current[name] = kind === "table" ? {} : { v: "" };
        changed(true);
        focus([...path, name]);
      };
      button.addEventListener("click", add);
      input.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); add(); } });
      return element("p", { class: "adder" }, element("label", { for: id }, path[0] === "arms" && path.length === 1 ? words.arm : words.name), input, button);
    }

    function tables(name, node, path, list) {
      const box = group(name, path, node.description);
      list.forEach((one, index) => {
        const inner = group(`${name} ${index + 1}`, [...path, index]);
        if (list.length > 1) inner.querySelector("legend").append(" ", removal([...path, index], () => list.splice(index, 1)));
        fill(inner, node, [...path, index], one);
        box.append(inner);
      });
      const button = element("button", { type: "button" }, words.another.replace("{name}", name));
      button.addEventListener("click", () => { list.push(structuredClone(list.at(-1) ?? {})); changed(true); focus([...path, list.length - 1]); });
      box.append(element("p", { class: "adder" }, button));
      return box;
    }

    /* What differs between the arms is given in one of three ways. */
    function wayOf() {
      const present = WAYS.find((way) => way in tree) ?? "arms";
      const id = `field-${++count}`;
      const choice = element("select", { id }, ...WAYS.map((way) => new Option(words.ways[way], way)));
      choice.value = present;
      choice.addEventListener("change", () => {
        put[present] = tree[present];
        delete tree[present];
        tree[choice.value] = put[choice.value] ?? {};
        changed(true);
        document.getElementById(id)?.focus();
      });
      const row = element("div", { class: "field" }, element("label", { for: id }, words.differs), choice);
      return "base" in tree && !WAYS.some((way) => way in tree) ? [row] : [row, part(present, schema.properties[present], [present], tree, true)];
    }

    function draw() {
      count = 0;
      const known = schema.properties;
      const top = ["name", "question"].map((one) => part(one, known[one], [one], tree, true));
      const optional = ["base", "description", "published", "instances"].filter((one) => one in tree).map((one) => part(one, known[one], [one], tree, false));
      const body = [part("server", known.server, ["server"], tree, true), ...wayOf(), ...["data", "steps", "design", "verdict"].map((one) => part(one, known[one], [one], tree, true))];
      const shown = new Set([...USUAL[""], ...WAYS, "base", "description", "published", "instances"]);
      const rest = Object.keys(tree).filter((one) => !shown.has(one)).map((one) => part(one, known[one] ?? {}, [one], tree, false));
      const left = Object.keys(known).filter((one) => !(one in tree) && !WAYS.includes(one));
      holder.replaceChildren(...top, ...optional, ...body, ...rest, ...(left.length ? [adderOfKnown(left, known, [], tree)] : []));
    }

    function find(path) {
      const fields = new Map([...holder.querySelectorAll("[data-path]")].map((one) => [one.dataset.path, one]));
      for (let length = path.length; length > 0; length -= 1) {
        const found = fields.get(JSON.stringify(path.slice(0, length)));
        if (found) return found;
      }
      return null;
    }

    function focus(path) {
      const found = find(path);
      const into = found?.matches("fieldset") ? (found.querySelector("input, select") ?? found) : found;
      into?.focus();
    }

    function mark(mistakes) {
      holder.querySelectorAll(".mistake").forEach((one) => one.remove());
      holder.querySelectorAll(".invalid").forEach((one) => one.classList.remove("invalid"));
      for (const one of holder.querySelectorAll("[aria-invalid]")) {
        one.removeAttribute("aria-invalid");
        one.setAttribute("aria-describedby", (one.getAttribute("aria-describedby") ?? "").replace(/ ?mistake-\d+/g, ""));
      }
      mistakes.forEach(({ words: text, key: path }, number) => {
        const found = find(path);
        if (!found) return;
        const id = `mistake-${number}`;
        const line = element("p", { class: "mistake", id }, text);
        if (found.matches("fieldset")) {
          found.classList.add("invalid");
          found.querySelector("legend").after(line);
        } else {
          found.setAttribute("aria-invalid", "true");
          found.setAttribute("aria-describedby", `${found.getAttribute("aria-describedby") ?? ""} ${id}`.trim());
          found.parentElement.append(line);
        }
      });
    }

    /* Empty tables that the form shows for keys that are not set are no part of the experiment. */
    function pruned(node, path) {
      if (Array.isArray(node)) return node.map((one, index) => pruned(one, [...path, index]));
      if (!isTable(node)) return node;
      const kept = Object.entries(node).map(([name, one]) => [name, pruned(one, [...path, name])]);
      return Object.fromEntries(kept.filter(([, one]) => path[0] === "arms" || isLeaf(one) || Object.keys(one).length));
    }

    return {
      get: () => pruned(tree, []),
      set: (made) => { tree = made; draw(); },
      mark, focus,
    };
  };
})();
