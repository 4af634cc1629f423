// SPDX-License-Identifier: Apache-2.0
// Tables: one that shows rows, and a listing with search, filters, order and pages, which are in
// the page's address.

import { change } from "./address.js";
import { button, count, make, setText } from "./dom.js";

const SIZES = [25, 50, 100, 500];
// Milliseconds without a key until what was typed is asked for.
const TYPED = 250;
// Only words this long, names mostly, may be broken: all others fit into a cell that has them.
const LONG = /\S{18}/;

// A table whose rows are kept by key. A column: {title, number, help, sort: what the listing sorts
// by}; a cell: a text, {text, href}, or an element.
export class Table {
  #rows = new Map();
  #columns;
  #heads;
  #body = make("tbody", { role: "rowgroup" });
  #empty = make("p", { class: "hint", hidden: true });

  // sorted(name): the head of a column was chosen.
  constructor(caption, columns, empty, sorted = null) {
    this.#columns = columns;
    setText(this.#empty, empty);
    this.#heads = columns.map((column) => {
      const can = sorted && column.sort;
      return make("th", { scope: "col", role: "columnheader", class: column.number ? "number" : null,
        title: column.help ?? null },
      can ? button(column.title, () => sorted(column.sort), { class: "sort" }) : column.title);
    });
    // Roles, because on a phone rows are laid out as cards, which are no table to browsers.
    // Neither is shown before it is known whether there are rows.
    this.table = make("table", { role: "table", hidden: true }, make("caption", {}, caption),
      make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...this.#heads)), this.#body);
    this.element = make("div", { class: "scrolls", tabindex: "0", role: "region",
      "aria-label": caption }, this.table, this.#empty);
  }

  showOrder(sort, order) {
    this.#columns.forEach((column, index) => {
      if (!column.sort) return;
      const is = column.sort === sort;
      this.#heads[index].setAttribute("aria-sort",
        is ? { asc: "ascending", desc: "descending" }[order] : "none");
    });
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
      cells.forEach((cell, index) => fill(row.children[index], cell));
    });
    this.table.hidden = !rows.length;
    this.#empty.hidden = rows.length > 0;
  }

  #add(key) {
    const cells = this.#columns.map((column, index) =>
      make(index ? "td" : "th", { class: column.number ? "number" : null,
        role: index ? "cell" : "rowheader", scope: index ? null : "row", "data-title": column.title }));
    const row = make("tr", { role: "row" }, ...cells);
    this.#rows.set(key, row);
    return row;
  }
}

function fill(place, cell) {
  if (cell instanceof Element) {
    // Else the one that is there stays: it may have the focus, or be pressed just now.
    if (place.firstElementChild?.outerHTML !== cell.outerHTML) place.replaceChildren(cell);
  } else if (typeof cell === "object" && cell !== null) {
    const link = place.querySelector("a") ?? make("a", {});
    if (!link.isConnected) place.replaceChildren(link);
    link.setAttribute("href", cell.href);
    setText(link, cell.text);
  } else setText(place, cell);
  place.classList.toggle("long", LONG.test(place.textContent));
}

// Links to the first and the next page of a list that is paged by markers.
export class MarkerPager {
  // link(marker): the address of a page; that of the first one has an empty marker.
  constructor(link) {
    this.link = link;
    this.first = make("a", { hidden: true }, "First");
    this.next = make("a", { hidden: true }, "Next");
    this.note = make("span", { class: "hint" });
    this.element = make("p", { class: "pager" }, this.note, this.first, this.next);
  }

  // marker: of the page that is shown; next: of the one behind it, empty: there is none. rows: that
  // the page has; the service may only know that it was the last one when the next one is empty.
  show(marker, next, rows) {
    this.first.hidden = !marker;
    this.next.hidden = !next;
    this.first.setAttribute("href", this.link(""));
    this.next.setAttribute("href", this.link(next));
    setText(this.note, marker && !rows ? "There are no more." : "");
  }
}

// A table of what a load(query, signal) resolves to: {items, matching, total}. query: {search, sort,
// order, offset, limit} and the filters. filters: {name: title}; row(item): [key, cells].
export class Listing {
  #params = {};
  // What is shown, by key: buttons in rows stay, so what they act on is looked up here.
  items = new Map();
  #typing = null;

  constructor({ caption, columns, empty, load, row, sort = null, order = "asc", search = null,
    filters = {} }) {
    this.load = load;
    this.row = row;
    this.defaults = { sort, order, size: String(SIZES[0]), page: "1", search: "" };
    this.filters = filters;
    this.columns = columns;
    this.table = new Table(caption, columns, empty, (name) => this.#sorted(name));
    this.search = make("input", { type: "search", autocomplete: "off", spellcheck: "false",
      oninput: () => this.#typed() });
    this.boxes = Object.fromEntries(Object.keys(filters).map((name) =>
      [name, make("input", { type: "checkbox",
        onchange: (event) => this.#change({ [name]: event.target.checked ? "true" : null }) })]));
    this.size = make("select", { onchange: () => this.#change({ size: this.size.value }) },
      ...SIZES.map((size) => make("option", { value: size }, size)));
    this.summary = make("span", { class: "hint", role: "status" });
    this.back = button("Back", () => this.#turn(-1));
    this.forward = button("Next", () => this.#turn(1));
    this.bar = make("form", { class: "row", role: "search", hidden: !search && !this.#hasFilters(),
      onsubmit: (event) => event.preventDefault() },
    ...(search ? [make("label", {}, `${search} `, this.search)] : []),
    ...Object.entries(filters).map(([name, title]) =>
      make("label", { class: "check" }, this.boxes[name], ` ${title}`)));
    this.pager = make("div", { class: "pager" }, this.summary,
      make("label", {}, "Rows ", this.size), this.back, this.forward);
    this.element = make("div", { class: "listing" }, this.bar, this.table.element, this.pager);
  }

  // params: of the page's address.
  open(params) {
    this.#params = { ...this.defaults, ...params };
    if (document.activeElement !== this.search) this.search.value = this.#params.search;
    for (const [name, box] of Object.entries(this.boxes)) box.checked = params[name] === "true";
    this.size.value = this.#params.size;
    this.table.showOrder(this.#params.sort, this.#params.order);
  }

  async refresh(signal) {
    const { search, sort, order, page, size } = this.#params;
    const limit = SIZES.includes(Number(size)) ? Number(size) : SIZES[0];
    const filters = Object.fromEntries(Object.keys(this.filters)
      .filter((name) => this.boxes[name].checked).map((name) => [name, "true"]));
    const offset = Math.max(0, (Number(page) || 1) - 1) * limit;
    const query = { ...(search && { search }), ...(sort && { sort, order }), ...filters, offset, limit };
    const result = await this.load(query, signal);
    if (signal?.aborted) return result;
    if (offset && offset >= result.matching) { // what is gone cannot be shown
      change({ page: String(Math.max(1, Math.ceil(result.matching / limit))) }, { isTyped: true });
      return result;
    }
    const rows = result.items.map((item) => this.row(item));
    this.items = new Map(rows.map(([key], index) => [key, result.items[index]]));
    this.table.show(rows);
    this.#showPager(offset, limit, result);
    return result;
  }

  #showPager(offset, limit, { items, matching, total }) {
    const range = items.length ? `${count(offset + 1)}–${count(offset + items.length)} of ` : "";
    const all = total === matching ? "" : `, ${count(total)} in all`;
    setText(this.summary, `${range}${count(matching)}${all}`);
    this.back.disabled = offset === 0;
    this.forward.disabled = offset + items.length >= matching;
    this.pager.hidden = !total && !matching;
  }

  #hasFilters() {
    return Object.keys(this.filters).length > 0;
  }

  #sorted(name) {
    const { sort, order } = this.#params;
    // Of numbers the largest are what one looks for.
    const first = this.columns.find((column) => column.sort === name).number ? "desc" : "asc";
    const other = order === "asc" ? "desc" : "asc";
    this.#change({ sort: name, order: sort === name ? other : first });
  }

  #typed() {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() =>
      change({ search: this.search.value, page: null }, { isTyped: true }), TYPED);
  }

  #turn(by) {
    change({ page: String((Number(this.#params.page) || 1) + by) });
  }

  #change(changes) {
    change({ page: null, ...changes });
  }

  close() {
    clearTimeout(this.#typing);
  }
}

// What a service would answer that sorts, searches and cuts: for lists that come as a whole.
// values(item): {name of a column: what to sort by}; text(item): what is searched.
export function cut(all, { search = "", sort, order, offset, limit }, values, text) {
  const wanted = search.toLowerCase();
  const matching = all.filter((item) => text(item).toLowerCase().includes(wanted));
  const sign = order === "desc" ? -1 : 1;
  if (sort) {
    matching.sort((one, other) => {
      const [a, b] = [values(one)[sort], values(other)[sort]];
      return sign * (typeof a === "number" ? a - b : String(a ?? "").localeCompare(String(b ?? "")));
    });
  }
  return { items: matching.slice(offset, offset + limit), matching: matching.length, total: all.length };
}

// A page with a listing, which is all that changes while the page is open.
export class ListingPage {
  open(params) {
    this.listing.open(params);
  }

  close() {
    this.listing.close();
  }

  refresh(signal) {
    return this.listing.refresh(signal);
  }
}
