// SPDX-License-Identifier: Apache-2.0
// A list and, beside it, the details of the entry that the address of the page names.

import { make } from "./dom.js";

export class List {
  seconds = 2; // between two refreshes
  chosen = null; // the details that are open
  #card = make("div", { class: "card", hidden: true });
  #view;
  #Details;

  // view: the first part of the address. Details: the class of what is shown of an entry.
  constructor(context, view, Details) {
    this.context = context;
    this.#view = view;
    this.#Details = Details;
  }

  split(list) {
    return make("div", { class: "split" }, list, this.#card);
  }

  address(name) {
    return `#/${this.#view}/${encodeURIComponent(name)}`;
  }

  // The cell of a table that opens an entry.
  link(name) {
    return { text: name, href: this.address(name), current: this.chosen?.name === name };
  }

  open(name) {
    if (this.chosen?.name === name) return;
    this.close();
    this.chosen = name ? new this.#Details(this.context, name) : null;
    this.#card.replaceChildren(...(this.chosen ? [this.chosen.element] : []));
    this.#card.hidden = !this.chosen;
  }

  close() {
    this.chosen?.close();
  }
}
