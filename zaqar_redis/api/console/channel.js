// SPDX-License-Identifier: Apache-2.0
// One channel: a live tail, a box to publish, presence and history.

import { address } from "./address.js";
import { act } from "./dialog.js";
import { Tiles, count, make, rate, setText } from "./dom.js";
import { Feed, publishBox } from "./feed.js";
import { shortId } from "./ids.js";
import { HELP } from "./rates.js";
import { Refused } from "./server.js";
import { Listing, Table, cut } from "./table.js";

const HISTORY_ROWS = 20;
// Error codes of the service for a channel without such a part, and the text for each.
const NOT_AVAILABLE = {
  102: () => "There is no such channel: its namespace is not in [channels] namespaces.",
  107: () => "The name is not one that a channel of this namespace may have.",
  108: (title) => `${title} is off for this channel.`,
};

export class Channel {
  seconds = 2;
  #older = null; // offset of the publication before which the history is shown

  constructor(context, name) {
    this.context = context;
    this.name = name;
    this.feed = new Feed(context.server, name);
    this.figures = new Tiles({ subscribers: ["Subscribers", "On all nodes; this page is one"],
      published: ["Publications/s", HELP.published] });
    this.tiles = new Tiles({ clients: ["Connections"], users: ["Users"] });
    this.presence = new Listing({
      caption: "Connections present", empty: "Nobody.", search: "User or connection contains",
      columns: [{ title: "Connection", sort: "client" }, { title: "User", sort: "user" },
        { title: "Information" }],
      load: (query, signal) => this.#loadPresence(query, signal),
      row: (info) => [info.client, [shortId(info.client, "Connection"), info.user || "–",
        [shown(info, "conn_info"), shown(info, "chan_info")].filter((each) => each !== undefined)
          .join(" ")]],
    });
    this.history = new Table("The last publications",
      [{ title: "Offset" }, { title: "Tags" }, { title: "Data" }], "The history is empty.");
    const page = (text, work) => make("button", { type: "button", class: "quiet", onclick: work }, text);
    this.newest = page("Newest", () => this.#turn(null));
    this.before = page("Older", () => this.#turn(this.oldest));
    this.remove = act(context.session, "channels:history_remove", "Remove history",
      () => this.#removeHistory(), { class: "danger" });
    this.present = section("Presence", this.tiles.element, this.presence.element);
    this.kept = section("History", this.history.element,
      make("div", { class: "row" }, this.newest, this.before, this.remove));
    this.options = make("dl", { class: "facts" });
    this.namespace = section("Options of its namespace", this.options);
    this.element = make("section", { class: "card" },
      make("p", { class: "crumbs" }, make("a", { href: address("channels") }, "Channels")),
      make("h2", {}, name),
      this.figures.element,
      this.feed.element,
      publishBox({ title: "Publish", verb: "Publish", session: context.session,
        rule: "channels:publish", send: (text, form) => this.#publish(text, form) },
      make("label", {}, "Tags, as JSON ", make("input", { name: "tags", spellcheck: "false",
        autocomplete: "off", placeholder: '{"kind": "test"}' })),
      make("label", { class: "check" }, make("input", { name: "delta", type: "checkbox" }),
        " As a delta, where subscribers asked for it")),
      this.present.element, this.kept.element, this.namespace.element);
    for (const { element } of [this.present, this.kept, this.namespace]) {
      element.addEventListener("toggle", context.refresh);
    }
  }

  open(params) {
    this.presence.open(params);
  }

  close() {
    this.feed.close();
    this.presence.close();
  }

  async refresh(signal) {
    await this.#showFigures(signal);
    // Only the parts that are open: a channel may have ten thousand subscribers.
    if (this.present.element.open) await this.present.show(() => this.presence.refresh(signal));
    if (this.namespace.element.open) await this.namespace.show(() => this.#showOptions(signal));
    if (this.kept.element.open) await this.kept.show(() => this.#showHistory(signal));
  }

  async #showFigures(signal) {
    if (this.figures.element.hidden) return;
    const query = { channel: this.name };
    try {
      const { channels: [found] } = await this.context.server.console("channels", query, signal);
      this.figures.show({ subscribers: count(found?.subscribers ?? 0),
        published: rate(found?.published) });
    } catch (error) {
      // The rights of a key may be for the rest of the page only.
      if (!(error instanceof Refused) || error.status !== 403) throw error;
      this.figures.element.hidden = true;
    }
  }

  async #showOptions(signal) {
    const query = { channel: this.name };
    const { options } = await this.context.server.console("namespace", query, signal);
    this.options.replaceChildren(...Object.entries(options).flatMap(([name, value]) =>
      [make("dt", {}, name), make("dd", {}, JSON.stringify(value))]));
  }

  async #loadPresence(query, signal) {
    const { presence } = await this.context.server.api("presence", { channel: this.name }, signal);
    const all = Object.values(presence);
    const users = new Set(all.map((info) => info.user).filter(Boolean));
    this.tiles.show({ clients: count(all.length), users: count(users.size) });
    return cut(all, query, (info) => info, (info) => `${info.client} ${info.user}`);
  }

  async #showHistory(signal) {
    const since = this.#older && { since: { offset: this.#older.offset, epoch: this.#older.epoch } };
    const query = { channel: this.name, limit: HISTORY_ROWS, reverse: true, ...since };
    const { publications, epoch } = await this.context.server.api("history", query, signal);
    this.oldest = publications.length === HISTORY_ROWS
      ? { offset: publications.at(-1).offset, epoch } : null;
    this.newest.disabled = this.#older === null;
    this.before.disabled = this.oldest === null;
    this.history.show(publications.map((publication) => [publication.offset, [
      count(publication.offset), JSON.stringify(publication.tags ?? {}).slice(1, -1),
      shown(publication, "data")]]));
  }

  #turn(position) {
    this.#older = position;
    this.context.refresh();
  }

  #removeHistory() {
    const { server, ask } = this.context;
    return ask({ title: "Remove history", verb: "Remove", isDangerous: true,
      text: `What ${this.name} has published is removed; subscribers that were away cannot recover it.`,
      work: () => server.api("history_remove", { channel: this.name }),
      done: `The history of ${this.name} is removed.` });
  }

  async #publish(text, { elements: { tags, delta } }) {
    const given = tags.value.trim() ? JSON.parse(tags.value) : {};
    const rest = { channel: this.name, tags: given, delta: delta.checked };
    // The text itself: parsed by JavaScript, its numbers would have 53 bits.
    const body = `${JSON.stringify(rest).slice(0, -1)}, "data": ${text}}`;
    const result = await this.context.server.api("publish", body);
    return result.offset ? `Published: offset ${result.offset}` : "Published.";
  }
}

// A payload: JSON, or, if it is not JSON, its bytes in base64.
function shown(of, name) {
  const bytes = of[`b64${name}`];
  return bytes === undefined ? JSON.stringify(of[name]) : `base64: ${bytes}`;
}

// A part that can be unfolded, with a note when the channel has no such thing.
function section(title, ...content) {
  const note = make("p", { class: "hint" });
  const element = make("details", {}, make("summary", {}, title), note, ...content);
  return {
    element,
    async show(work) {
      let why = "";
      try {
        await work();
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        const known = NOT_AVAILABLE[error.status];
        if (!known && error.status !== 400) throw error;
        why = known ? known(title) : error.message;
      }
      setText(note, why);
      for (const each of content) each.hidden = Boolean(why);
    },
  };
}
