// SPDX-License-Identifier: Apache-2.0
// How fast messages come and go, from two looks at a queue's stats.

// The id of a message is its queue's epoch (16 digits) and its number in the queue: what was
// posted and taken again between two looks is counted, once a later message is seen.
function place(id) {
  const digits = id.replaceAll("-", "");
  return { epoch: digits.slice(0, 16), number: parseInt(digits.slice(16), 16) };
}

export class Rates {
  #before = null;

  // stats: as the service tells them; now: seconds. Rates are a second, null when not known yet.
  look({ messages }, now) {
    const before = this.#before;
    const newest = messages.newest ? place(messages.newest.href.split("/").at(-1)) : null;
    const figures = { free: messages.free, claimed: messages.claimed, total: messages.total };
    const last = newest ?? before?.last ?? null;
    this.#before = { last, total: messages.total, now };
    if (before === null || now <= before.now) return { ...figures, posts: null, takes: null };
    const grown = messages.total - before.total;
    if (before.last && last.epoch !== before.last.epoch) {
      return { ...figures, posts: null, takes: null }; // it was deleted and made again
    }
    let posted = Math.max(grown, 0);
    if (before.last) {
      // The newest one may have been deleted: numbers never go back.
      last.number = Math.max(last.number, before.last.number);
      posted = last.number - before.last.number;
    }
    const seconds = now - before.now;
    const taken = Math.max(posted - grown, 0);
    return { ...figures, posts: posted / seconds, takes: taken / seconds };
  }
}

// The latest looks at one queue, for a chart: ten minutes at one each two seconds.
export class Series {
  static #MAX = 300;
  looks = [];

  add(look) {
    this.looks.push(look);
    if (this.looks.length > Series.#MAX) this.looks.shift();
  }
}
