// SPDX-License-Identifier: Apache-2.0
// The claims of a queue that hold messages.

import { address } from "./address.js";
import { act } from "./dialog.js";
import { count, duration, make } from "./dom.js";
import { shortId } from "./ids.js";
import { markerOf, pathOf } from "./server.js";
import { MarkerPager, Table } from "./table.js";

const COLUMNS = [
  { title: "Claim" },
  { title: "Client-ID", help: "Of the request that created it" },
  { title: "Messages", number: true },
  { title: "Age", number: true, help: "Since it was created or renewed" },
  { title: "Ends in", number: true },
  { title: "Acts" },
];

export class QueueClaims {
  seconds = 3;
  #params = {};

  constructor(context, name) {
    this.context = context;
    this.name = name;
    this.table = new Table("Claims", COLUMNS, "No claim holds a message of this queue.");
    this.pager = new MarkerPager((marker) => address("queues", name, { ...this.#params, marker }));
    this.element = make("div", {}, this.table.element, this.pager.element);
  }

  open(params) {
    this.#params = params;
  }

  close() {}

  async refresh(signal) {
    const { marker = "" } = this.#params;
    const path = `${pathOf(this.name)}/claims?${new URLSearchParams(marker && { marker })}`;
    const { claims, links } = await this.context.server.queues("GET", path, null, signal);
    this.table.show(claims.map(({ id, client_id: client, messages, age, ttl }) => [id, [
      shortId(id, "Claim"), client ? shortId(client, "Client-ID") : "–", count(messages), duration(age), duration(Math.max(0, ttl - age)),
      act(this.context.session, "claims:delete", "Release", () => this.#release(id))]]));
    this.pager.show(marker, markerOf(links), claims.length);
  }

  #release(id) {
    const { server, ask } = this.context;
    return ask({ title: "Release the claim", verb: "Release", isDangerous: true,
      text: "Its messages can be claimed again at once, while its client may still work on them.",
      work: () => server.queues("DELETE", `${pathOf(this.name)}/claims/${id}`),
      done: "The claim is released." });
  }
}
