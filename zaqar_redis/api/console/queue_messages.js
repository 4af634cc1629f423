// SPDX-License-Identifier: Apache-2.0
// The messages of a queue in any state: looking at them changes nothing; post, delete, move.

import { address, change } from "./address.js";
import { act, field } from "./dialog.js";
import { announce, button, count, duration, make } from "./dom.js";
import { shortId } from "./ids.js";
import { postBox, shortBody, showMessage } from "./messages.js";
import { Mover } from "./mover.js";
import { Search } from "./search.js";
import { pathOf } from "./server.js";
import { MarkerPager, Table } from "./table.js";

const STATES = { "": "Any state", free: "Free", claimed: "Claimed", delayed: "Delayed", expired: "Expired" };
const COLUMNS = [
  { title: "Message" },
  { title: "State" },
  { title: "Age", number: true },
  { title: "TTL", number: true },
  { title: "Claims", number: true, help: "How often it was claimed" },
  { title: "Dead letter from" },
  { title: "Body" },
  { title: "Acts" },
];

export class QueueMessages {
  seconds = 30; // pages may have megabytes, and what somebody reads must not move
  #params = {};
  #messages = new Map(); // by id: buttons in rows stay, so what they act on is looked up here

  constructor(context, name) {
    this.search = new Search(context, name, (messages, marker) => this.#show(messages, marker));
    const forget = () => this.search.forget();
    // After an act what is shown is looked for anew, however long that takes.
    this.context = { ...context,
      refresh() {
        forget();
        context.refresh();
      },
      ask: (asked) => context.ask({ ...asked,
        async work(form) {
          await asked.work(form);
          forget();
        } }) };
    this.name = name;
    const { session } = context;
    this.state = make("select", { onchange: () => this.#choose({ state: this.state.value }) },
      ...Object.entries(STATES).map(([state, title]) => make("option", { value: state }, title)));
    this.contains = make("input", { type: "search", autocomplete: "off", spellcheck: "false",
      onchange: () => this.#choose({ contains: this.contains.value }) });
    this.table = new Table("Messages", COLUMNS, "No messages.");
    this.pager = new MarkerPager((marker) => address("queues", name, { ...this.#params, marker }));
    this.all = make("input", { type: "checkbox", onchange: () => this.#markAll() });
    this.mover = new Mover(this.context, name);
    this.element = make("div", {},
      make("form", { class: "row", role: "search", onsubmit: (event) => event.preventDefault() },
        make("label", {}, "State ", this.state), make("label", {}, "Body contains ", this.contains),
        button("Look again", this.context.refresh)),
      make("div", { class: "row" },
        make("label", { class: "check" }, this.all, " All on this page"),
        act(session, "messages:move", "Move", () => this.#move(false)),
        act(session, "messages:move", "Copy", () => this.#move(true)),
        act(session, "messages:delete_all", "Delete", () => this.#deleteMarked(), { class: "danger" })),
      this.search.element,
      this.table.element,
      this.pager.element,
      this.mover.element,
      postBox(context, pathOf(name), { title: "Post a message", verb: "Post", done: "Posted" }));
  }

  open(params) {
    this.#params = params;
    this.state.value = params.state ?? "";
    if (document.activeElement !== this.contains) this.contains.value = params.contains ?? "";
  }

  close() {
    this.mover.close();
    this.search.close();
  }

  async refresh() {
    const { state, contains, marker } = this.#params;
    await this.search.look({ state, contains, marker });
  }

  #show(messages, next) {
    this.#messages = new Map(messages.map((message) => [message.id, message]));
    this.table.show(messages.map((message) => [message.id, this.#cells(message)]));
    this.table.element.hidden = !messages.length && next !== ""; // there may be some
    this.pager.show(this.#params.marker, next, messages.length);
  }

  #cells(message) {
    const { id } = message;
    const mark = make("span", { class: "check" },
      make("input", { type: "checkbox", name: "marked", value: id, "aria-label": id }),
      shortId(id, "Message"));
    const { session } = this.context;
    return [mark, stateOf(message, shortId), duration(message.age), duration(message.ttl),
      count(message.claim_count), message.dead_letter_from ?? "",
      shortBody(message),
      make("div", { class: "acts" },
        button("Show", () => this.#showWhole(id)),
        act(session, "messages:delete", "Delete", () => this.#delete(id)))];
  }

  #marked() {
    return Array.from(this.table.element.querySelectorAll("[name=marked]:checked"), ({ value }) => value);
  }

  #markAll() {
    for (const box of this.table.element.querySelectorAll("[name=marked]")) box.checked = this.all.checked;
  }

  #unmark() {
    this.all.checked = false;
    this.#markAll();
  }

  #choose(changes) {
    change({ marker: null, ...changes });
  }

  #showWhole(id) {
    const message = this.#messages.get(id);
    showMessage(message, factsOf(message));
  }

  #delete(id) {
    const { claim } = this.#messages.get(id);
    const { server, ask } = this.context;
    const holder = claim ? `?${new URLSearchParams({ claim_id: claim })}` : "";
    return ask({ title: "Delete the message", verb: "Delete", isDangerous: true,
      text: claim ? `${id} is claimed: whoever holds it may be working on it.` : id,
      work: () => server.queues("DELETE", `${pathOf(this.name)}/messages/${id}${holder}`),
      done: "The message is deleted." });
  }

  async #deleteMarked() {
    const ids = this.#marked();
    if (!ids.length) {
      announce("Mark messages first.", { isProblem: true });
      return;
    }
    const { server, ask } = this.context;
    const query = new URLSearchParams({ ids: ids.join(",") });
    const isDone = await ask({ title: `Delete ${count(ids.length)} messages`, verb: "Delete",
      isDangerous: true, text: "Claimed ones are deleted too.",
      work: () => server.queues("DELETE", `${pathOf(this.name)}/messages?${query}`),
      done: `${count(ids.length)} messages are deleted.` });
    if (isDone) this.#unmark();
  }

  async #move(isCopy) {
    const ids = this.#marked();
    if (!ids.length) {
      announce("Mark messages first.", { isProblem: true });
      return;
    }
    const verb = isCopy ? "Copy" : "Move";
    const { server, ask } = this.context;
    let result;
    const isDone = await ask({ title: `${verb} ${count(ids.length)} messages`, verb,
      text: isCopy ? "They stay here, too." : "Claimed ones are left.",
      content: [field("To the queue", { name: "queue", required: true, maxlength: "64" })],
      work: async ({ elements }) => {
        result = await server.move(this.name, { queue: elements.queue.value, ids, copy: isCopy });
      },
      done: "Done." });
    if (!isDone) return;
    this.#unmark();
    const left = result.left.length ? ` Left, claimed or gone: ${count(result.left.length)}.` : "";
    announce(`${isCopy ? "Copied" : "Moved"}: ${count(result.moved.length)}.${left}`);
  }
}

// shown(id, kind): an id, as a text or an element.
function stateOf({ state, claim, claim_client_id: client, until }, shown) {
  const end = until ? new Date(until).toLocaleString("en-GB") : "";
  if (state !== "claimed") return state === "delayed" ? `delayed until ${end}` : state;
  const holder = client ? ["client ", shown(client, "Client-ID")] : ["claim ", shown(claim, "Claim")];
  return make("span", {}, "claimed by ", ...holder, ` until ${end}`);
}

function factsOf(message) {
  return { State: stateOf(message, (id) => id), Claim: message.claim ?? "–", Age: duration(message.age),
    TTL: duration(message.ttl), Claims: count(message.claim_count),
    "Dead letter from": message.dead_letter_from ?? "–" };
}
