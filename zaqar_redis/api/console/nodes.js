// SPDX-License-Identifier: Apache-2.0
// The nodes: each worker process of the service is one.

import { reason } from "./dialog.js";
import { Tiles, bytes, count, duration, make, rate } from "./dom.js";
import { Listing, cut } from "./table.js";

export const NODE_COLUMNS = [
  { title: "Node", sort: "name" },
  { title: "Version", sort: "version" },
  { title: "Up for", sort: "uptime", number: true },
  { title: "CPU", sort: "cpu", number: true, help: "Share of one core" },
  { title: "Memory", sort: "memory", number: true },
  { title: "Loop lag", sort: "loop_lag_ms", number: true,
    help: "For how long the event loop stood still at most, a while ago" },
  { title: "Connections", sort: "connections", number: true },
  { title: "Users", sort: "users", number: true },
  { title: "Channels", sort: "channels", number: true },
  { title: "Subscriptions", sort: "subscriptions", number: true },
  { title: "Stores away" },
];

export const nodeCells = (node) => [node.name, node.version, duration(node.uptime),
  node.cpu === null ? "–" : `${rate(node.cpu * 100)} %`, bytes(node.memory),
  node.loop_lag_ms === null ? "–" : `${rate(node.loop_lag_ms)} ms`, count(node.connections),
  count(node.users), count(node.channels), count(node.subscriptions),
  node.unavailable.join(", ") || "–"];

export class Nodes {
  seconds = 3;

  constructor(context) {
    this.context = context;
    this.tiles = new Tiles({ nodes: ["Nodes", "Each worker process is one"],
      clients: ["Connections"], subscriptions: ["Subscriptions"] });
    this.listing = new Listing({
      caption: "Nodes", columns: NODE_COLUMNS, empty: "No node has answered.", sort: "name",
      load: (query, signal) => this.#load(query, signal),
      row: (node) => [node.id, nodeCells(node)],
    });
    this.mayNot = context.session.may.includes("console:installation") ? ""
      : reason(context.session, "console:installation");
    this.element = make("section", { class: "card" }, make("h2", {}, "Nodes"),
      ...(this.mayNot ? [make("p", {}, this.mayNot)] : [this.tiles.element, this.listing.element]));
  }

  open(params) {
    this.listing.open(params);
  }

  close() {
    this.listing.close();
  }

  async refresh(signal) {
    if (!this.mayNot) await this.listing.refresh(signal);
  }

  async #load(query, signal) {
    const { nodes } = await this.context.server.console("overview", {}, signal);
    const sum = (name) => count(nodes.reduce((total, node) => total + node[name], 0));
    this.tiles.show({ nodes: count(nodes.length), clients: sum("connections"),
      subscriptions: sum("subscriptions") });
    return cut(nodes, query, (node) => node, (node) => node.name);
  }
}
