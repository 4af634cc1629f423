// SPDX-License-Identifier: Apache-2.0
// The recurring posts of a project: when each posts next, and whether the last post was refused.

import { address } from "./address.js";
import { act, field, show } from "./dialog.js";
import { button, facts, instant, make, setText, time } from "./dom.js";
import { beginning } from "./feed.js";
import { Refused, markerOf } from "./server.js";
import { MarkerPager, Table } from "./table.js";

const COLUMNS = [
  { title: "Schedule" },
  { title: "Queue", help: "It posts to it" },
  { title: "Cron" },
  { title: "Time zone" },
  { title: "Next" },
  { title: "Last", help: "The last time for which it has posted" },
  { title: "State" },
  { title: "Failure", help: "Why the last post was refused" },
  { title: "Acts" },
];
// Characters of a failure in the table.
const SHORT = 120;
// Without it large numbers in a body would change when the schedule is sent back.
const CAN_PAUSE = JSON.rawJSON ? {}
  : { disabled: true, title: "This browser is too old for it: use zaqar-redis schedule." };
const MISSED = { latest: "Post the latest one, late", skip: "Post none" };
// What the service adds to what it was given.
const SHOWN_ONLY = ["name", "href", "next", "last", "failure"];
const YOUR_ZONE = "In your time zone.";
const NOT_THERE = "This service has no schedules: pooling is off in its configuration.";

const NAME = { required: true, maxlength: "64", pattern: "[a-zA-Z0-9_.\\-]+" };

const pathOf = (name) => `/schedules/${encodeURIComponent(name)}`;
const stateOf = ({ paused, next }) => (paused ? "paused" : next ? "posts" : "has ended");

export class Schedules {
  seconds = 3;
  #marker = "";
  #found = new Map(); // by name: buttons in rows stay, so what they show is looked up here

  constructor(context) {
    this.context = context;
    this.table = new Table("Schedules", COLUMNS,
      "No schedules. A schedule posts a message to a queue again and again.");
    this.pager = new MarkerPager((marker) => address("schedules", "", { marker }));
    this.note = make("p", {});
    this.shown = make("div", {}, this.table.element, this.pager.element);
    this.create = act(context.session, "schedules:create", "Create a schedule",
      () => this.#create());
    this.element = make("section", { class: "card" },
      make("div", { class: "row" }, make("h2", {}, "Schedules"), this.create), this.note, this.shown);
  }

  open({ marker = "" }) {
    this.#marker = marker;
  }

  close() {}

  async refresh(signal) {
    const query = this.#marker && `?${new URLSearchParams({ marker: this.#marker })}`;
    let page;
    try {
      page = await this.context.server.queues("GET", `/schedules${query}`, null, signal);
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error;
      setText(this.note, NOT_THERE);
      this.shown.hidden = this.create.hidden = true;
      return;
    }
    const { schedules, links } = page;
    this.#found = new Map(schedules.map((each) => [each.name, each]));
    this.table.show(schedules.map((each) => [each.name, this.#cells(each)]));
    this.pager.show(this.#marker, markerOf(links), schedules.length);
  }

  #cells(schedule) {
    const { name, queue, cron, timezone, next, last, paused, failure = "" } = schedule;
    const { session } = this.context;
    return [name, { text: queue, href: address("queues", queue) }, cron, timezone, time(next),
      time(last), stateOf(schedule), beginning(failure, SHORT),
      make("div", { class: "acts" },
        button("Show", () => showSchedule(this.#found.get(name))),
        act(session, "schedules:create", paused ? "Resume" : "Pause",
          () => this.#pause(name, !paused), CAN_PAUSE),
        act(session, "schedules:delete", "Delete", () => this.#delete(name)))];
  }

  #pause(name, paused) {
    const { server } = this.context;
    return this.context.act(async () => {
      const given = await server.queues("GET", pathOf(name));
      for (const field of SHOWN_ONLY) delete given[field];
      await server.queues("PUT", pathOf(name), JSON.stringify({ ...given, paused }));
    }, paused ? `Schedule ${name} is paused: it posts nothing.` : `Schedule ${name} goes on from now.`);
  }

  #delete(name) {
    return this.context.ask({ title: `Delete ${name}`, verb: "Delete", isDangerous: true,
      text: "It posts nothing any more; what it has posted stays.",
      work: () => this.context.server.queues("DELETE", pathOf(name)),
      done: `Schedule ${name} is deleted.` });
  }

  #create() {
    const message = make("textarea", { name: "message", rows: "5", spellcheck: "false",
      required: true, placeholder: '{"body": {"job": "report"}, "ttl": 86400}' });
    return this.context.ask({ title: "Create a schedule", verb: "Create",
      text: "A schedule of the same name is replaced.",
      content: [
        field("Name", { name: "name", ...NAME }),
        field("Queue", { name: "queue", ...NAME }, "The first message creates it."),
        field("Cron", { name: "cron", required: true, placeholder: "30 9 * * MON-FRI" },
          "Minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, …"),
        field("Time zone", { name: "timezone", value: "UTC", required: true }),
        field("From", { name: "from", type: "datetime-local" }, YOUR_ZONE),
        field("Until", { name: "until", type: "datetime-local" }, YOUR_ZONE),
        field("Missed times", { name: "missed", choices: MISSED, value: "latest" },
          "Of times at which no service ran, or a store was away."),
        make("label", {}, "Message, as a JSON object", message),
      ],
      work: ({ elements: { name, queue, cron, timezone, from, until, missed } }) => this.#put(name.value,
        { queue: queue.value, cron: cron.value, timezone: timezone.value, from: instant(from.value),
          until: instant(until.value), missed: missed.value }, message.value),
      done: "The schedule is created." });
  }

  // message: JSON text; parsed by JavaScript, its numbers would have 53 bits.
  #put(name, rest, message) {
    try {
      JSON.parse(message);
    } catch (error) {
      throw new Error(`The message is no JSON: ${error.message}`);
    }
    const body = `${JSON.stringify(rest).slice(0, -1)}, "message": ${message}}`;
    return this.context.server.queues("PUT", pathOf(name), body);
  }
}

function showSchedule(schedule) {
  const { name, queue, cron, timezone, from, until, missed, next, last, failure, message } = schedule;
  show(name, facts([["Queue", queue], ["Cron", cron], ["Time zone", timezone], ["From", time(from)],
    ["Until", time(until)], ["Missed times", MISSED[missed]], ["State", stateOf(schedule)],
    ["Next", time(next)], ["Last", time(last)], ["Failure", failure || "–"]]),
  make("h3", {}, "Message"),
  make("pre", { tabindex: "0", "aria-label": "Message" }, JSON.stringify(message, null, 2)));
}
