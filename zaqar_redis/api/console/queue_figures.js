// SPDX-License-Identifier: Apache-2.0
// The figures of a queue or topic: counts by state, rates, and charts.

import { address, markCurrent } from "./address.js";
import { Charts, MESSAGE_CHARTS } from "./charts.js";
import { Tiles, bytes, count, duration, make, rate } from "./dom.js";
import { Refused, pathOf } from "./server.js";
import { HELP, NOTHING, Series, reading, samples } from "./rates.js";

const QUEUE_TILES = {
  free: ["Free", HELP.free], claimed: ["Claimed"], delayed: ["Delayed", HELP.delayed],
  total: ["Total"], oldest: ["Oldest", HELP.oldest],
  bytes: ["Size", HELP.bytes],
  posts: ["Posts/s", HELP.posts], claims: ["Claims/s", HELP.claims], deletes: ["Deletes/s", HELP.deletes],
  refused: ["Refused", HELP.refused], dropped: ["Dropped", HELP.dropped],
};
const TOPIC_TILES = {
  total: ["Messages", "In its history"], delayed: QUEUE_TILES.delayed,
  oldest: QUEUE_TILES.oldest, posts: ["Published/s"],
};
// Of tiles that are hidden without it.
const some = (value, text = count) => (value ? text(value) : null);
const TOPIC_CHARTS = [
  { title: "Messages", series: [{ name: "Messages", key: "total", colour: "--free" }] },
  { title: "A second", isRate: true, series: [{ name: "Published/s", key: "posts", colour: "--posts" }] },
];
// By the parameter range: title, and the hours that the service tells; without it the charts go on
// with what this page sees.
const RANGES = { "": ["10 minutes", 0], "1h": ["1 hour", 1], "6h": ["6 hours", 6], "24h": ["24 hours", 24] };
// Seconds that are shown then.
const SEEN = 600;
// Seconds between two looks at the history, which has a point a minute.
const HISTORY_EVERY = 20;

export class QueueFigures {
  seconds = 2;
  #series = new Series();
  #range = "";
  #past = { hours: 0, at: 0, samples: [] };
  #before = null; // samples of the time before the page was opened

  constructor(context, name, kind) {
    this.context = context;
    this.name = name;
    this.path = pathOf(name, kind);
    const isTopic = kind === "topics"; // of these the service keeps no histories of figures
    this.tiles = new Tiles(isTopic ? TOPIC_TILES : QUEUE_TILES);
    this.tiles.show({ bytes: null, refused: null, dropped: null });
    const [label, groups] = isTopic ? [`Topic ${name}`, TOPIC_CHARTS]
      : [`Queue ${name}`, MESSAGE_CHARTS];
    this.charts = new Charts(label, groups, context.about.charts);
    this.ranges = make("nav", { class: "ranges", "aria-label": "Time that the charts show",
      hidden: isTopic },
    ...Object.entries(RANGES).map(([range, [title]]) =>
      make("a", { href: address(kind, name, { range }) }, title)));
    this.element = make("div", {}, this.tiles.element, this.ranges, this.charts.element);
  }

  open({ range = "" }) {
    this.#range = Object.hasOwn(RANGES, range) && !this.ranges.hidden ? range : "";
    const link = this.ranges.children[Object.keys(RANGES).indexOf(this.#range)];
    markCurrent(this.ranges, link.hash, "true");
  }

  close() {
    this.charts.close();
  }

  async refresh(signal) {
    const stats = await orNone(NOTHING, this.context.server.queues("GET",
      `${this.path}/stats?detailed=true`, null, signal));
    const sample = this.#series.add(reading(stats, Date.now() / 1000));
    this.tiles.show({ free: count(sample.free), claimed: count(sample.claimed),
      delayed: count(sample.delayed), total: count(sample.total), oldest: duration(sample.oldest),
      bytes: some(sample.bytes, bytes), refused: some(sample.counters.refused),
      dropped: some(sample.counters.dropped),
      posts: rate(sample.posts), claims: rate(sample.claims), deletes: rate(sample.deletes) });
    await this.charts.show(await this.#samples(signal), RANGES[this.#range][1] * 3600 || SEEN);
  }

  async #samples(signal) {
    const hours = RANGES[this.#range][1];
    const now = Date.now() / 1000;
    if (!hours) {
      this.#before ??= this.ranges.hidden ? [] : await this.#samplesBefore(now, signal);
      if (!this.#before.length) return this.#series.samples;
      // Rates of the first sample are not known; those before it are.
      // With the last one before the time that is shown: what was so then is so until the next.
      const first = this.#before.findLastIndex(({ at }) => at <= now - SEEN);
      return [...this.#before.slice(Math.max(0, first)), ...this.#series.samples.slice(1)];
    }
    if (this.#past.hours !== hours || now - this.#past.at > HISTORY_EVERY) {
      const history = await this.context.server.history(this.name, hours, signal);
      this.#past = { hours, at: now, samples: samples(history.points) };
    }
    return this.#past.samples;
  }

  async #samplesBefore(now, signal) {
    const { points } = await orNone({ points: [] },
      this.context.server.history(this.name, 1, signal));
    // The last one is of now, by the clock of the store.
    const late = points.length ? now - points.at(-1).at : 0;
    const second = this.#series.samples[1]?.at ?? Infinity;
    return samples(points).map((sample) => ({ ...sample, at: sample.at + late }))
      .filter(({ at }) => at < second);
  }
}

// What the service answers, or none where there is nothing.
async function orNone(none, answer) {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return none;
    throw error;
  }
}
