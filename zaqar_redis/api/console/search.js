// SPDX-License-Identifier: Apache-2.0
// Looks for messages of a queue, which may have millions: request after request, each of which
// looks at a bounded number, until a page is full.

import { button, count, make, setText } from "./dom.js";
import { markerOf, pathOf } from "./server.js";

// Messages of a page, as many as the service has in one by default.
const PAGE = 10;

const SHARE = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });

// The position of a message in its queue, which its id ends with.
const rankOf = (id) => Number.parseInt(id.replaceAll("-", "").slice(16), 16);

export class Search {
  #asked = null; // the query of what is shown, as a text
  #running = null; // aborts it
  #isStopped = false; // by somebody
  #requests = 0;
  #marker = ""; // where to go on
  #found = [];
  #range = null; // ranks of the oldest and the newest message

  // show(messages, marker): what was found so far, and where to go on behind that; empty: nowhere.
  constructor({ server, refresh }, queue, show) {
    this.server = server;
    this.queue = queue;
    this.show = show;
    this.bar = make("progress", { "aria-label": "Part of the queue that is searched", value: "0",
      max: "1" });
    this.share = make("span", { class: "hint" });
    this.button = button("Stop", () => {
      this.#isStopped = this.#running !== null;
      if (this.#isStopped) this.#running.abort();
      else refresh();
    });
    this.progress = make("div", { class: "row", hidden: true }, this.bar, this.share, this.button);
    this.status = make("p", { class: "hint", role: "status" });
    this.element = make("div", {}, this.progress, this.status);
  }

  close() {
    const running = this.#running;
    this.#running = null;
    running?.abort();
  }

  // What is shown is looked for anew when somebody looks again.
  forget() {
    this.close();
    this.#asked = null;
  }

  // query: {state, contains, marker}. Without another one what took several requests stays as it is,
  // and what failed goes on.
  async look(query) {
    const asked = JSON.stringify(query);
    const isSame = asked === this.#asked;
    if (isSame && (this.#running || this.#isStopped || (this.#isAtEnd() && this.#requests > 1))) return;
    if (!isSame || this.#isAtEnd()) {
      this.close();
      this.#asked = asked;
      this.#isStopped = false;
      this.#requests = 0;
      this.#marker = query.marker ?? "";
      this.#found = [];
      this.#range = null;
    }
    await this.#run(query);
  }

  #isAtEnd() {
    return this.#requests > 0 && (!this.#marker || this.#found.length >= PAGE);
  }

  async #run(query) {
    const running = new AbortController();
    this.#running = running;
    setText(this.status, "");
    this.progress.hidden = !this.#requests;
    setText(this.button, "Stop");
    try {
      while (!this.#isAtEnd()) await this.#step(query, running.signal);
    } catch (error) {
      if (!running.signal.aborted) throw error;
    } finally {
      if (this.#running === running) {
        this.#running = null;
        this.#showEnd();
      }
    }
  }

  async #step(query, signal) {
    await this.#request(query, signal);
    this.show(this.#found, this.#marker);
    if (this.#isAtEnd()) return;
    this.#range ??= await this.#ranks(signal);
    const { oldest, newest } = this.#range;
    const share = (rankOf(this.#marker) - oldest) / Math.max(1, newest - oldest);
    this.bar.value = Math.min(1, Math.max(0, share));
    setText(this.share, `${SHARE.format(this.bar.value)} of the queue is searched, ` +
      `${count(this.#found.length)} found`);
    this.progress.hidden = false;
  }

  #showEnd() {
    this.progress.hidden = this.#isAtEnd();
    setText(this.button, this.#isStopped ? "Go on" : "Stop");
    if (this.#isStopped) setText(this.status, "Stopped.");
    else if (this.#isAtEnd() && this.#requests > 1) {
      setText(this.status, this.#marker ? "There may be more: go on with Next."
        : "The queue is searched to its end.");
    }
  }

  async #request({ state, contains }, signal) {
    const given = { ...(state && { state }), ...(contains && { contains }),
      ...(this.#marker && { marker: this.#marker }) };
    const path = `${pathOf(this.queue)}/peek?${new URLSearchParams(given)}`;
    const { messages, links } = await this.server.queues("GET", path, null, signal);
    signal.throwIfAborted();
    this.#requests += 1;
    const found = [...this.#found, ...messages];
    this.#found = found.slice(0, PAGE);
    this.#marker = found.length > PAGE ? found[PAGE - 1].id : markerOf(links);
  }

  async #ranks(signal) {
    const path = `${pathOf(this.queue)}/stats`;
    const { messages: { oldest, newest } } = await this.server.queues("GET", path, null, signal);
    const rank = (message) => rankOf(message?.href.split("/").at(-1) ?? this.#marker);
    return { oldest: rank(oldest), newest: rank(newest) };
  }
}
