// SPDX-License-Identifier: Apache-2.0
// The metadata of a queue or topic, by a form that knows its attributes; purging and deleting.

import { go } from "./address.js";
import { act, field, reason } from "./dialog.js";
import { count, make, setText } from "./dom.js";
import { nounOf, pathOf } from "./server.js";

const PATCH = "application/openstack-messaging-v2.0-json-patch";

export class QueueSettings {
  seconds = 3; // what is being edited is not overwritten
  #attributes = null; // of the service's description: {name: schema}
  #stored = null;

  constructor(context, name, kind) {
    this.context = context;
    this.name = name;
    this.kind = kind;
    this.path = pathOf(name, kind);
    const { session } = context;
    const may = session.may.includes(`${kind}:update`);
    this.fields = make("div", { class: "fields" });
    this.other = make("textarea", { name: "other", rows: "6", spellcheck: "false" });
    this.status = make("p", { class: "hint", role: "status" },
      may ? "" : reason(session, `${kind}:update`));
    this.form = make("form", { class: "settings", onsubmit: (event) => this.#submit(event),
      oninput: () => this.#say("") },
      make("h3", {}, "Metadata"),
      make("fieldset", { disabled: !may }, this.fields,
        make("label", {}, "Other attributes, as a JSON object", this.other),
        make("div", { class: "row" }, make("button", {}, "Save"))),
      this.status);
    this.element = make("div", {}, this.form,
      make("section", { class: "danger-zone" }, make("h3", {}, "Empty or delete"),
        make("div", { class: "row" },
          act(session, `${kind}:purge`, "Purge", () => this.#purge(), { class: "danger" }),
          act(session, `${kind}:delete`, `Delete the ${nounOf(kind)}`, () => this.#delete(),
            { class: "danger" }))));
  }

  open() {}

  close() {}

  async refresh(signal) {
    if (this.#stored) return;
    const query = { topics: this.kind === "topics" };
    this.#attributes ??= Object.fromEntries(Object.entries(
      await this.context.server.console("attributes", query, signal)).filter(hasField));
    const stored = await this.context.server.queues("GET", this.path, null, signal);
    this.#show(stored);
  }

  #show(stored) {
    this.#stored = stored;
    this.fields.replaceChildren(...Object.entries(this.#attributes).map(([name, schema]) =>
      attribute(name, schema, stored[name])));
    const rest = Object.entries(stored).filter(([name]) => !Object.hasOwn(this.#attributes, name));
    this.other.value = JSON.stringify(Object.fromEntries(rest), null, 2);
  }

  async #submit(event) {
    event.preventDefault();
    this.#say("");
    try {
      const changes = this.#changes(JSON.parse(this.other.value || "{}"));
      if (changes.length) {
        const { server } = this.context;
        this.#show(await server.queues("PATCH", this.path, JSON.stringify(changes), null,
          { type: PATCH }));
      }
      this.#say(changes.length ? "Saved." : "Nothing was changed.");
    } catch (error) {
      this.#say(error instanceof SyntaxError
        ? `The other attributes are no JSON: ${error.message}` : error.message, true);
    }
  }

  // What is said is of the form as it stands: what is edited then is not saved.
  #say(text, isProblem = false) {
    this.status.classList.toggle("problem", isProblem);
    setText(this.status, text);
  }

  // Operations of a JSON patch that make what is stored what the form says.
  #changes(other) {
    if (other === null || typeof other !== "object" || Array.isArray(other)) {
      throw new Error("The other attributes must be a JSON object.");
    }
    const wanted = { ...other };
    for (const [name, schema] of Object.entries(this.#attributes)) {
      const value = valueOf(this.form.elements[name], schema);
      const isUntouched = value === false && !(name in this.#stored);
      if (value !== undefined && !isUntouched) wanted[name] = value;
    }
    const at = (name) => `/metadata/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    const is = (name, value) => JSON.stringify(this.#stored[name]) === JSON.stringify(value);
    const set = Object.entries(wanted).filter(([name, value]) => !is(name, value))
      .map(([name, value]) => ({ op: "add", path: at(name), value }));
    const gone = Object.entries(this.#stored)
      .filter(([name, value]) => value !== null && !Object.hasOwn(wanted, name))
      .map(([name]) => ({ op: "remove", path: at(name) }));
    return [...set, ...gone];
  }

  #purge() {
    const { server, ask } = this.context;
    return ask({ title: `Purge ${this.name}`, verb: "Purge", isDangerous: true,
      text: `All messages are deleted, whatever their state. The ${nounOf(this.kind)}, its metadata ` +
        "and its subscriptions stay.",
      work: () => server.queues("POST", `${this.path}/purge`,
        JSON.stringify({ resource_types: ["messages"] })),
      done: `${this.name} is empty.` });
  }

  async #delete() {
    const { server, ask } = this.context;
    const isDone = await ask({ title: `Delete ${this.name}`, verb: "Delete", isDangerous: true,
      typed: this.name,
      text: `The ${nounOf(this.kind)} is deleted, with all its messages and subscriptions.`,
      work: () => server.queues("DELETE", this.path), done: `${this.name} is deleted.` });
    if (isDone) go(this.kind);
  }
}

// One kind of value fits into a field; others are JSON, among the other attributes.
const hasField = ([, schema]) =>
  !schema.type.includes("object") && schema.type.filter((each) => each !== "null").length === 1;
const isBoolean = (schema) => schema.type.includes("boolean");
const isInteger = (schema) => schema.type.includes("integer");

// Limits beyond what anybody means are not worth telling.
const told = (value) => value !== undefined && Math.abs(value) < Number.MAX_SAFE_INTEGER;

function attribute(name, schema, value) {
  const notes = [schema.description.replaceAll("`", "")];
  if (told(schema.minimum)) {
    notes.push(told(schema.maximum) ? `${count(schema.minimum)} to ${count(schema.maximum)}.`
      : `At least ${count(schema.minimum)}.`);
  }
  if (schema.default !== undefined) notes.push(`Default: ${schema.default}.`);
  if (isBoolean(schema)) {
    return field(name, { name, type: "checkbox", checked: Boolean(value) }, notes.join(" "));
  }
  if (schema.enum) {
    const values = schema.enum.filter((each) => each !== null).map((each) => [each, each]);
    const choices = Object.fromEntries([["", "not set"], ...values]);
    return field(name, { name, choices, value: value ?? "" }, notes.join(" "));
  }
  const limits = isInteger(schema) ? { type: "number", min: told(schema.minimum) ? schema.minimum : null,
    max: told(schema.maximum) ? schema.maximum : null }
    : { maxlength: schema.maxLength, pattern: schema.pattern };
  return field(name, { name, placeholder: "not set", value: value ?? "", ...limits }, notes.join(" "));
}

// What a field says; undefined: the attribute is not set.
function valueOf(input, schema) {
  if (isBoolean(schema)) return input.checked;
  if (input.value === "") return undefined;
  return isInteger(schema) ? Number(input.value) : input.value;
}
