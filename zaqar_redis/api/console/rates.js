// SPDX-License-Identifier: Apache-2.0
// Figures of a queue, and rates: the differences of its counters.

// What the figures mean.
export const HELP = {
  free: "Messages that can be claimed now",
  delayed: "Messages whose delay has not ended",
  oldest: "How long ago the oldest message was posted",
  posts: "Messages that were posted; not those that came as dead letters",
  claims: "Messages that were claimed; each time counts",
  deletes: "Messages that were deleted by id, or popped",
  bytes: "As they are stored, estimated by a sample",
  refused: "Messages that were refused since the queue was created, as it was full or paused; each time counts",
  dropped: "Messages that were deleted since the queue was created, to make room in it",
  published: "Publications a second, in the last five to ten seconds",
};

// What counts since the queue was created: the name of each, and what it is a second.
const COUNTERS = {
  posted: "posts", claimed: "claims", released: "releases", deleted: "deletes",
  expired: "expiries", purged: "purges", dead_lettered: "deadLetters",
};

// The service's answer to stats?detailed=true, read at a time in seconds. free: claimable now.
export function reading({ messages, counters }, at) {
  return { at, counters, total: messages.total, claimed: messages.claimed,
    delayed: messages.delayed, free: messages.free - messages.delayed,
    oldest: messages.oldest?.age ?? null, bytes: messages.bytes };
}

// What that is of a queue or topic that does not exist.
export const NOTHING = { messages: { total: 0, claimed: 0, delayed: 0, free: 0 },
  counters: Object.fromEntries(Object.keys(COUNTERS).map((name) => [name, 0])) };

// A reading with the rates since the one before; null while they are not known.
function rated(before, now) {
  const isKnown = before && now.at > before.at &&
    // Of a queue that was deleted and created again they begin anew.
    Object.keys(COUNTERS).every((name) => now.counters[name] >= before.counters[name]);
  const rates = Object.entries(COUNTERS).map(([name, rate]) => [rate, isKnown
    ? (now.counters[name] - before.counters[name]) / (now.at - before.at) : null]);
  return { ...now, ...Object.fromEntries(rates) };
}

// The points of a history as samples: their counters count since the point before.
export function samples(points) {
  return points.map((point, index) => {
    const seconds = index ? point.at - points[index - 1].at : 0;
    const each = (count) => (seconds > 0 ? count / seconds : null);
    return { at: point.at, free: point.free, claimed: point.claimed, delayed: point.delayed,
      posts: each(point.posted), claims: each(point.claims), deletes: each(point.deleted),
      deadLetters: each(point.dead_lettered) };
  });
}

// The latest readings of one queue, with rates: ten minutes at one every two seconds.
export class Series {
  static #MAX = 300;
  samples = [];

  add(read) {
    const sample = rated(this.samples.at(-1), read);
    this.samples.push(sample);
    if (this.samples.length > Series.#MAX) this.samples.shift();
    return sample;
  }
}
