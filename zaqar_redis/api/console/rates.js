// SPDX-License-Identifier: Apache-2.0
// Rates of posts and takes, from two samples of a queue's stats.

// The id of a message is its queue's epoch (16 digits) and its number in the queue: messages that
// were posted and taken between two samples are counted, once a later message is seen.
function parseId(id) {
  const digits = id.replaceAll("-", "");
  return { epoch: digits.slice(0, 16), number: parseInt(digits.slice(16), 16) };
}

export class Rates {
  #before = null;

  // stats: the service's answer; now: seconds. Rates are per second, null when not known yet.
  sample({ messages }, now) {
    const before = this.#before;
    const newest = messages.newest ? parseId(messages.newest.href.split("/").at(-1)) : null;
    const figures = { free: messages.free, claimed: messages.claimed, total: messages.total };
    const last = newest ?? before?.last ?? null;
    this.#before = { last, total: messages.total, now };
    if (before === null || now <= before.now) return { ...figures, posts: null, takes: null };
    const grown = messages.total - before.total;
    if (before.last && last.epoch !== before.last.epoch) {
      return { ...figures, posts: null, takes: null }; // it was deleted and created again
    }
    let posted = Math.max(grown, 0);
    if (before.last) {
      // The newest message may have been deleted: numbers never go back.
      last.number = Math.max(last.number, before.last.number);
      posted = last.number - before.last.number;
    }
    const seconds = now - before.now;
    const taken = Math.max(posted - grown, 0);
    return { ...figures, posts: posted / seconds, takes: taken / seconds };
  }
}

// The latest samples of one queue, for a chart: ten minutes at one every two seconds.
export class Series {
  static #MAX = 300;
  samples = [];

  add(sample) {
    this.samples.push(sample);
    if (this.samples.length > Series.#MAX) this.samples.shift();
  }
}
