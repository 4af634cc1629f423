// SPDX-License-Identifier: Apache-2.0
// Open connections of clients of channels, on all nodes.

import { change } from "./address.js";
import { act, reason } from "./dialog.js";
import { count, duration, make } from "./dom.js";
import { shortId } from "./ids.js";
import { Listing } from "./table.js";

const COLUMNS = [
  { title: "Connection" },
  { title: "User" },
  { title: "Transport" },
  { title: "Address" },
  { title: "Open for", number: true },
  { title: "Subscriptions", number: true },
  { title: "Channels", help: "The first of them" },
  { title: "Acts" },
];
const FILTERS = { user: "User", transport: "Transport", address: "Address" };

export class Connections {
  seconds = 3;
  #filters = {};

  constructor(context) {
    this.context = context;
    const { session } = context;
    this.inputs = Object.fromEntries(Object.keys(FILTERS).map((name) => [name,
      make("input", { name, autocomplete: "off", spellcheck: "false",
        onchange: (event) => change({ [name]: event.target.value, page: null }) })]));
    this.listing = new Listing({
      caption: "Connections", columns: COLUMNS, empty: "No client is connected.",
      load: async (query, signal) => {
        const asked = { ...query, ...this.#filters };
        const found = await context.server.console("connections", asked, signal);
        return { items: found.connections, matching: found.matching, total: found.matching };
      },
      row: (each) => [each.client, [shortId(each.client, "Connection"), each.user || "–", each.transport, each.address,
        duration(each.age), count(each.subscriptions), each.channels.join(", "),
        act(session, "channels:disconnect", "Disconnect", () => this.#disconnect(each))]],
    });
    this.mayNot = session.may.includes("console:connections") ? ""
      : reason(session, "console:connections");
    this.element = make("section", { class: "card" }, make("h2", {}, "Connections"),
      ...(this.mayNot ? [make("p", {}, this.mayNot)] : [
        make("form", { class: "row", onsubmit: (event) => event.preventDefault() },
          ...Object.entries(FILTERS).map(([name, title]) =>
            make("label", {}, `${title} `, this.inputs[name]))),
        this.listing.element]));
  }

  open(params) {
    this.#filters = {};
    for (const [name, input] of Object.entries(this.inputs)) {
      if (params[name]) this.#filters[name] = params[name];
      if (document.activeElement !== input) input.value = params[name] ?? "";
    }
    this.listing.open(params);
  }

  close() {
    this.listing.close();
  }

  async refresh(signal) {
    if (!this.mayNot) await this.listing.refresh(signal);
  }

  #disconnect({ client, user }) {
    const { server, ask } = this.context;
    return ask({ title: "Disconnect", verb: "Disconnect", isDangerous: true,
      text: `The connection ${client} of ${user || "nobody known"} is closed; its client is told ` +
        "not to come back.",
      work: () => server.api("disconnect", { user, client }),
      done: `${client} is disconnected.` });
  }
}
