// SPDX-License-Identifier: Apache-2.0
// What one looks at first: what is wrong, the project's totals and rates, stores and nodes.

import { address } from "./address.js";
import { Tiles, bytes, count, duration, make, rate, setText } from "./dom.js";
import { nodeCells, NODE_COLUMNS } from "./nodes.js";
import { HELP } from "./rates.js";
import { Table } from "./table.js";

const STORE_COLUMNS = [
  { title: "Store" },
  { title: "Holds", help: "What the service keeps there" },
  { title: "State" },
  { title: "Latency", number: true },
  { title: "Memory", number: true },
  { title: "When full", help: "maxmemory-policy: noeviction refuses posts, all others lose messages" },
  { title: "Persistence" },
  { title: "Clients", number: true },
  { title: "Commands/s", number: true },
  { title: "Queues", number: true },
  { title: "Version" },
];

export class Overview {
  seconds = 3;

  constructor(context) {
    this.context = context;
    this.alarms = make("ul", { class: "alarms" });
    this.well = make("p", { class: "well" });
    this.tiles = new Tiles({
      queues: ["Queues"], messages: ["Messages"], free: ["Free", HELP.free], claimed: ["Claimed"],
      delayed: ["Delayed", HELP.delayed], dead: ["Dead letters", "Messages in dead-letter queues"],
      posts: ["Posts/s", HELP.posts], claims: ["Claims/s", HELP.claims],
      deletes: ["Deletes/s", HELP.deletes],
    });
    this.note = make("p", { class: "hint" });
    this.stores = new Table("Stores", STORE_COLUMNS, "No store.");
    this.nodes = new Table("Nodes", NODE_COLUMNS, "No node has answered.");
    this.installation = make("section", { class: "card" },
      make("h3", {}, "Stores"), this.stores.element,
      make("h3", {}, make("a", { href: address("nodes") }, "Nodes")), this.nodes.element);
    this.element = make("div", { class: "stack" },
      make("section", { class: "card", "aria-live": "polite" }, make("h2", {}, "Overview"),
        this.well, this.alarms),
      make("section", { class: "card" }, make("h3", {}, `Project ${context.session.project}`),
        this.tiles.element, this.note),
      this.installation);
  }

  open() {}

  close() {}

  async refresh(signal) {
    const found = await this.context.server.console("overview", {}, signal);
    this.#showAlarms(found.alarms);
    const { totals } = found;
    this.tiles.show({ queues: count(totals.queues), messages: count(totals.messages),
      free: count(totals.free), claimed: count(totals.claimed), delayed: count(totals.delayed),
      dead: count(totals.dead_letters), posts: rate(totals.posted),
      claims: rate(totals.claimed_rate), deletes: rate(totals.deleted) });
    setText(this.note, found.complete ? "" : "Not all queues have been read yet.");
    this.installation.hidden = found.stores === null;
    if (found.stores === null) return;
    this.stores.show(found.stores.map((store) => [`${store.kind} ${store.name}`, storeCells(store)]));
    this.nodes.show(found.nodes.map((node) => [node.id, nodeCells(node)]));
  }

  #showAlarms(alarms) {
    setText(this.well, alarms.length ? "" : "Nothing is wrong.");
    const texts = JSON.stringify(alarms);
    if (this.shown === texts) return; // else screen readers would read them again
    this.shown = texts;
    this.alarms.replaceChildren(...alarms.map(({ severity, subject, text, remedy }) =>
      make("li", { "data-severity": severity },
        make("strong", {}, `${severity}: ${subject}`), make("p", {}, text),
        make("p", { class: "remedy" }, remedy))));
  }
}

function storeCells(store) {
  const memory = store.memory_max ? `${bytes(store.memory_used)} of ${bytes(store.memory_max)}`
    : bytes(store.memory_used);
  return [store.name, store.kind, store.available ? "answers" : `away: ${store.error}`,
    store.latency_ms === null ? "–" : `${rate(store.latency_ms)} ms`, memory,
    store.memory_policy ?? "–", persistence(store.persistence), count(store.clients),
    count(store.ops_per_second), count(store.queues), store.version ?? "–"];
}

function persistence(of) {
  if (!of) return "–";
  const { aof, aof_succeeded, snapshots } = of;
  const parts = [];
  if (aof) parts.push(aof_succeeded ? "every write (AOF)" : "AOF fails");
  if (!snapshots.succeeded) parts.push("snapshots fail");
  else if (snapshots.automatic) parts.push(`snapshot ${duration(snapshots.age)} ago`);
  return parts.join("; ") || "none";
}
