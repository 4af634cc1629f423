// SPDX-License-Identifier: Apache-2.0
// The others.  Their events are few: between two of them, each goes on as it went.

/** How fast a place that was wrong is put right: nine tenths of it in a quarter of a second. */
const CORRECTION = 9;

export class Players {
  constructor(rules) {
    this.rules = rules;
    this.players = new Map();
  }

  /** An event of a user, at `now`; places in pixels, speeds in pixels a second. */
  hear(user, team, event, now) {
    const known = this.players.get(user);
    // Events of two squares may overtake each other.
    if (known && event.t <= known.t) return;
    const player = {user, team, ...event, heardAt: now, wrongX: 0, wrongY: 0};
    if (known) {
      const shown = this.placeOf(known, now);
      const wrongX = shown.x - event.x, wrongY = shown.y - event.y;
      // Who is far from where he was has come back from elsewhere.
      if (Math.hypot(wrongX, wrongY) < this.rules.square) Object.assign(player, {wrongX, wrongY});
    }
    this.players.set(user, player);
  }

  placeOf(player, now) {
    const seconds = now - player.heardAt, left = Math.exp(-CORRECTION * seconds);
    return {
      x: player.x + player.vx * seconds + player.wrongX * left,
      y: player.y + player.vy * seconds + player.wrongY * left,
    };
  }

  /** Forgets those that are silent, or in squares of which nothing is heard any more. */
  forget(now, hears) {
    for (const [user, player] of this.players) {
      const {x, y} = this.placeOf(player, now);
      if (now - player.heardAt > this.rules.gone || !hears(x, y)) this.players.delete(user);
    }
  }

  /** Everybody that is known, each at the place where it is likely to be. */
  shown(now) {
    const {fade, gone} = this.rules;
    return [...this.players.values()].map((player) => ({
      user: player.user,
      team: player.team,
      vx: player.vx,
      vy: player.vy,
      ...this.placeOf(player, now),
      opacity: Math.min(1, Math.max(0, (gone - (now - player.heardAt)) / (gone - fade))),
    }));
  }
}
