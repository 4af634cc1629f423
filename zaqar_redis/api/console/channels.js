// SPDX-License-Identifier: Apache-2.0
// Channels with subscribers; for the chosen one a live tail, a box to publish, presence and
// history.

import { Table, Tiles, count, make, setText } from "./dom.js";
import { Feed, publishBox } from "./feed.js";
import { List } from "./list.js";
import { Refused } from "./server.js";

// Rows: of the channels with the most subscribers and of presence, and of the history.
const ROWS = 100;
const HISTORY_ROWS = 20;
// Error codes of the service for a channel without such a part, and the text for each.
const NOT_AVAILABLE = {
  102: () => "There is no such channel: its namespace is not in [channels] namespaces.",
  108: (title) => `${title} is off for this channel.`,
};

export class Channels extends List {
  constructor(context) {
    super(context, "channels", ChannelDetails);
    this.table = new Table("Channels with subscribers",
      [{ title: "Channel" }, { title: "Subscribers", number: true }],
      "Nobody is subscribed to anything.");
    this.more = make("p", { class: "hint" });
    this.pattern = make("input", { type: "search", placeholder: "news:*", autocomplete: "off",
      spellcheck: "false", oninput: context.refresh });
    this.name = make("input", { name: "name", autocomplete: "off", spellcheck: "false", required: true });
    this.element = this.split(
      make("section", { class: "card" }, make("h2", {}, "Channels"),
        make("form", { class: "row", onsubmit: (event) => event.preventDefault() },
          make("label", {}, "Pattern ", this.pattern)),
        make("form", { class: "row", onsubmit: (event) => this.#go(event) },
          make("label", {}, "Any channel ", this.name), make("button", {}, "Open")),
        this.table.element, this.more));
  }

  async refresh(signal) {
    const query = { pattern: this.pattern.value };
    const { channels } = await this.context.server.api("channels", query, signal);
    const found = Object.entries(channels).sort(
      ([one, { num_clients: a }], [other, { num_clients: b }]) => b - a || (one < other ? -1 : 1));
    const chosen = this.chosen;
    this.table.show(found.slice(0, ROWS).map(([name, { num_clients }]) =>
      [name, [this.link(name), count(num_clients)]]));
    const left = found.length - ROWS;
    setText(this.more, left > 0 ? `and ${count(left)} more: a pattern finds them` : "");
    if (chosen) await chosen.refresh(signal);
  }

  #go(event) {
    event.preventDefault();
    location.hash = this.address(this.name.value);
  }
}

class ChannelDetails {
  constructor(context, name) {
    this.server = context.server;
    this.name = name;
    this.feed = new Feed(this.server, name);
    this.tiles = new Tiles({ clients: ["Connections"], users: ["Users"] });
    this.presence = new Table("Connections present",
      [{ title: "Connection" }, { title: "User" }, { title: "Information" }], "Nobody.");
    this.history = new Table("The last publications",
      [{ title: "Offset" }, { title: "Data" }], "The history is empty.");
    this.present = section("Presence", this.tiles.element, this.presence.element);
    this.kept = section("History", this.history.element);
    this.element = make("section", {}, make("h2", {}, name),
      publishBox("Publish", "Publish", context.session.may_publish, (text) => this.#publish(text)),
      this.feed.element, this.present.element, this.kept.element);
    for (const { element } of [this.present, this.kept]) {
      element.addEventListener("toggle", context.refresh);
    }
  }

  close() {
    this.feed.close();
  }

  async refresh(signal) {
    // Only the parts that are open: a channel may have ten thousand subscribers.
    if (this.present.element.open) {
      await this.present.show(async () => this.#showPresence(signal));
    }
    if (this.kept.element.open) await this.kept.show(async () => this.#showHistory(signal));
  }

  async #showPresence(signal) {
    const { presence } = await this.server.api("presence", { channel: this.name }, signal);
    const all = Object.values(presence);
    const users = new Set(all.map((info) => info.user).filter(Boolean));
    this.tiles.show({ clients: count(all.length), users: count(users.size) });
    this.presence.show(all.slice(0, ROWS).map((info) => [info.client, [info.client, info.user || "–",
      [shown(info, "conn_info"), shown(info, "chan_info")].filter((each) => each !== undefined)
        .join(" ")]]));
  }

  async #showHistory(signal) {
    const query = { channel: this.name, limit: HISTORY_ROWS, reverse: true };
    const { publications } = await this.server.api("history", query, signal);
    this.history.show(publications.map((publication) =>
      [publication.offset, [count(publication.offset), shown(publication, "data")]]));
  }

  async #publish(text) {
    const channel = JSON.stringify(this.name);
    const result = await this.server.api("publish", `{"channel": ${channel}, "data": ${text}}`);
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
        if (!(error instanceof Refused && error.status in NOT_AVAILABLE)) throw error;
        why = NOT_AVAILABLE[error.status](title);
      }
      setText(note, why);
      for (const each of content) each.hidden = Boolean(why);
    },
  };
}
