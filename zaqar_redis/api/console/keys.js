// SPDX-License-Identifier: Apache-2.0
// The access keys of the project. A secret is shown once, when it is made.

import { address } from "./address.js";
import { act, field, reason, show } from "./dialog.js";
import { facts, make, moment } from "./dom.js";
import { shortId } from "./ids.js";
import { Listing, cut } from "./table.js";

const COLUMNS = [
  { title: "Key", sort: "id" },
  { title: "User", sort: "user" },
  { title: "Role" },
  { title: "Rights", help: "They restrict what the role allows" },
  { title: "Created", sort: "created" },
  { title: "Expires", sort: "expires" },
  { title: "Last used", sort: "last_used", help: "Late by a minute at most" },
  { title: "State", sort: "disabled" },
  { title: "Acts" },
];
const ROLES = ["reader", "member", "admin"];

export class Keys {
  seconds = 5;

  constructor(context) {
    this.context = context;
    const { session } = context;
    this.listing = new Listing({
      caption: "Access keys", columns: COLUMNS, sort: "user", search: "User or id contains",
      empty: "The project has no access keys.",
      load: async (query, signal) => {
        const { keys } = await context.server.console("keys", {}, signal);
        return cut(keys, query, (key) => ({ ...key, disabled: Number(key.disabled) }),
          (key) => `${key.user} ${key.id}`);
      },
      row: (key) => this.#row(key),
    });
    this.mayNot = session.may.includes("keys:get_all") ? "" : reason(session, "keys:get_all");
    this.element = make("section", { class: "card" },
      make("p", { class: "crumbs" }, make("a", { href: address("access") }, "Access")),
      make("div", { class: "row" }, make("h2", {}, `Access keys of ${session.project}`),
        act(session, "keys:create", "Create a key", () => this.#create())),
      ...(this.mayNot ? [make("p", {}, this.mayNot)] : [this.listing.element]));
  }

  open(params) {
    this.listing.open(params);
  }

  close() {
    this.listing.close();
  }

  async refresh(signal) {
    if (!this.mayNot) await this.listing.refresh(signal);
  }

  #row({ id, user, roles, rights, created, expires, disabled, last_used: used }) {
    const { session } = this.context;
    return [id, [shortId(id, "Key"), user, roles.join(", "),
      rights.map(({ queues, actions }) => `${queues}:${actions.join(",")}`).join(" ") || "–",
      moment(created), expires ? moment(expires) : "never", used ? moment(used) : "never",
      disabled ? "disabled" : "in use",
      make("div", { class: "acts" },
        disabled ? act(session, "keys:update", "Enable", () => this.#enable(id))
          : act(session, "keys:update", "Disable", () => this.#disable(id)),
        act(session, "keys:rotate", "New secret", () => this.#rotate(id)),
        act(session, "keys:delete", "Delete", () => this.#delete(id)))]];
  }

  #user(id) {
    return this.listing.items.get(id).user;
  }

  #send(method, path, body) {
    return this.context.server.consoleAct(method, path, body);
  }

  async #create() {
    let made;
    const role = make("select", { name: "role", id: "key-role" },
      ...ROLES.map((name) => make("option", { value: name, selected: name === "member" }, name)));
    const isDone = await this.context.ask({ title: "Create an access key", verb: "Create", content: [
      field("User", { name: "user", required: true, maxlength: "255" },
        "The person or program that uses it."),
      make("div", { class: "field" }, make("label", { for: "key-role" }, "Role"), role),
      field("Days until it expires", { name: "days", type: "number", min: "1", max: "3650" },
        "Empty: never."),
    ],
    work: async ({ elements: { user, days } }) => {
      made = await this.#send("POST", "keys", { user: user.value, role: role.value,
        days: days.value ? Number(days.value) : null });
    },
    done: "The key is created." });
    if (isDone) showSecret(made);
  }

  async #rotate(id) {
    let made;
    const isDone = await this.context.ask({ title: `A new secret for ${this.#user(id)}`,
      verb: "Make it", isDangerous: true, text: "The old secret is refused after five seconds.",
      work: async () => { made = await this.#send("POST", `keys/${id}/rotate`); },
      done: "The key has a new secret." });
    if (isDone) showSecret(made);
  }

  #enable(id) {
    return this.context.act(() => this.#send("PATCH", `keys/${id}`, { disabled: false }),
      "The key can be used again.");
  }

  #disable(id) {
    return this.context.ask({ title: `Disable the key of ${this.#user(id)}`, verb: "Disable",
      isDangerous: true, text: "Services refuse it after five seconds. It can be enabled again.",
      work: () => this.#send("PATCH", `keys/${id}`, { disabled: true }), done: "The key is disabled." });
  }

  #delete(id) {
    return this.context.ask({ title: `Delete the key of ${this.#user(id)}`, verb: "Delete",
      isDangerous: true, text: "Services refuse it after five seconds, for good.",
      work: () => this.#send("DELETE", `keys/${id}`), done: "The key is deleted." });
  }
}

function showSecret({ id, secret, token }) {
  const shown = Object.entries({ Id: id, Secret: secret, Token: token });
  show("Save the secret now", make("p", {}, "It is shown this once. Clients send the token in " +
    "Authorization: Bearer, or id and secret as user and password."),
  facts(shown.map(([name, text]) => [name, make("code", {}, text)])));
}
