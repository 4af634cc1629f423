// SPDX-License-Identifier: Apache-2.0
// Channels with subscribers.

import { address, go } from "./address.js";
import { count, make } from "./dom.js";
import { Listing, cut } from "./table.js";

export class Channels {
  seconds = 2;

  constructor(context) {
    this.name = make("input", { name: "name", autocomplete: "off", spellcheck: "false", required: true });
    this.listing = new Listing({
      caption: "Channels with subscribers",
      columns: [{ title: "Channel", sort: "name" },
        { title: "Subscribers", sort: "subscribers", number: true }],
      empty: "Nobody is subscribed to anything.", sort: "subscribers", order: "desc",
      search: "Name contains",
      load: async (query, signal) => {
        const { channels } = await context.server.api("channels", {}, signal);
        const all = Object.entries(channels).map(([name, { num_clients: subscribers }]) =>
          ({ name, subscribers }));
        return cut(all, query, (channel) => channel, (channel) => channel.name);
      },
      row: ({ name, subscribers }) =>
        [name, [{ text: name, href: address("channels", name) }, count(subscribers)]],
    });
    this.element = make("section", { class: "card" }, make("h2", {}, "Channels"),
      make("form", { class: "row", onsubmit: (event) => {
        event.preventDefault();
        go("channels", this.name.value);
      } },
      make("label", {}, "Any channel ", this.name), make("button", {}, "Open")),
      this.listing.element);
  }

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
