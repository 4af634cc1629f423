// SPDX-License-Identifier: Apache-2.0
// The topics of a project: what their histories hold, and how much is published.

import { address } from "./address.js";
import { Tiles, count, duration, make, rate, setText } from "./dom.js";
import { creator, notesOn } from "./queues.js";
import { HELP } from "./rates.js";
import { Listing, ListingPage } from "./table.js";

const COLUMNS = [
  { title: "Topic", sort: "name" },
  { title: "Messages", sort: "total", number: true, help: "In its history" },
  { title: "Oldest", sort: "oldest", number: true, help: HELP.oldest },
  { title: "Published/s", sort: "posted", number: true },
  { title: "Subscriptions", sort: "subscriptions", number: true },
];

export class Topics extends ListingPage {
  seconds = 2;

  constructor(context) {
    super();
    this.context = context;
    this.listing = new Listing({
      caption: "Topics", columns: COLUMNS, sort: "name", search: "Name contains",
      filters: { not_empty: "Not empty" },
      empty: "No topics. A topic is created when a message is published to it.",
      load: (query, signal) => this.#load(query, signal),
      row: (topic) => [topic.name, [{ text: topic.name, href: address("topics", topic.name) },
        count(topic.total), duration(topic.oldest), rate(topic.posted), count(topic.subscriptions)]],
    });
    this.tiles = new Tiles({ topics: ["Topics"], messages: ["Messages", "In their histories"],
      published: ["Published/s"] });
    this.note = make("p", { class: "hint", role: "status" });
    this.element = make("section", { class: "card" },
      make("div", { class: "row" }, make("h2", {}, "Topics"), creator(context, "topics")),
      this.tiles.element, this.listing.element, this.note);
  }

  async #load(query, signal) {
    const asked = { ...query, topics: true };
    const found = await this.context.server.console("queues", asked, signal);
    const { totals } = found;
    this.tiles.show({ topics: count(totals.queues), messages: count(totals.messages),
      published: rate(totals.posted) });
    setText(this.note, notesOn(found, "topics"));
    return { items: found.queues, matching: found.matching, total: found.total };
  }
}
