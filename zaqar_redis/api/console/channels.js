// SPDX-License-Identifier: Apache-2.0
// Channels with subscribers.

import { address, go } from "./address.js";
import { count, make, rate } from "./dom.js";
import { HELP } from "./rates.js";
import { Listing, ListingPage, cut } from "./table.js";

export class Channels extends ListingPage {
  seconds = 2;

  constructor(context) {
    super();
    this.name = make("input", { name: "name", autocomplete: "off", spellcheck: "false", required: true });
    this.listing = new Listing({
      caption: "Channels with subscribers",
      columns: [{ title: "Channel", sort: "name" },
        { title: "Subscribers", sort: "subscribers", number: true },
        { title: "Rate", sort: "published", number: true, help: HELP.published }],
      empty: "Nobody is subscribed to anything.", sort: "subscribers", order: "desc",
      search: "Name contains",
      load: async (query, signal) => {
        const { channels } = await context.server.console("channels", {}, signal);
        // A rate that is not known yet is less than any.
        return cut(channels, query, (channel) => ({ ...channel, published: channel.published ?? -1 }),
          (channel) => channel.name);
      },
      row: ({ name, subscribers, published }) => [name,
        [{ text: name, href: address("channels", name) }, count(subscribers), rate(published)]],
    });
    this.element = make("section", { class: "card" }, make("h2", {}, "Channels"),
      make("form", { class: "row", onsubmit: (event) => {
        event.preventDefault();
        go("channels", this.name.value);
      } },
      make("label", {}, "Any channel ", this.name), make("button", {}, "Open")),
      this.listing.element);
  }
}
