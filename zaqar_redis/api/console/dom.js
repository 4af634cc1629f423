// SPDX-License-Identifier: Apache-2.0
// Building the page. Text is always inserted as text: nothing here parses HTML.

// An element; attributes that begin with "on" are listeners, null and false leave one out.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Sets only a text that differs: selections and the scroll position stay.
export function setText(element, text) {
  const shown = String(text);
  if (element.textContent !== shown) element.textContent = shown;
}

const WHOLE = new Intl.NumberFormat("en");
const SHARE = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });

// A count, or a rate with one decimal; null is not known (yet).
export const count = (value) => (value === null ? "–" : WHOLE.format(value));
export const rate = (value) => (value === null ? "–" : SHARE.format(value));

export function duration(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const at = units.findIndex(([, size]) => seconds >= size);
  if (at < 0) return "0 s";
  const [name, size] = units[at];
  const rest = units[at + 1] && Math.floor((seconds % size) / units[at + 1][1]);
  return `${Math.floor(seconds / size)} ${name}` + (rest ? ` ${rest} ${units[at + 1][0]}` : "");
}

// A table whose rows are kept by key. A column: {title, number, help}; a cell: a text, or
// {text, href, current}.
export class Table {
  #rows = new Map();
  #columns;
  #body = make("tbody");
  #empty = make("p", { class: "hint" });

  constructor(caption, columns, empty) {
    this.#columns = columns;
    setText(this.#empty, empty);
    const heads = columns.map((column) => make("th", {
      scope: "col", class: column.number ? "number" : null, title: column.help ?? null,
    }, column.title));
    const table = make("table", {}, make("caption", {}, caption),
      make("thead", {}, make("tr", {}, ...heads)), this.#body);
    this.element = make("div", { class: "scrolls" }, table, this.#empty);
  }

  // rows: [[key, [cell, …]], …]
  show(rows) {
    const wanted = new Set(rows.map(([key]) => key));
    for (const [key, row] of this.#rows) {
      if (!wanted.has(key)) {
        row.remove();
        this.#rows.delete(key);
      }
    }
    rows.forEach(([key, cells], position) => {
      const row = this.#rows.get(key) ?? this.#add(key);
      if (this.#body.children[position] !== row) {
        this.#body.insertBefore(row, this.#body.children[position] ?? null);
      }
      cells.forEach((cell, index) => this.#fill(row, row.children[index], cell));
    });
    this.#empty.hidden = rows.length > 0;
  }

  #add(key) {
    const cells = this.#columns.map((column, index) =>
      make(index ? "td" : "th", { class: column.number ? "number" : null,
        scope: index ? null : "row" }));
    const row = make("tr", {}, ...cells);
    this.#rows.set(key, row);
    return row;
  }

  #fill(row, element, cell) {
    if (typeof cell !== "object") {
      setText(element, cell);
      return;
    }
    const link = element.querySelector("a") ?? element.appendChild(make("a", {}));
    link.setAttribute("href", cell.href);
    if (cell.current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    row.classList.toggle("current", Boolean(cell.current));
    setText(link, cell.text);
  }
}

// Figures with a name each: {name: [title, help]}.
export class Tiles {
  #values = {};

  constructor(titles) {
    const tiles = Object.entries(titles).map(([name, [title, help]]) => {
      this.#values[name] = make("dd", { "data-figure": name }, "–");
      return make("div", { title: help ?? null }, make("dt", {}, title), this.#values[name]);
    });
    this.element = make("dl", { class: "tiles" }, ...tiles);
  }

  show(values) {
    for (const [name, value] of Object.entries(values)) setText(this.#values[name], value);
  }
}

// Paging through a listing: forwards by marker, back by the markers before.
export class Pager {
  #markers = [""];
  #next = "";

  constructor(changed) {
    this.back = make("button", { type: "button", class: "quiet", onclick: () => {
      this.#markers.pop();
      changed();
    } }, "Back");
    this.forward = make("button", { type: "button", class: "quiet", onclick: () => {
      this.#markers.push(this.#next);
      changed();
    } }, "Next");
    this.element = make("div", { class: "pager" }, this.back, this.forward);
    this.element.hidden = true;
  }

  get marker() {
    return this.#markers.at(-1);
  }

  reset() {
    this.#markers = [""];
  }

  // next: the marker behind the page that is shown; empty when it is the last one.
  shown(next) {
    this.#next = next;
    this.back.disabled = this.#markers.length === 1;
    this.forward.disabled = !next;
    this.element.hidden = this.back.disabled && this.forward.disabled;
  }
}
