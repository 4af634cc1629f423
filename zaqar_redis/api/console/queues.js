// SPDX-License-Identifier: Apache-2.0
// The queues of a project: their depths and rates; and what the list of topics shares with theirs.

import { address, go } from "./address.js";
import { act, field } from "./dialog.js";
import { Tiles, count, duration, make, rate, setText } from "./dom.js";
import { HELP } from "./rates.js";
import { nounOf, pathOf } from "./server.js";
import { Listing, ListingPage } from "./table.js";

const COLUMNS = [
  { title: "Queue", sort: "name" },
  { title: "Free", sort: "free", number: true, help: HELP.free },
  { title: "Claimed", sort: "claimed", number: true },
  { title: "Delayed", sort: "delayed", number: true, help: HELP.delayed },
  { title: "Total", sort: "total", number: true },
  { title: "Oldest", sort: "oldest", number: true, help: HELP.oldest },
  { title: "Posts/s", sort: "posted", number: true },
  { title: "Claims/s", sort: "claimed_rate", number: true, help: HELP.claims },
  { title: "Deletes/s", sort: "deleted", number: true, help: HELP.deletes },
  { title: "Dead letters", sort: "dead_letters", number: true, help: "In its dead-letter queue" },
];

export class Queues extends ListingPage {
  seconds = 2;

  constructor(context) {
    super();
    this.context = context;
    this.listing = new Listing({
      caption: "Queues", columns: COLUMNS, sort: "name", search: "Name contains",
      filters: { not_empty: "Not empty", dead_letters: "Has dead letters" },
      empty: "No queues. A queue is created when a message is posted to it.",
      load: (query, signal) => this.#load(query, signal),
      row: (queue) => [queue.name, [{ text: queue.name, href: address("queues", queue.name) },
        count(queue.free), count(queue.claimed), count(queue.delayed), count(queue.total),
        duration(queue.oldest), rate(queue.posted), rate(queue.claimed_rate), rate(queue.deleted),
        count(queue.dead_letters)]],
    });
    this.tiles = new Tiles({ queues: ["Queues"], messages: ["Messages"],
      posts: ["Posts/s", HELP.posts], claims: ["Claims/s", HELP.claims],
      deletes: ["Deletes/s", HELP.deletes] });
    this.note = make("p", { class: "hint", role: "status" });
    this.element = make("section", { class: "card" },
      make("div", { class: "row" }, make("h2", {}, "Queues"), creator(context, "queues")),
      this.tiles.element, this.listing.element, this.note);
  }

  async #load(query, signal) {
    const found = await this.context.server.console("queues", query, signal);
    const { totals } = found;
    this.tiles.show({ queues: count(totals.queues), messages: count(totals.messages),
      posts: rate(totals.posted), claims: rate(totals.claimed_rate), deletes: rate(totals.deleted) });
    setText(this.note, notesOn(found, "queues"));
    return { items: found.queues, matching: found.matching, total: found.total };
  }
}

// What a list of queues or topics lacks.
export function notesOn({ complete, unavailable }, kind) {
  const notes = complete ? [] : [`Not all ${kind} have been read yet.`];
  if (unavailable.length) {
    notes.push(`Stores that are away: ${unavailable.join(", ")}. ` +
      `Their ${kind} are shown as they were last read.`);
  }
  return notes.join(" ");
}

// The button that creates a queue or topic.
export function creator({ ask, server, session }, kind) {
  const title = `Create a ${nounOf(kind)}`;
  return act(session, `${kind}:create`, title, async () => {
    let name = "";
    const isDone = await ask({ title, verb: "Create",
      content: [field("Name", { name: "name", required: true, maxlength: "64",
        pattern: "[a-zA-Z0-9_.\\-]+" }, "1 to 64 letters, digits, underscores, hyphens, dots.")],
      work: ({ elements }) => {
        name = elements.name.value;
        return server.queues("PUT", pathOf(name, kind), "{}");
      },
      done: `The ${nounOf(kind)} exists.` });
    if (isDone) go(kind, name, { tab: "settings" });
  });
}
