// SPDX-License-Identifier: Apache-2.0
// Nodes and pools.

import { Pager, Table, Tiles, count, duration, make, setText } from "./dom.js";
import { Refused } from "./server.js";

export class Nodes {
  seconds = 2;

  constructor(context) {
    this.context = context;
    this.tiles = new Tiles({ nodes: ["Nodes", "Each worker process is one"],
      clients: ["Connections"], subscriptions: ["Subscriptions"] });
    this.table = new Table("Nodes", [
      { title: "Node" }, { title: "Version" }, { title: "Connections", number: true },
      { title: "Users", number: true }, { title: "Channels", number: true },
      { title: "Subscriptions", number: true }, { title: "Up for", number: true },
    ], "No node has answered.");
    this.element = make("section", { class: "card" }, make("h2", {}, "Nodes"),
      this.tiles.element, this.table.element);
  }

  open() {}

  close() {}

  async refresh(signal) {
    const { nodes } = await this.context.server.api("info", {}, signal);
    const sum = (name) => count(nodes.reduce((total, node) => total + node[name], 0));
    this.tiles.show({ nodes: count(nodes.length), clients: sum("num_clients"),
      subscriptions: sum("num_subs") });
    this.table.show(nodes.map((node) => [node.uid, [
      node.name, node.version, count(node.num_clients), count(node.num_users),
      count(node.num_channels), count(node.num_subs), duration(node.uptime)]]));
  }
}

export class Pools {
  seconds = 5;

  constructor(context) {
    this.context = context;
    this.table = new Table("Pools", [
      { title: "Pool" }, { title: "Store" }, { title: "Weight", number: true }, { title: "Flavor" },
      { title: "Queues", number: true }, { title: "State" },
    ], "No pools: all queues are in [storage] uri.");
    this.pager = new Pager(context.refresh);
    this.note = make("p", {});
    this.shown = make("div", {}, this.table.element, this.pager.element);
    this.element = make("section", { class: "card" }, make("h2", {}, "Pools"), this.note, this.shown);
  }

  open() {}

  close() {}

  async refresh(signal) {
    const { server } = this.context;
    let page;
    try {
      page = await server.page("pools", { marker: this.pager.marker }, signal);
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error;
      setText(this.note, "The service shows its pools in admin mode only: zaqar-redis serve " +
        "--admin, or admin_mode = true in its configuration.");
      this.shown.hidden = true;
      return;
    }
    setText(this.note, "");
    this.shown.hidden = false;
    const pools = await Promise.all(page.items.map((pool) =>
      server.queues("GET", `/pools/${encodeURIComponent(pool.name)}?detailed=true`, null, signal)));
    this.pager.shown(page.next);
    this.table.show(pools.map((pool) => [pool.name, [pool.name, pool.uri, count(pool.weight),
      pool.flavor || "–", count(pool.queues), state(pool)]]));
  }
}

function state({ draining, stayed }) {
  if (!draining) return "in use";
  return stayed.queues ? `draining; ${count(stayed.queues)} queues could not move` : "draining";
}
