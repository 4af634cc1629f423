// SPDX-License-Identifier: Apache-2.0
// Moves many messages, page by page, and shows how far it is: dead letters back to where they came
// from, or all that are free to another queue.

import { act, field } from "./dialog.js";
import { button, count, make, setText } from "./dom.js";
import { pathOf } from "./server.js";

// Messages of one request: no service allows less for a page by default.
const PAGE = 10;

export class Mover {
  #isRunning = false;

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
    this.#isRunning = false;
  }

  #show(isRunning) {
    this.#isRunning = isRunning;
    this.progress.hidden = !isRunning;
    for (const each of this.starters) each.disabled = isRunning || !this.may; // one at a time
  }

  async #redrive() {
    await this.context.ask({ title: "Redrive dead letters", verb: "Redrive",
      text: "The dead letters of this queue that are free go back to the queues that they came " +
        "from. It can be stopped, and begun again.",
      work: async () => { this.#run({}); }, done: "Redriving." });
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
        this.#run({ queue }, moved.length);
      }, done: "Moving." });
  }

  async #run(target, already = 0) {
    const { server, refresh } = this.context;
    let done = already;
    let left = 0;
    this.#show(true);
    try {
      const { messages } = await server.queues("GET", `${pathOf(this.name)}/stats`);
      this.bar.max = Math.max(1, messages.free + done);
      while (this.#isRunning) {
        const result = await server.move(this.name, { ...target, limit: PAGE });
        done += result.moved.length;
        left = result.left.length;
        this.bar.value = done;
        setText(this.status, `${count(done)} moved.`);
        if (!result.moved.length) break;
      }
      const rest = left ? " Others are left: the queue that they came from does not exist, or " +
        "they were claimed." : "";
      setText(this.status, this.#isRunning ? `Done: ${count(done)} moved.${rest}`
        : `Stopped: ${count(done)} moved.`);
    } catch (error) {
      setText(this.status, `Stopped after ${count(done)}: ${error.message} It is safe to begin again.`);
    } finally {
      this.#show(false);
      refresh();
    }
  }
}
