// SPDX-License-Identifier: Apache-2.0
// Who consumes what: the claims of a project's queues, by client, the queues with most claimed
// messages first.

import { address } from "./address.js";
import { count, duration, make, setText } from "./dom.js";
import { shortId } from "./ids.js";
import { notesOn } from "./queues.js";
import { Refused, markerOf, pathOf } from "./server.js";
import { Table } from "./table.js";

const COLUMNS = [
  { title: "Queue" },
  { title: "Client-ID", help: "Of the requests that created the claims" },
  { title: "Claims", number: true },
  { title: "Messages", number: true, help: "Held by these claims" },
  { title: "Oldest", number: true, help: "Since the oldest claim was created or renewed" },
];
// Queues of a page, and pages of claims that are read of each: a refresh is 51 requests at most.
const QUEUES = 10;
const PAGES = 5;

export class Consumers {
  seconds = 5;
  #page = 1;

  constructor(context) {
    this.server = context.server;
    this.table = new Table("Consumers", COLUMNS, "No claim holds a message.");
    this.note = make("p", { class: "hint", role: "status" });
    this.back = make("a", { hidden: true }, "Back");
    this.next = make("a", { hidden: true }, "Next");
    this.element = make("section", { class: "card" }, make("h2", {}, "Consumers"), this.table.element,
      this.note, make("p", { class: "pager" }, this.back, this.next));
  }

  open({ page }) {
    this.#page = Math.max(1, Math.trunc(Number(page)) || 1);
  }

  close() {}

  async refresh(signal) {
    const page = this.#page;
    const query = { sort: "claimed", order: "desc", offset: (page - 1) * QUEUES, limit: QUEUES };
    const found = await this.server.console("queues", query, signal);
    const claimed = found.queues.filter((queue) => queue.claimed);
    const notes = [notesOn(found, "queues")];
    const rows = await Promise.all(claimed.map(({ name }) => this.#rows(name, notes, signal)));
    if (signal.aborted) return;
    this.table.show(rows.flat());
    setText(this.note, notes.filter(Boolean).join(" "));
    this.back.hidden = page === 1;
    this.next.hidden = claimed.length < QUEUES;
    this.back.setAttribute("href", address("consumers", "", { page: page - 1 }));
    this.next.setAttribute("href", address("consumers", "", { page: page + 1 }));
  }

  async #rows(queue, notes, signal) {
    const clients = new Map();
    const link = { text: queue, href: address("queues", queue, { tab: "claims" }) };
    for (const { client_id: client = "", messages, age } of await this.#claims(queue, notes, signal)) {
      const sum = clients.get(client) ?? { claims: 0, messages: 0, oldest: 0 };
      clients.set(client, { claims: sum.claims + 1, messages: sum.messages + messages,
        oldest: Math.max(sum.oldest, age) });
    }
    return Array.from(clients, ([client, { claims, messages, oldest }]) => [`${queue} ${client}`, [
      link, client ? shortId(client, "Client-ID") : "–", count(claims), count(messages), duration(oldest)]]);
  }

  async #claims(queue, notes, signal) {
    const found = [];
    let marker = "";
    for (let page = 0; page < PAGES; page += 1) {
      const path = `${pathOf(queue)}/claims?${new URLSearchParams(marker && { marker })}`;
      let answer;
      try {
        answer = await this.server.queues("GET", path, null, signal);
      } catch (error) {
        if (!(error instanceof Refused) || error.isStore) throw error;
        notes.push(`${queue}: ${error.message}`); // its claims may be beyond the rights of a key
        return found;
      }
      found.push(...answer.claims);
      marker = markerOf(answer.links);
      if (!marker) return found;
    }
    notes.push(`${queue} may have more claims than the first ${count(found.length)}.`);
    return found;
  }
}
