// SPDX-License-Identifier: Apache-2.0
// One queue or topic, in parts: figures, messages, subscriptions, live tail, settings.

import { address, markCurrent } from "./address.js";
import { make, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { QueueClaims } from "./queue_claims.js";
import { QueueFigures } from "./queue_figures.js";
import { QueueMessages } from "./queue_messages.js";
import { QueueSettings } from "./queue_settings.js";
import { Refused, nounOf } from "./server.js";
import { Subscriptions } from "./subscriptions.js";
import { TopicHistory } from "./topic_history.js";

class QueueTail {
  seconds = 3; // messages are pushed

  constructor({ server }, name, kind) {
    this.feed = new Feed(server, `${nounOf(kind)}:${name}`);
    this.element = this.feed.element;
  }

  open() {}

  async refresh() {}

  close() {
    this.feed.close();
  }
}

// By the parameter tab; the first is shown without it.
const QUEUE_PARTS = {
  figures: ["Figures", QueueFigures],
  messages: ["Messages", QueueMessages],
  claims: ["Claims", QueueClaims],
  subscriptions: ["Subscriptions", Subscriptions],
  live: ["Live tail", QueueTail],
  settings: ["Settings", QueueSettings],
};
const TOPIC_PARTS = {
  figures: ["Figures", QueueFigures],
  history: ["History", TopicHistory],
  subscriptions: ["Subscriptions", Subscriptions],
  live: ["Live tail", QueueTail],
  settings: ["Settings", QueueSettings],
};

// Seconds between two looks whether the queue (still) exists.
const EXISTS_EVERY = 3;

// kind: queues or topics. A part is made of the context, the name and the kind.
class PartsPage {
  #part = null;
  #shown = null;

  constructor(context, name, kind, title, parts) {
    this.context = context;
    this.name = name;
    this.kind = kind;
    // The tail comes over a channel.
    const { live, ...others } = parts;
    this.parts = context.about.channels ? parts : others;
    this.tabs = make("nav", { class: "tabs", "aria-label": `Parts of the ${nounOf(kind)}` },
      ...Object.entries(this.parts).map(([tab, [text]]) =>
        make("a", { href: address(kind, name, tab === "figures" ? {} : { tab }) }, text)));
    this.place = make("div");
    this.note = make("p", { class: "missed note", role: "status", hidden: true });
    this.element = make("section", { class: "card" },
      make("p", { class: "crumbs" }, make("a", { href: address(kind) }, title)),
      make("h2", {}, name), this.note, this.tabs, this.place);
  }

  get seconds() {
    return this.#part.seconds;
  }

  open(params) {
    const tab = Object.hasOwn(this.parts, params.tab) ? params.tab : "figures";
    if (tab !== this.#shown) {
      this.#part?.close();
      this.#shown = tab;
      this.#part = new this.parts[tab][1](this.context, this.name, this.kind);
      this.place.replaceChildren(this.#part.element);
      markCurrent(this.tabs, this.tabs.children[Object.keys(this.parts).indexOf(tab)].hash);
    }
    this.#part.open(params);
  }

  async refresh(signal) {
    await this.#part.refresh(signal);
  }

  close() {
    this.#part?.close();
  }
}

export class Topic extends PartsPage {
  constructor(context, name) {
    super(context, name, "topics", "Topics", TOPIC_PARTS);
  }
}

export class Queue extends PartsPage {
  #looked = 0;

  constructor(context, name) {
    super(context, name, "queues", "Queues", QUEUE_PARTS);
  }

  async refresh(signal) {
    await Promise.all([super.refresh(signal), this.#look(signal)]);
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
    setText(this.note, why);
    this.note.hidden = !why;
  }
}
