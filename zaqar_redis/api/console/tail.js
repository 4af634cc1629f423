// SPDX-License-Identifier: Apache-2.0
// One channel, live: a connection in the JSON protocol, with a ticket that subscribes to it.
// It reconnects when it is lost, recovers its position, and reports missed publications.

import { Unauthorized, parse } from "./server.js";

// Of the time until the connection expires, how much passes before it is renewed.
const RENEWED_AT = 0.75;

const SHORTEST = 0.5; // seconds between tries, at first …
const LONGEST = 20; // … and at most
// Seconds that a ping may be late before the connection counts as lost.
const LATE = 10;

// Error: the ticket expired on its way. The next try gets a new one.
const TOKEN_EXPIRED = 109;
// Unsubscribe codes from here on ask the client to subscribe again.
const RESUBSCRIBE = 2500;

// Close: a publication is not JSON, and this page reads nothing else.
const INAPPROPRIATE = 3506;
// Close codes after which a client must not reconnect.
const isFinal = (code) => (code >= 3500 && code < 4000) || (code >= 4500 && code < 5000);

// Whether the service will give no ticket, however often it is asked.
const isRefusal = (error) =>
  error instanceof Unauthorized || (error.status >= 400 && error.status < 500);

// listener: state(kind, text) with kind connecting, live, waiting (for the next try) or ended;
// publication(publication); missed(text).
export class Tail {
  #socket = null;
  #timer = null;
  #watch = null;
  #renewal = null;
  #tries = 0;
  #stopped = false;
  #position = null; // {offset, epoch} to recover from
  #lost = null; // when the connection was lost, ms

  constructor(channel, ticket, listener) {
    this.channel = channel;
    this.ticket = ticket;
    this.listener = listener;
  }

  async start() {
    this.#timer = null;
    this.listener.state("connecting", "connecting…");
    let token;
    try {
      token = await this.ticket(this.channel);
    } catch (error) {
      if (isRefusal(error)) this.#end(error.message);
      else this.#retry(error.message);
      return;
    }
    if (this.#stopped) return;
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/connection/websocket`);
    this.#socket = socket;
    socket.onopen = () => this.#send({ id: 1, connect: this.#connect(token) });
    socket.onmessage = (event) => this.#received(event.data);
    socket.onclose = (event) => this.#closed(event.code, event.reason);
  }

  // Tries again at once.
  now() {
    if (this.#timer === null) return; // it is connecting, or connected
    clearTimeout(this.#timer);
    this.start();
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#watch);
    clearTimeout(this.#renewal);
    this.#socket?.close();
  }

  #connect(token) {
    const known = this.#position && { recover: true, ...this.#position };
    return { token, name: "console", subs: known ? { [this.channel]: known } : {} };
  }

  #send(command) {
    this.#socket.send(JSON.stringify(command));
  }

  #received(frame) {
    for (const line of frame.split("\n")) {
      if (this.#stopped) return;
      if (line) this.#reply(parse(line));
    }
  }

  #reply(reply) {
    if (reply.connect) this.#connected(reply.connect);
    else if (reply.refresh) this.#expires(reply.refresh);
    else if (reply.error) this.#refused(reply.error);
    else if (reply.push) this.#pushed(reply.push);
    else {
      this.#send({});
      this.#alive();
    }
  }

  #refused({ code, message, temporary }) {
    if (!temporary && code !== TOKEN_EXPIRED) this.#end(`${message} (${code})`);
    this.#socket.close();
  }

  #connected(result) {
    const sub = result.subs?.[this.channel] ?? {};
    this.#tries = 0;
    this.ping = result.ping ?? 0;
    this.#expires(result);
    this.#alive();
    this.#reportMissed(sub);
    if (sub.recoverable) {
      this.#position = { offset: sub.offset ?? 0, epoch: sub.epoch ?? "" };
      for (const publication of sub.publications ?? []) this.#publication(publication);
    }
    this.listener.state("live", sub.recoverable ? "live" : "live, without history");
  }

  // The connection expires in ttl seconds, unless another ticket renews it.
  #expires({ ttl }) {
    this.#renewal = setTimeout(() => this.#renew(this.#socket), ttl * RENEWED_AT * 1000);
  }

  async #renew(socket) {
    try {
      const token = await this.ticket(this.channel);
      if (socket.readyState === WebSocket.OPEN) {
        socket.send(JSON.stringify({ id: 2, refresh: { token } }));
      }
    } catch (error) {
      if (!isRefusal(error)) return; // when it expires, it tries to connect again
      this.#end(error.message);
      socket.close();
    }
  }

  #reportMissed(sub) {
    if (this.#lost === null) return;
    const seconds = ((Date.now() - this.#lost) / 1000).toFixed(1);
    this.#lost = null;
    if (!sub.recoverable) {
      this.listener.missed(`Not connected for ${seconds} s. This channel keeps no history: ` +
        "publications of this time are missing here.");
    } else if (!sub.recovered) {
      this.listener.missed(`Not connected for ${seconds} s. More was published than is kept: ` +
        "publications are missing here.");
    }
  }

  #pushed(push) {
    if (push.channel !== this.channel) return;
    if (push.pub) this.#publication(push.pub);
    else if (push.unsubscribe) {
      const { code, reason } = push.unsubscribe;
      if (code < RESUBSCRIBE) this.#end(reason || `unsubscribed with code ${code}`);
      this.#socket.close();
    }
  }

  #publication(publication) {
    const { offset } = publication;
    if (this.#position && offset) {
      // For example, a channel may recover only the latest publication.
      const skipped = offset - this.#position.offset - 1;
      if (skipped > 0) this.listener.missed(`${skipped} before #${offset} are missing here.`);
      this.#position.offset = offset;
    }
    this.listener.publication(publication);
  }

  #alive() {
    clearTimeout(this.#watch);
    if (this.ping) {
      this.#watch = setTimeout(() => this.#socket.close(), (this.ping + LATE) * 1000);
    }
  }

  #closed(code, reason) {
    clearTimeout(this.#watch);
    clearTimeout(this.#renewal);
    if (this.#stopped) return;
    this.#lost ??= this.ping === undefined ? null : Date.now();
    if (code === INAPPROPRIATE) {
      this.#end("a publication here is no JSON, and cannot be shown live: see the history");
    } else if (isFinal(code)) this.#end(reason || `closed with code ${code}`);
    else this.#retry(reason || "connection lost");
  }

  #retry(why) {
    if (this.#stopped) return;
    // With jitter: after a restart of the service not all clients connect at once.
    const most = Math.min(LONGEST, SHORTEST * 2 ** this.#tries++);
    const seconds = most * (0.5 + Math.random() / 2);
    this.listener.state("waiting", `${why}; again in ${seconds.toFixed(1)} s`);
    this.#timer = setTimeout(() => this.start(), seconds * 1000);
  }

  #end(why) {
    this.#stopped = true;
    this.listener.state("ended", why);
  }
}
