// SPDX-License-Identifier: Apache-2.0
// The history of a topic, newest first, and the box to publish.

import { address, change } from "./address.js";
import { act } from "./dialog.js";
import { button, duration, make } from "./dom.js";
import { shortId } from "./ids.js";
import { postBox, shortBody, showMessage } from "./messages.js";
import { markerOf, pathOf } from "./server.js";
import { MarkerPager, Table } from "./table.js";

const COLUMNS = [
  { title: "Message" },
  { title: "Age", number: true },
  { title: "TTL", number: true },
  { title: "Body" },
  { title: "Acts" },
];

export class TopicHistory {
  seconds = 30; // pages may have megabytes, and what somebody reads must not move
  #params = {};
  #messages = new Map(); // by id: buttons in rows stay, so what they act on is looked up here

  constructor(context, name, kind) {
    this.context = context;
    this.path = pathOf(name, kind);
    this.oldest = make("input", { type: "checkbox",
      onchange: () => change({ marker: null, order: this.oldest.checked ? "asc" : null }) });
    this.table = new Table("Messages", COLUMNS, "The history is empty.");
    this.pager = new MarkerPager((marker) => address(kind, name, { ...this.#params, marker }));
    this.element = make("div", {},
      make("div", { class: "row" },
        make("label", { class: "check" }, this.oldest, " Oldest first"),
        button("Look again", context.refresh)),
      this.table.element, this.pager.element,
      postBox(context, this.path,
        { title: "Publish a message", verb: "Publish", done: "Published" }));
  }

  open(params) {
    this.#params = params;
    this.oldest.checked = params.order === "asc";
  }

  close() {}

  async refresh(signal) {
    const { marker = "" } = this.#params;
    const query = new URLSearchParams({ reverse: !this.oldest.checked, with_attributes: true,
      ...(marker && { marker }) });
    const path = `${this.path}/messages?${query}`;
    const { messages, links } = await this.context.server.queues("GET", path, null, signal);
    this.#messages = new Map(messages.map((message) => [message.id, message]));
    const { session } = this.context;
    this.table.show(messages.map((message) => {
      const { id } = message;
      return [id, [shortId(id, "Message"), duration(message.age), duration(message.ttl), shortBody(message),
        make("div", { class: "acts" },
          button("Show", () => this.#show(id)),
          act(session, "messages:delete", "Delete", () => this.#delete(id)))]];
    }));
    this.pager.show(marker, markerOf(links), messages.length);
  }

  #show(id) {
    const message = this.#messages.get(id);
    showMessage(message, { Age: duration(message.age), TTL: duration(message.ttl) });
  }

  #delete(id) {
    const { server, ask } = this.context;
    return ask({ title: "Delete the message", verb: "Delete", isDangerous: true,
      text: `${id} leaves the history; subscribers that have not got it yet do not get it.`,
      work: () => server.queues("DELETE", `${this.path}/messages/${id}`),
      done: "The message is deleted." });
  }
}
