// SPDX-License-Identifier: Apache-2.0
// The subscriptions of a queue or topic, and how deliveries to each go.

import { address } from "./address.js";
import { act, field, show } from "./dialog.js";
import { announce, button, count, duration, facts, make, setText } from "./dom.js";
import { beginning } from "./feed.js";
import { markerOf, nounOf, pathOf } from "./server.js";
import { MarkerPager, Table } from "./table.js";

const COLUMNS = [
  { title: "Subscriber" },
  { title: "Confirmed", help: "Matters where the service asks subscribers to confirm" },
  { title: "State" },
  { title: "Filter", help: "Whether it wants some of the messages only" },
  { title: "Age", number: true, help: "Since its TTL was set" },
  { title: "TTL", number: true },
  { title: "Delivered", number: true },
  { title: "Failed", number: true, help: "Messages that were given up" },
  { title: "Pending", number: true, help: "Messages that wait, or are tried again" },
  { title: "Last failure" },
  { title: "Acts" },
];
// Characters of an error in the table.
const SHORT = 120;
// Of a test: an attempt may take 60 s, and others may be before it.
const TEST_TIMEOUT_MS = 150_000;

// Subscribers inside the service, which need no test.
const OWN = /^(queue|topic|channel):/;

const yesOrNo = (value) => (value ? "yes" : "no");
function stateOf({ paused, deliveries }) {
  if (paused) return "paused";
  return deliveries.failing_since ? "fails" : "delivers";
}

export class Subscriptions {
  seconds = 3;
  #params = {};
  #found = new Map(); // by id: buttons in rows stay, so what they act on is looked up here

  constructor(context, name, kind) {
    this.context = context;
    this.kind = kind;
    this.path = `${pathOf(name, kind)}/subscriptions`;
    this.table = new Table("Subscriptions", COLUMNS, "No subscriptions.");
    this.pager = new MarkerPager((marker) => address(kind, name, { ...this.#params, marker }));
    this.element = make("div", {},
      make("div", { class: "row" },
        act(context.session, "subscription:create", "Subscribe", () => this.#create())),
      this.table.element, this.pager.element);
  }

  open(params) {
    this.#params = params;
  }

  close() {}

  async refresh(signal) {
    const { marker = "" } = this.#params;
    const query = new URLSearchParams({ detailed: true, ...(marker && { marker }) });
    const { subscriptions, links } = await this.#send("GET", `?${query}`, null, signal);
    this.#found = new Map(subscriptions.map((each) => [each.id, each]));
    this.table.show(subscriptions.map((each) => [each.id, this.#cells(each)]));
    this.pager.show(marker, markerOf(links), subscriptions.length);
  }

  #send(method, path, body = null, signal = null, more = {}) {
    const text = body && JSON.stringify(body);
    return this.context.server.queues(method, `${this.path}${path}`, text, signal, more);
  }

  #cells(subscription) {
    const { id, subscriber, confirmed, paused, options, age, ttl, deliveries } = subscription;
    const { session } = this.context;
    return [subscriber, yesOrNo(confirmed), stateOf(subscription),
      yesOrNo(options.filter), duration(age), duration(ttl), count(deliveries.delivered),
      count(deliveries.failed), count(deliveries.pending),
      beginning(failureOf(deliveries), SHORT),
      make("div", { class: "acts many" },
        button("Show", () => showSubscription(this.#found.get(id))),
        paused ? act(session, "subscription:update", "Resume", () => this.#pause(id, false))
          : act(session, "subscription:update", "Pause", () => this.#pause(id, true)),
        ...(OWN.test(subscriber) ? []
          : [act(session, "subscription:test", "Test", () => this.#test(id))]),
        act(session, "subscription:replay", "Replay", () => this.#replay(id)),
        act(session, "subscription:delete", "Delete", () => this.#delete(id)))];
  }

  #pause(id, paused) {
    return this.context.act(() => this.#send("PATCH", `/${id}`, { paused }),
      paused ? "The subscription is paused: its messages wait." : "The subscription goes on.");
  }

  async #test(id) {
    let result;
    const isDone = await this.context.ask({ title: "Send a test message", verb: "Send",
      text: `${this.#found.get(id).subscriber} gets it once, now, whatever waits. The answer is ` +
        "shown when it is there.",
      work: async () => {
        const more = { timeout: TEST_TIMEOUT_MS };
        result = await this.#send("POST", `/${id}/test`, null, null, more);
      },
      done: "The test has ended." });
    if (isDone) showResult(result);
  }

  async #replay(id) {
    const history = make("input", { type: "checkbox", name: "history" });
    const status = make("p", { class: "hint", role: "status" });
    let replayed = 0;
    const isDone = await this.context.ask({ title: "Replay", verb: "Replay",
      text: `${this.#found.get(id).subscriber} gets what was given up once more, as far as it lives.`,
      content: this.kind !== "topics" ? []
        : [make("label", { class: "check" }, history, " The history of the topic instead"), status],
      work: async (form) => {
        replayed = 0;
        // Until all is replayed, or the dialog is closed.
        for (let after = ""; after !== undefined && form.isConnected;) {
          const asked = history.checked ? { history: true, ...(after && { after }) } : {};
          const result = await this.#send("POST", `/${id}/replay`, asked);
          replayed += result.replayed;
          after = result.marker;
          setText(status, `${count(replayed)} so far.`);
        }
      },
      done: "Done." });
    if (isDone || replayed) announce(`Messages that are delivered once more: ${count(replayed)}.`);
  }

  #delete(id) {
    return this.context.ask({ title: "Delete the subscription", verb: "Delete", isDangerous: true,
      text: `${this.#found.get(id).subscriber} gets nothing any more, also of what waits for it.`,
      work: () => this.#send("DELETE", `/${id}`), done: "The subscription is deleted." });
  }

  async #create() {
    const options = make("textarea", { name: "options", rows: "5", spellcheck: "false",
      placeholder: '{"filter": {"attributes": {"kind": ["order"]}}}' });
    let made;
    const isDone = await this.context.ask({ title: `Subscribe to the ${nounOf(this.kind)}`,
      verb: "Subscribe", content: [
        field("Subscriber", { name: "subscriber", required: true },
          "A URI: https://…, mailto:…, queue:…, topic:…, channel:…"),
        field("TTL in seconds", { name: "ttl", type: "number", min: "1" },
          "Empty: as the service says."),
        make("label", {}, "Options, as a JSON object", options),
      ],
      work: async ({ elements: { subscriber, ttl } }) => {
        made = await this.#post(subscriber.value, ttl.value, options.value.trim() || "{}");
      },
      done: "The subscription is created." });
    if (isDone && made.secret) showSecret(made);
  }

  // options: JSON text; parsed by JavaScript, its numbers would have 53 bits.
  #post(subscriber, ttl, options) {
    try {
      JSON.parse(options);
    } catch (error) {
      throw new Error(`The options are no JSON: ${error.message}`);
    }
    const rest = JSON.stringify({ subscriber, ...(ttl && { ttl: Number(ttl) }) });
    const body = `${rest.slice(0, -1)}, "options": ${options}}`;
    return this.context.server.queues("POST", this.path, body);
  }
}

const timeOf = (text) => new Date(text).toLocaleString("en-GB");

function failureOf({ last_failure: failure }) {
  return failure ? `${timeOf(failure.at)}: ${failure.error}` : "";
}

function showSubscription(subscription) {
  const { id, subscriber, confirmed, options, age, ttl, deliveries } = subscription;
  const { last_failure: failure } = deliveries;
  show(subscriber, facts([["Id", id], ["Confirmed", yesOrNo(confirmed)],
    ["State", stateOf(subscription)], ["Age", duration(age)], ["TTL", duration(ttl)],
    ["Delivered", count(deliveries.delivered)], ["Failed", count(deliveries.failed)],
    ["Pending", count(deliveries.pending)], ["Retried", count(deliveries.retried)],
    ["Fails since", deliveries.failing_since ? timeOf(deliveries.failing_since) : "–"],
    ["Last failure", failureOf(deliveries) || "–"], ["Its status", failure?.status || "–"]]),
  make("h3", {}, "Options"),
  make("pre", { tabindex: "0", "aria-label": "Options" }, JSON.stringify(options, null, 2)));
}

function showResult({ outcome, status, error, seconds, answer }) {
  show("Result of the test", facts([["Outcome", outcome], ["Status", status || "no answer"],
    ["Took", `${seconds} s`], ["Error", error || "–"]]),
  make("h3", {}, "Answer"),
  make("pre", { tabindex: "0", "aria-label": "Answer" }, answer || "(empty)"));
}

function showSecret({ subscription_id: id, secret }) {
  show("Save the secret now", make("p", {}, "It is shown this once. The receiver verifies with it " +
    "the signatures of what it gets."),
  facts([["Subscription", id], ["Secret", make("code", {}, secret)]]));
}
