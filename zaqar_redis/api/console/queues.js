// SPDX-License-Identifier: Apache-2.0
// Queues: a page of them with depths and rates; for the chosen one a chart, a live tail, and a
// box to post.

import * as charts from "./charts.js";
import { Pager, Table, Tiles, count, make, rate } from "./dom.js";
import { Feed, publishBox } from "./feed.js";
import { List } from "./list.js";
import { Rates, Series } from "./rates.js";

const POSTS = "Messages that were posted between the last two polls";
const TAKES = "Messages that left: deleted, popped or expired";
const COLUMNS = [
  { title: "Queue" },
  { title: "Free", number: true, help: "Messages that can be claimed, now or after their delay" },
  { title: "Claimed", number: true },
  { title: "Total", number: true },
  { title: "Posts/s", number: true, help: POSTS },
  { title: "Takes/s", number: true, help: TAKES },
];

export class Queues extends List {
  #rates = new Map();

  constructor(context) {
    super(context, "queues", QueueDetails);
    this.table = new Table("Queues", COLUMNS,
      "No queues. A queue is created when a message is posted to it.");
    this.pager = new Pager(context.refresh);
    this.filter = make("input", { type: "search", autocomplete: "off", spellcheck: "false",
      oninput: () => { this.pager.reset(); context.refresh(); } });
    const bar = make("form", { class: "row", onsubmit: (event) => event.preventDefault() },
      make("label", {}, "Name contains ", this.filter));
    this.element = this.split(
      make("section", { class: "card" }, make("h2", {}, "Queues"), bar, this.table.element,
        this.pager.element));
  }

  async refresh(signal) {
    const query = { marker: this.pager.marker, name: this.filter.value };
    const page = await this.context.server.page("queues", query, signal);
    const names = page.items.map((queue) => queue.name);
    const chosen = this.chosen;
    // Only the queues of this page, and the one that is open, are polled.
    const polled = new Set(chosen ? [...names, chosen.name] : names);
    const samples = new Map();
    await Promise.all(Array.from(polled, async (name) => {
      samples.set(name, await this.#sample(name, signal));
    }));
    for (const name of this.#rates.keys()) if (!polled.has(name)) this.#rates.delete(name);
    this.pager.shown(page.next);
    this.table.show(names.map((name) =>
      [name, [this.link(name), ...Object.values(shown(samples.get(name)))]]));
    if (chosen && chosen === this.chosen) await chosen.show(samples.get(chosen.name));
  }

  // A queue that does not exist (any more) has stats, too: zeros.
  async #sample(name, signal) {
    const path = `/queues/${encodeURIComponent(name)}/stats`;
    const stats = await this.context.server.queues("GET", path, null, signal);
    if (!this.#rates.has(name)) this.#rates.set(name, new Rates());
    return this.#rates.get(name).sample(stats, performance.now() / 1000);
  }
}

const shown = (sample) => ({
  free: count(sample.free), claimed: count(sample.claimed), total: count(sample.total),
  posts: rate(sample.posts), takes: rate(sample.takes),
});

class QueueDetails {
  #series = new Series();

  constructor(context, name) {
    this.context = context;
    this.name = name;
    this.tiles = new Tiles({
      free: ["Free"], claimed: ["Claimed"], total: ["Total"], posts: ["Posts/s", POSTS],
      takes: ["Takes/s", TAKES],
    });
    this.chart = make("div", { class: "chart", role: "img",
      "aria-label": `Depth and rates of ${name} in the last minutes` });
    const hint = context.about.charts ? "" : "For charts, install the service with its extra " +
      "console: pip install '.[console]'";
    this.feed = new Feed(context.server, `queue:${name}`);
    const ttl = make("input", { name: "ttl", type: "number", min: "60", value: "3600", required: true });
    this.element = make("section", {},
      make("h2", {}, name), this.tiles.element, this.chart,
      make("p", { class: "hint" }, hint),
      publishBox("Post a message", "Post", context.session.may_post, (text, form) => this.#post(text, form),
        make("label", {}, "TTL in seconds ", ttl)),
      this.feed.element);
  }

  close() {
    this.feed.close();
    charts.forget(this.chart);
  }

  async show(sample) {
    this.tiles.show(shown(sample));
    this.#series.add({ ...sample, at: new Date() });
    if (this.context.about.charts) await charts.draw(this.chart, this.#series.samples);
  }

  async #post(text, form) {
    // The text itself: parsed by JavaScript, its numbers would have 53 bits.
    const body = `{"messages": [{"body": ${text}, "ttl": ${Number(form.elements.ttl.value)}}]}`;
    const path = `/queues/${encodeURIComponent(this.name)}/messages`;
    const posted = await this.context.server.queues("POST", path, body);
    this.context.refresh();
    return `Posted: ${posted.resources[0].split("/").at(-1)}`;
  }
}
