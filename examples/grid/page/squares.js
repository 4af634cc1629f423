// SPDX-License-Identifier: Apache-2.0
// The subscriptions of a player: to the squares that its screen shows, and to those around.

export class Squares {
  /** `hear(publication)` gets every publication of every square. */
  constructor(client, world, hear) {
    this.client = client;
    this.world = world;
    this.hear = hear;
    this.wanted = new Set();
    /** Frames in which a square was on screen and not yet subscribed to, since all once were. */
    this.late = 0;
    this.complete = false;
  }

  /** Subscribes ahead of a view, and unsubscribes behind it. */
  follow(view) {
    const wanted = this.world.subscriptions(view, this.wanted);
    for (const channel of wanted) if (!this.wanted.has(channel)) this.subscribe(channel);
    for (const channel of this.wanted) if (!wanted.has(channel)) this.unsubscribe(channel);
    this.wanted = wanted;
    const missing = [...this.world.channels(view)].some((channel) => !this.isHeard(channel));
    if (this.complete && missing) this.late++;
    this.complete ||= !missing;
  }

  subscribe(channel) {
    const subscription = this.client.newSubscription(channel);
    subscription.on('publication', this.hear);
    subscription.subscribe();
  }

  unsubscribe(channel) {
    const subscription = this.client.getSubscription(channel);
    subscription.unsubscribe();
    this.client.removeSubscription(subscription);
  }

  isHeard(channel) {
    return this.wanted.has(channel) && this.client.getSubscription(channel).state === 'subscribed';
  }

  /** Publishes to the channel of a square; false while that is not possible. */
  publish(channel, event) {
    if (!this.isHeard(channel)) return false;
    // What a lost connection loses, the next event says again.
    this.client.getSubscription(channel).publish(event).catch(() => {});
    return true;
  }

  heard() {
    return [...this.wanted].filter((channel) => this.isHeard(channel));
  }
}
