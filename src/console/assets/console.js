// The script of the page: prices while one types, completions, and the dial for ε. Everything else works without it.
"use strict";
(() => {
  const editor = document.getElementById("sql");
  if (!editor) return;
  const find = (id) => document.getElementById(id);
  const form = find("ask"), token = form.elements.token.value;
  const priced = find("priced"), dial = find("dial"), factor = find("factor"), within = find("within");
  const words = find("words"), place = find("place"), curve = find("curve");
  let asking = null, waiting = 0, points = [], base = "", start = 0, chosen = 0;

  const make = (tag, text, className) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const send = (path, fields, signal) =>
    fetch(path, {
      method: "POST", signal, redirect: "error",
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ token, ...fields }),
    });

  // The price.
  const showPlace = (at) => {
    place.hidden = !at;
    if (!at) return;
    const line = editor.value.split("\n")[at[0] - 1] || "";
    place.textContent = line + "\n" + " ".repeat(Math.max(0, at[1] - 1)) + "^";
  };
  const putIn = (text) => {
    editor.value = text;
    editor.focus();
    price();
  };
  // Puts a call such as LAPLACE(eps=0.1, rows=1) in the place of the call of the same release.
  const withCall = (text, call, at) => {
    const name = call.slice(0, call.indexOf("("));
    let seen = 0, done = false;
    const calls = new RegExp("\\b[A-Z_]+\\s*\\((?=[^()]*=)[^()]*\\)", "gi");
    const changed = text.replace(calls, (old) => {
      const own = seen++ === at && old.toUpperCase().startsWith(name);
      if (own) done = true;
      return own ? call : old;
    });
    return done ? changed : null;
  };
  const showPrice = (value) => {
    priced.replaceChildren();
    showPlace(value.place);
    if (value.refused) {
      priced.append(make("p", (value.code ? value.code + ": " : "") + value.refused, "refused"));
      if (value.instead) priced.append(make("p", "write: " + value.instead, "note"));
      return;
    }
    priced.append(make("p", "costs " + value.cost, "cost"));
    if (value.columns.length) {
      const list = make("dl");
      for (const one of value.columns) list.append(make("dt", one.column), make("dd", one.text));
      priced.append(list);
    }
    for (const line of value.left) priced.append(make("p", line, "note"));
    for (const one of value.advice) {
      const line = make("p", one.kind + ": " + one.text, "advice");
      const changed = one.call && withCall(editor.value, one.call, one.at);
      if (changed) {
        const button = make("button", "Apply", "quiet");
        button.type = "button";
        button.addEventListener("click", () => putIn(changed));
        line.append(" ", button);
      }
      priced.append(line);
    }
  };
  const price = async () => {
    clearTimeout(waiting);
    if (asking) asking.abort();
    const sql = editor.value;
    if (!sql.trim()) { dial.hidden = true; place.hidden = true; return; }
    asking = new AbortController();
    try {
      const response = await send("/price", { sql }, asking.signal);
      if (response.status === 429) { waiting = setTimeout(price, 500); return; }
      if (!response.ok) throw new Error(await response.text());
      const value = await response.json();
      showPrice(value);
      if (value.refused || !epsilons(sql).length) { dial.hidden = true; return; }
      const drawn = await send("/price", { sql, of: "curve" }, asking.signal);
      points = drawn.ok ? (await drawn.json()).curve : [];
      base = sql;
      factor.value = "0";
      dial.hidden = points.length < 2;
      draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      dial.hidden = true;
      priced.replaceChildren(make("p", error.message || "no price", "refused"));
    }
  };
  editor.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(price, 200);
    hideWords();
  });

  // The dial.
  const EPSILON = /\b(eps|epsilon)(\s*=\s*)([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)/gi;
  const epsilons = (sql) => [...sql.matchAll(EPSILON)].map((match) => Number(match[3]));
  const neat = (value) => String(Number(value.toPrecision(2)));
  const scaled = (sql, by) =>
    sql.replace(EPSILON, (_, name, sign, value) => name + sign + neat(Number(value) * by));
  // The error of a column at a multiple of the cost, between the known ones.
  const errorAt = (column, by) => {
    const known = points
      .map((point) => [point.factor, (point.errors.find((one) => one.column === column) || {}).value])
      .filter((one) => one[1] > 0);
    if (!known.length) return null;
    for (let i = 1; i < known.length; i++) {
      const [[x0, y0], [x1, y1]] = [known[i - 1], known[i]];
      if (by <= x1 || i === known.length - 1) {
        const share = Math.log(by / x0) / Math.log(x1 / x0);
        return Math.exp(Math.log(y0) + share * (Math.log(y1) - Math.log(y0)));
      }
    }
    return known[0][1];
  };
  const columns = () => [...new Set(points.flatMap((point) => point.errors.map((one) => one.column)))];
  const svg = (tag, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const short = (value) => Number(value.toPrecision(2)).toString();
  const draw = () => {
    curve.replaceChildren();
    if (dial.hidden) return;
    const by = 2 ** Number(factor.value), own = epsilons(base);
    find("epsilon").textContent = "= " + neat(own[0] * by);
    const all = points.flatMap((point) => point.errors.map((one) => one.value)).filter((y) => y > 0);
    if (!all.length) return;
    const [x0, x1] = [Math.log(points[0].factor), Math.log(points[points.length - 1].factor)];
    const [y0, y1] = [Math.log(Math.min(...all)), Math.log(Math.max(...all))];
    const x = (value) => 46 + (264 * (Math.log(value) - x0)) / (x1 - x0 || 1);
    const y = (value) => 140 - (120 * (Math.log(value) - y0)) / (y1 - y0 || 1);
    curve.append(svg("line", { x1: 46, y1: 145, x2: 310, y2: 145, class: "axis" }));
    curve.append(svg("line", { x1: 46, y1: 15, x2: 46, y2: 145, class: "axis" }));
    curve.append(svg("text", { x: 42, y: 24, class: "end" }, "± " + short(Math.max(...all))));
    curve.append(svg("text", { x: 42, y: 142, class: "end" }, "± " + short(Math.min(...all))));
    curve.append(svg("text", { x: 46, y: 162 }, "ε " + neat(own[0] * points[0].factor)));
    const last = points[points.length - 1];
    curve.append(svg("text", { x: 310, y: 162, class: "end" }, "ε " + neat(own[0] * last.factor)));
    const said = [];
    columns().slice(0, 4).forEach((column, at) => {
      const line = points
        .map((point) => [point.factor, (point.errors.find((one) => one.column === column) || {}).value])
        .filter((one) => one[1] > 0)
        .map((one) => x(one[0]).toFixed(1) + "," + y(one[1]).toFixed(1));
      curve.append(svg("polyline", { points: line.join(" "), class: "line line" + at }));
      const here = errorAt(column, by);
      if (here === null) return;
      curve.append(svg("circle", { cx: x(by).toFixed(1), cy: y(here).toFixed(1), r: 5, class: "dot line" + at }));
      curve.append(svg("text", { x: Math.min(x(by) + 8, 240).toFixed(1), y: Math.max(y(here) - 8, 14).toFixed(1) }, column + " ± " + short(here)));
      said.push(column + " ± " + short(here));
    });
    curve.setAttribute("aria-label", "Error by cost: " + said.join(", ") + " at ε = " + neat(own[0] * by));
    const first = columns()[0];
    if (document.activeElement !== within && first) within.value = short(errorAt(first, by) || 0);
  };
  factor.addEventListener("input", () => {
    editor.value = scaled(base, 2 ** Number(factor.value));
    draw();
  });
  factor.addEventListener("change", price);
  // Bisection: the error falls with the cost.
  within.addEventListener("change", () => {
    const wanted = Number(within.value), column = columns()[0];
    if (!(wanted > 0) || !column) return;
    let [low, high] = [-4, 4];
    for (let i = 0; i < 40; i++) {
      const middle = (low + high) / 2;
      if (errorAt(column, 2 ** middle) > wanted) low = middle; else high = middle;
    }
    factor.value = String(high);
    editor.value = scaled(base, 2 ** high);
    price();
  });

  // Completions.
  const hideWords = () => { words.hidden = true; words.replaceChildren(); editor.removeAttribute("aria-activedescendant"); };
  const mark = (to) => {
    const items = [...words.children];
    chosen = (to + items.length) % items.length;
    items.forEach((item, at) => item.setAttribute("aria-selected", String(at === chosen)));
    editor.setAttribute("aria-activedescendant", items[chosen].id);
  };
  const take = (word) => {
    editor.setRangeText(word, start, editor.selectionStart, "end");
    hideWords();
    editor.focus();
    price();
  };
  const complete = async () => {
    // Positions are counted in characters there and in UTF-16 here.
    const before = editor.value.slice(0, editor.selectionStart);
    const response = await send("/complete", { sql: editor.value, at: String([...before].length) }).catch(() => null);
    if (!response || !response.ok) return;
    const found = await response.json();
    start = [...before].slice(0, found.start).join("").length;
    words.replaceChildren();
    found.words.forEach((word, at) => {
      const item = make("li", word);
      item.id = "word" + at;
      item.setAttribute("role", "option");
      item.addEventListener("mousedown", (event) => { event.preventDefault(); take(word); });
      words.append(item);
    });
    words.hidden = !found.words.length;
    if (found.words.length === 1) take(found.words[0]);
    else if (found.words.length) mark(0);
  };
  editor.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit(form.querySelector("button[value=run]"));
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      complete();
    } else if (!words.hidden && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      mark(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (!words.hidden && (event.key === "Enter" || event.key === "Tab")) {
      event.preventDefault();
      take(words.children[chosen].textContent);
    } else if (event.key === "Escape") {
      hideWords();
    }
  });
  editor.addEventListener("blur", hideWords);
  // One click, one charge.
  form.addEventListener("submit", () => {
    setTimeout(() => form.querySelectorAll("button").forEach((button) => { button.disabled = true; }));
  });
  window.addEventListener("pageshow", () => form.querySelectorAll("button").forEach((button) => { button.disabled = false; }));
  if (editor.value.trim()) price();
})();
