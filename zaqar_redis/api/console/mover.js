// SPDX-License-Identifier: Apache-2.0
// Moves many messages, page by page, and shows how far it is: dead letters back to where they came
// from, or all that are free to another queue.

import { act, field } from "./dialog.js";
import { announce, button, count, make, setText } from "./dom.js";
import { markerOf, pathOf } from "./server.js";

// Messages of one request: no service allows less for a page by default.
const PAGE = 10;
// Queues that the result names.
const NAMED = 10;

export class Mover {
  #isRunning = false;
  #done = 0;

  constructor(context, name) {
    this.context = context;
    this.name = name;
    const { session } = context;
    this.bar = make("progress", { "aria-label": "Messages that were moved", value: "0", max: "1" });
    this.stop = button("Stop", () => { this.#isRunning = false; });
    this.starters = [act(session, "messages:move", "Redrive dead letters", () => this.#redrive()),
      act(session, "messages:move", "Move all to a queue", () => this.#moveAll())];
    this.may = session.may.includes("messages:move");
    this.status = make("p", { class: "hint", role: "status" });
    this.progress = make("div", { class: "row", hidden: true }, this.bar, this.stop);
    this.element = make("section", { class: "mover" }, make("h3", {}, "Move many"),
      make("div", { class: "row" }, ...this.starters),
      this.progress, this.status);
  }

  close() {
    if (!this.#isRunning) return;
    this.#isRunning = false;
    announce(`Moving from ${this.name} has stopped, since its page was left: ` +
      `at least ${count(this.#done)} moved. It can be begun again there.`, { isProblem: true });
  }

  #show(isRunning) {
    this.#isRunning = isRunning;
    this.progress.hidden = !isRunning;
    for (const each of this.starters) each.disabled = isRunning || !this.may; // one at a time
  }

  async #redrive() {
    await this.context.ask({ title: "Redrive dead letters", verb: "Redrive",
      text: "The dead letters of this queue that are free go back to the queues that they came " +
        "from; those of queues that do not exist stay. It can be stopped, and begun again.",
      work: async () => { this.#run(this.#deadLetters(), 0); }, done: "Redriving." });
  }

  async #moveAll() {
    await this.context.ask({ title: "Move all to a queue", verb: "Move",
      text: "All messages that are free go to the end of the other queue. It can be stopped, and " +
        "begun again.",
      content: [field("To the queue", { name: "queue", required: true, maxlength: "64" })],
      work: async ({ elements }) => {
        // The first page here, so that the dialog shows what is wrong with it.
        const queue = elements.queue.value;
        const { moved } = await this.context.server.move(this.name, { queue, limit: PAGE });
        this.#run(this.#all(queue), moved.length);
      }, done: "Moving." });
  }

  // Yields what is asked for, page by page: all that are free.
  async* #all(queue) {
    for (;;) {
      const result = await this.context.server.move(this.name, { queue, limit: PAGE });
      yield result;
      if (!result.moved.length) return;
    }
  }

  // Dead letters that are free, once each: those that stay must not hide those behind them.
  async* #deadLetters() {
    const { server } = this.context;
    const { messages: { newest } } = await server.queues("GET", `${pathOf(this.name)}/stats`);
    const last = newest?.href.split("/").at(-1) ?? "";
    for (let marker = "", hasMore = true; hasMore;) {
      const query = new URLSearchParams({ state: "free", limit: PAGE, ...(marker && { marker }) });
      const { messages, links } = await server.queues("GET", `${pathOf(this.name)}/peek?${query}`);
      // What goes back may come again as a dead letter, behind the last one.
      const ids = messages.filter((message) => message.dead_letter_from && message.id <= last)
        .map((message) => message.id);
      if (ids.length) yield await server.move(this.name, { ids });
      marker = markerOf(links);
      hasMore = this.#isRunning && marker && marker <= last;
    }
  }

  async #run(steps, already) {
    const { server, refresh } = this.context;
    this.#done = already;
    let left = 0;
    const missing = new Map();
    this.#show(true);
    try {
      const { messages } = await server.queues("GET", `${pathOf(this.name)}/stats`);
      this.bar.max = Math.max(1, messages.free + this.#done);
      this.bar.value = this.#done;
      for await (const result of steps) {
        this.#done += result.moved.length;
        left += result.left.length;
        for (const [queue, number] of Object.entries(result.missing_origins ?? {})) {
          missing.set(queue, (missing.get(queue) ?? 0) + number);
          left -= number;
        }
        this.bar.value = this.#done;
        setText(this.status, `${count(this.#done)} moved.`);
        if (!this.#isRunning) break;
      }
      setText(this.status, `${this.#isRunning ? "Done" : "Stopped"}: ${count(this.#done)} moved.` +
        `${stayed(missing)}${left ? ` Left, claimed or gone: ${count(left)}.` : ""}`);
    } catch (error) {
      setText(this.status, `Stopped after ${count(this.#done)}: ${error.message} It is safe to begin again.`);
    } finally {
      this.#show(false);
      refresh();
    }
  }
}

// What is said of dead letters without a queue to go back to, by that queue.
function stayed(missing) {
  if (!missing.size) return "";
  const named = Array.from(missing).slice(0, NAMED)
    .map(([queue, number]) => `${queue} (${count(number)})`);
  const others = missing.size > NAMED ? ` and ${count(missing.size - NAMED)} more` : "";
  return ` Left, of queues that do not exist: ${named.join(", ")}${others}. Create these, or move ` +
    "all to another queue.";
}
