// SPDX-License-Identifier: Apache-2.0
// Messages of queues and topics: the box that posts them, and one that is shown as a whole.

import { show } from "./dialog.js";
import { facts, make } from "./dom.js";
import { beginning, publishBox } from "./feed.js";

// Characters of a body: in a table, and when it is shown.
const SHORT = 200;
const WHOLE = 200_000;

export const shortBody = ({ body }) => make("code", {}, beginning(JSON.stringify(body), SHORT));

// path: of the queue or topic, below /v2. done: what is said of a message, before its id.
export function postBox({ server, session, refresh }, path, { title, verb, done }) {
  const send = async (text, { elements: { ttl, delay, attributes } }) => {
    // What is left empty is as the queue or the service says.
    const given = [ttl, delay].filter(({ value }) => value !== "")
      .map(({ name, value }) => `, "${name}": ${Number(value)}`);
    // The texts themselves: parsed by JavaScript, their numbers would have 53 bits.
    if (attributes.value.trim()) {
      JSON.parse(attributes.value);
      given.push(`, "attributes": ${attributes.value}`);
    }
    const body = `{"messages": [{"body": ${text}${given.join("")}}]}`;
    const posted = await server.queues("POST", `${path}/messages`, body);
    refresh();
    return `${done}: ${posted.resources[0].split("/").at(-1)}`;
  };
  return publishBox({ title, verb, session, rule: "messages:create", send },
    number("TTL in seconds", { name: "ttl", min: "60" }),
    number("Delay in seconds", { name: "delay", min: "0" }),
    make("label", {}, "Attributes, as JSON ", make("input", { name: "attributes",
      spellcheck: "false", autocomplete: "off", placeholder: '{"kind": "order"}' })));
}

const number = (title, attributes) =>
  make("label", {}, `${title} `, make("input", { type: "number", ...attributes }));

// known: facts about it, by name.
export function showMessage(message, known) {
  const attributes = Object.entries(message.attributes ?? {})
    .map(([name, value]) => [name, JSON.stringify(value)]);
  show(message.id, facts(Object.entries(known)),
    ...(attributes.length ? [make("h3", {}, "Attributes"), facts(attributes)] : []),
    make("pre", { tabindex: "0", "aria-label": "Body" },
      beginning(JSON.stringify(message.body, null, 2), WHOLE)));
}
