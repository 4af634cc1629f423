// SPDX-License-Identifier: Apache-2.0
// Messages of queues and topics: the box that posts them, and one that is shown as a whole.

import { show } from "./dialog.js";
import { facts, instant, make, time } from "./dom.js";
import { beginning, publishBox } from "./feed.js";

// Characters of a body: in a table, and when it is shown.
const SHORT = 200;
const WHOLE = 200_000;

// What only some messages have: names, and how the values are told.
const SOME = { group: ["Group"], priority: ["Priority"], dedup_id: ["Deduplication id"],
  first_claimed: ["First claimed", time], reason: ["Reason"], content_type: ["Content type"],
  body_encoding: ["Body", (encoding) => `bytes, shown in ${encoding}`] };
// How inputs are read, by type; others as they are.
const READ = { number: Number, "datetime-local": instant };

export const shortBody = ({ body }) => make("code", {}, beginning(JSON.stringify(body), SHORT));

// Of a post, beside its body and attributes: labels, and their inputs.
const FIELDS = [
  ["TTL in seconds", { name: "ttl", type: "number", min: "60" }],
  ["Delay in seconds", { name: "delay", type: "number", min: "0" }],
  ["Deliver at", { name: "deliver_at", type: "datetime-local", title: "In the place of a delay, in your time zone" }],
  ["Group", { name: "group" }],
  ["Priority", { name: "priority", type: "number", min: "0", max: "31" }],
  ["Deduplication id", { name: "dedup_id" }],
];

// path: of the queue or topic, below /v2. done: what is said of a message, before its id.
export function postBox({ server, session, refresh }, path, { title, verb, done }) {
  const send = async (text, { elements }) => {
    const { attributes } = elements;
    // What is left empty is as the queue or the service says.
    const given = FIELDS.map(([, { name }]) => elements[name]).filter(({ value }) => value !== "")
      .map(({ name, type, value }) => `, "${name}": ${JSON.stringify(READ[type]?.(value) ?? value)}`);
    // The texts themselves: parsed by JavaScript, their numbers would have 53 bits.
    if (attributes.value.trim()) {
      JSON.parse(attributes.value);
      given.push(`, "attributes": ${attributes.value}`);
    }
    const body = `{"messages": [{"body": ${text}${given.join("")}}]}`;
    const posted = await server.queues("POST", `${path}/messages`, body);
    refresh();
    const id = posted.resources[0].split("/").at(-1);
    return posted.duplicates ? `Not posted, as it is a duplicate of ${id}` : `${done}: ${id}`;
  };
  return publishBox({ title, verb, session, rule: "messages:create", send },
    ...FIELDS.map(([label, attributes]) => make("label", {}, `${label} `,
      make("input", { autocomplete: "off", spellcheck: "false", ...attributes }))),
    make("label", {}, "Attributes, as JSON ", make("input", { name: "attributes",
      spellcheck: "false", autocomplete: "off", placeholder: '{"kind": "order"}' })));
}

// known: facts about it, by name.
export function showMessage(message, known) {
  const attributes = Object.entries(message.attributes ?? {})
    .map(([name, value]) => [name, JSON.stringify(value)]);
  const some = Object.entries(SOME).filter(([name]) => name in message)
    .map(([name, [title, told = String]]) => [title, told(message[name])]);
  show(message.id, facts([...Object.entries(known), ...some]),
    ...(attributes.length ? [make("h3", {}, "Attributes"), facts(attributes)] : []),
    make("pre", { tabindex: "0", "aria-label": "Body" },
      beginning(JSON.stringify(message.body, null, 2), WHOLE)));
}
