// SPDX-License-Identifier: Apache-2.0
// Where this player is and goes: by keys, or towards a point of the world.

const DIRECTIONS = {
  ArrowUp: [0, -1], KeyW: [0, -1],
  ArrowDown: [0, 1], KeyS: [0, 1],
  ArrowLeft: [-1, 0], KeyA: [-1, 0],
  ArrowRight: [1, 0], KeyD: [1, 0],
};
/** Pixels from its goal at which it has arrived. */
const NEAR = 4;

export class Walker {
  constructor(x, y, speed) {
    Object.assign(this, {x, y, speed, vx: 0, vy: 0});
    this.keys = new Set();
    this.goal = null;
  }

  press(code) {
    if (!(code in DIRECTIONS)) return false;
    this.keys.add(code);
    this.goal = null;
    return true;
  }

  release(code) {
    this.keys.delete(code);
  }

  stop() {
    this.keys.clear();
    this.goal = null;
  }

  walk(seconds) {
    this.x += this.vx * seconds;
    this.y += this.vy * seconds;
    let x = 0, y = 0;
    for (const code of this.keys) {
      x += DIRECTIONS[code][0];
      y += DIRECTIONS[code][1];
    }
    if (this.goal) [x, y] = [this.goal.x - this.x, this.goal.y - this.y];
    const far = Math.hypot(x, y);
    if (this.goal && far < Math.max(NEAR, this.speed * seconds)) {
      [this.x, this.y] = [this.goal.x, this.goal.y];
      this.goal = null;
      x = y = 0;
    }
    // Towards a goal it keeps its direction: each change of it is an event for the others.
    const bend = Math.abs(x * this.vy - y * this.vx);
    if (this.goal && x * this.vx + y * this.vy > 0 && bend < NEAR * this.speed) return;
    const speed = x || y ? this.speed / Math.hypot(x, y) : 0;
    [this.vx, this.vy] = [x * speed, y * speed];
  }
}
