// SPDX-License-Identifier: Apache-2.0
// The rules of world.py, which sends their numbers: lengths in pixels, times in seconds.

export class World {
  constructor(rules) {
    this.rules = rules;
  }

  channelAt(x, y) {
    const side = this.rules.square;
    return `grid:${Math.floor(x / side)}:${Math.floor(y / side)}`;
  }

  /** The channels of the squares that a view shows, with a margin of so many squares. */
  channels({x, y, width, height}, margin = 0) {
    const side = this.rules.square, found = new Set();
    const across = width / side / 2 + margin, down = height / side / 2 + margin;
    for (let column = Math.floor(x / side - across); column < x / side + across; column++) {
      for (let row = Math.floor(y / side - down); row < y / side + down; row++) {
        found.add(`grid:${column}:${row}`);
      }
    }
    return found;
  }

  /** What to be subscribed to, by one who is subscribed to `current`. */
  subscriptions(view, current) {
    const {ring, slack} = this.rules;
    const wanted = this.channels(view, ring), kept = this.channels(view, ring + slack);
    for (const channel of current) {
      if (kept.has(channel)) wanted.add(channel);
    }
    return wanted;
  }

  /** Pixels of the screen for one of the world: a screen shows no more than so many squares. */
  scale(width, height) {
    const {square, across, down} = this.rules;
    return Math.max(1, width / (across * square), height / (down * square));
  }
}

export function squareOf(channel) {
  return channel.split(':').slice(1).map(Number);
}
