// SPDX-License-Identifier: Apache-2.0
// What one looks at first: what is wrong, the project's totals, rates and last day, stores and nodes.

import { address } from "./address.js";
import { Charts, MESSAGE_CHARTS } from "./charts.js";
import { Tiles, bytes, count, duration, make, moment, rate, setText } from "./dom.js";
import { shortId } from "./ids.js";
import { nodeCells, NODE_COLUMNS } from "./nodes.js";
import { HELP, samples } from "./rates.js";
import { Refused, nounOf } from "./server.js";
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

const FAILING_COLUMNS = [
  { title: "Queue or topic" },
  { title: "Failing", number: true, help: "Subscriptions to which every attempt has failed for five minutes" },
  { title: "For", number: true, help: "Of the one that has failed for longest" },
  { title: "Subscription", help: "One of them" },
  { title: "Last failure" },
];
// Milliseconds between two looks at the history, which has a point a minute.
const HISTORY_EVERY = 60_000;
const HOUR = 3600;

export class Overview {
  seconds = 3;
  #looked = -Infinity; // at the history

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
    this.charts = new Charts(`Project ${context.session.project}`, MESSAGE_CHARTS,
      context.about.charts);
    this.charts.element.classList.add("beside");
    this.past = make("h4");
    this.noHistory = make("p", { class: "hint" });
    this.failing = new Table("Failing subscriptions", FAILING_COLUMNS, "");
    this.failingTitle = make("h3");
    this.failures = make("section", { class: "card", hidden: true }, this.failingTitle,
      this.failing.element);
    this.stores = new Table("Stores", STORE_COLUMNS, "No store.");
    this.nodes = new Table("Nodes", NODE_COLUMNS, "No node has answered.");
    this.installation = make("section", { class: "card" },
      make("h3", {}, "Stores"), this.stores.element);
    if (context.about.channels) {
      this.installation.append(
        make("h3", {}, make("a", { href: address("nodes") }, "Nodes")), this.nodes.element);
    }
    this.element = make("div", { class: "stack" },
      make("section", { class: "card", "aria-live": "polite" }, make("h2", {}, "Overview"),
        this.well, this.alarms),
      this.failures,
      make("section", { class: "card" }, make("h3", {}, `Project ${context.session.project}`),
        this.tiles.element, this.note, this.past, this.charts.element,
        this.noHistory),
      this.installation);
  }

  open() {}

  close() {
    this.charts.close();
  }

  async refresh(signal) {
    const found = await this.context.server.console("overview", {}, signal);
    this.#showAlarms(found.alarms, found.stores !== null);
    const { totals } = found;
    this.tiles.show({ queues: count(totals.queues), messages: count(totals.messages),
      free: count(totals.free), claimed: count(totals.claimed), delayed: count(totals.delayed),
      dead: count(totals.dead_letters), posts: rate(totals.posted),
      claims: rate(totals.claimed_rate), deletes: rate(totals.deleted) });
    setText(this.note, found.complete ? "" : "Not all queues have been read yet.");
    this.#showFailing(found);
    this.installation.hidden = found.stores === null;
    if (found.stores !== null) {
      this.stores.show(found.stores.map((store) =>
        [`${store.kind} ${store.name}`, storeCells(store)]));
      this.nodes.show(found.nodes.map((node) => [node.id, nodeCells(node)]));
    }
    if (performance.now() - this.#looked > HISTORY_EVERY) await this.#showHistory(signal);
  }

  async #showHistory(signal) {
    try {
      const { points, hours } = await this.context.server.console("overview/history", {}, signal);
      this.#looked = performance.now();
      this.charts.element.hidden = !points.length;
      setText(this.noHistory, points.length ? ""
        : "There is nothing yet: the first point comes within a minute of the first message.");
      // A service that is new fills the charts, too.
      const seen = points.length ? points.at(-1).at - points[0].at : 0;
      const span = Math.min(hours * HOUR, Math.max(HOUR, seen));
      const shown = Math.ceil(span / HOUR);
      setText(this.past, shown === 1 ? "The last hour" : `The last ${shown} hours`);
      if (points.length) await this.charts.show(samples(points), span);
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error;
      this.#looked = Infinity; // none is kept
      setText(this.noHistory, error.message);
    }
  }

  #showFailing({ failing, failing_subscriptions: number }) {
    this.failures.hidden = !failing.length;
    setText(this.failingTitle, `Failing subscriptions: ${count(number)}`);
    this.failing.show(failing.map((each) => [`${each.kind} ${each.name}`, [
      { text: `${nounOf(each.kind)} ${each.name}`,
        href: address(each.kind, each.name, { tab: "subscriptions" }) },
      count(each.number), duration(Date.now() / 1000 - each.since),
      shortId(each.subscription, "Subscription"), `${moment(each.failed_at)}: ${each.error}`]]));
  }

  #showAlarms(alarms, isInstallation) {
    const of = `project ${this.context.session.project}`;
    const all = this.context.about.channels ? `stores, nodes and ${of}` : `stores and ${of}`;
    setText(this.well, alarms.length ? ""
      : `Nothing is wrong ${isInstallation ? `with ${all}` : `in ${of}`}.`);
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

// How soon a write is on the disk, by appendfsync.
const SYNCS = { always: "AOF, each write", everysec: "AOF, each second", no: "AOF, now and then" };

function persistence(of) {
  if (!of) return "–";
  const { aof, aof_sync: sync, aof_succeeded, snapshots } = of;
  const parts = [];
  if (aof) parts.push(aof_succeeded ? SYNCS[sync] ?? "AOF" : "AOF fails");
  if (!snapshots.succeeded) parts.push("snapshots fail");
  else if (snapshots.automatic) parts.push(`snapshot ${duration(snapshots.age)} ago`);
  return parts.join("; ") || "none";
}
