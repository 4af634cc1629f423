// SPDX-License-Identifier: Apache-2.0
// One queue, in parts: figures, messages, live tail, settings.

import { address } from "./address.js";
import { make, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { QueueClaims } from "./queue_claims.js";
import { QueueFigures } from "./queue_figures.js";
import { QueueMessages } from "./queue_messages.js";
import { QueueSettings } from "./queue_settings.js";
import { Refused } from "./server.js";

class QueueTail {
  seconds = 3; // messages are pushed

  constructor({ server }, name) {
    this.feed = new Feed(server, `queue:${name}`);
    this.element = this.feed.element;
  }

  open() {}

  async refresh() {}

  close() {
    this.feed.close();
  }
}

// By the parameter tab; the first is shown without it.
const PARTS = {
  figures: ["Figures", QueueFigures],
  messages: ["Messages", QueueMessages],
  claims: ["Claims", QueueClaims],
  live: ["Live tail", QueueTail],
  settings: ["Settings", QueueSettings],
};

// Seconds between two looks whether the queue (still) exists.
const EXISTS_EVERY = 3;

export class Queue {
  #looked = 0;
  #part = null;
  #shown = null;

  constructor(context, name) {
    this.context = context;
    this.name = name;
    this.tabs = make("nav", { class: "tabs", "aria-label": "Parts of the queue" },
      ...Object.entries(PARTS).map(([tab, [title]]) =>
        make("a", { href: address("queues", name, tab === "figures" ? {} : { tab }) }, title)));
    this.place = make("div");
    this.missing = make("p", { class: "missed note", role: "status", hidden: true });
    this.element = make("section", { class: "card" },
      make("p", { class: "crumbs" }, make("a", { href: address("queues") }, "Queues")),
      make("h2", {}, name), this.missing, this.tabs, this.place);
  }

  get seconds() {
    return this.#part.seconds;
  }

  open(params) {
    const tab = Object.hasOwn(PARTS, params.tab) ? params.tab : "figures";
    if (tab !== this.#shown) {
      this.#part?.close();
      this.#shown = tab;
      this.#part = new PARTS[tab][1](this.context, this.name);
      this.place.replaceChildren(this.#part.element);
      Object.keys(PARTS).forEach((name, index) => {
        if (name === tab) this.tabs.children[index].setAttribute("aria-current", "page");
        else this.tabs.children[index].removeAttribute("aria-current");
      });
    }
    this.#part.open(params);
  }

  async refresh(signal) {
    await Promise.all([this.#part.refresh(signal), this.#look(signal)]);
  }

  // The API shows a queue that does not exist as an empty one: posting creates it.
  async #look(signal) {
    const now = performance.now() / 1000;
    if (this.#looked && now - this.#looked < EXISTS_EVERY) return;
    let why = "";
    try {
      await this.context.server.history(this.name, 1, signal);
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error;
      why = error.message;
    }
    this.#looked = now;
    setText(this.missing, why);
    this.missing.hidden = !why;
  }

  close() {
    this.#part?.close();
  }
}
