// SPDX-License-Identifier: Apache-2.0
// Who has signed in and what they may do; the quotas of projects.

import { address } from "./address.js";
import { act, field } from "./dialog.js";
import { bytes, count, facts, make, setText } from "./dom.js";
import { Refused } from "./server.js";
import { Listing, cut } from "./table.js";

const LIMITS = {
  requests: ["Requests a second", count],
  queues: ["Queues", count],
  messages: ["Messages", count],
  bytes: ["Bytes of messages", bytes],
  sockets: ["Open sockets", count],
};
const NO_LIMIT = -1;

const pathOf = (project) => `/quotas/${encodeURIComponent(project)}`;
const limit = (value, show) => (value === NO_LIMIT ? "no limit" : show(value));

export class Access {
  seconds = 5;

  constructor(context) {
    this.context = context;
    const { session } = context;
    this.note = make("p", { class: "hint" });
    this.used = make("div", { class: "uses" });
    this.own = make("section", { class: "card" }, make("h3", {}, `Quota of ${session.project}`),
      this.used, this.note);
    this.listing = new Listing({
      caption: "Quotas", sort: "project", search: "Project contains",
      columns: [{ title: "Project", sort: "project" },
        ...Object.entries(LIMITS).map(([name, [title]]) => ({ title, sort: name, number: true })),
        { title: "Acts" }],
      empty: "No project has a quota of its own: that of the service's options applies to all.",
      load: async (query, signal) => {
        const all = await context.server.all("quotas", {}, signal);
        return cut(all, query, (quota) => quota, (quota) => quota.project);
      },
      row: (quota) => [quota.project, [quota.project,
        ...Object.entries(LIMITS).map(([name, [, show]]) => limit(quota[name], show)),
        make("div", { class: "acts" },
          act(session, "quotas:update", "Change", () => this.#change(quota.project)),
          act(session, "quotas:delete", "Remove", () => this.#remove(quota.project)))]],
    });
    this.all = make("section", { class: "card" }, make("h3", {}, "Quotas of projects"),
      make("div", { class: "row" },
        act(session, "quotas:update", "Set a quota", () => this.#change(null))),
      this.listing.element);
    this.element = make("div", { class: "stack" },
      make("section", { class: "card" }, make("h2", {}, "Access"), whoami(session)),
      this.own, this.all);
  }

  open(params) {
    this.listing.open(params);
  }

  close() {
    this.listing.close();
  }

  async refresh(signal) {
    const { server, session } = this.context;
    this.own.hidden = !(await isThere(async () =>
      this.#showOwn(await server.queues("GET", pathOf(session.project), null, signal))));
    this.all.hidden = !(session.may.includes("quotas:get_all") &&
      await isThere(() => this.listing.refresh(signal)));
  }

  #showOwn({ usage, ...quota }) {
    this.used.replaceChildren(...Object.entries(LIMITS).map(([name, [title, show]]) => {
      const used = usage?.[name];
      const text = used === undefined ? limit(quota[name], show)
        : `${show(used)} of ${limit(quota[name], show)}`;
      const isLimited = used !== undefined && quota[name] > 0;
      return make("div", { class: "share" }, make("span", {}, title),
        isLimited ? make("meter", { min: "0", max: String(quota[name]), value: String(used),
          high: String(quota[name] * 0.8), "aria-label": `${title}: ${text}` }) : make("span"),
        make("span", { class: "number" }, text));
    }));
    setText(this.note, "Usage is measured every few seconds.");
  }

  // project: null: of one that has none yet.
  #change(project) {
    const quota = this.listing.items.get(project);
    const { server, ask } = this.context;
    return ask({
      title: quota ? `Quota of ${quota.project}` : "Set a quota", verb: "Set",
      text: "-1 is no limit; what is left empty is as the service's options say.",
      content: [
        field("Project", { name: "project", required: true, maxlength: "256",
          value: quota?.project ?? "", readonly: Boolean(quota) }),
        ...Object.entries(LIMITS).map(([name, [title]]) => field(title, { name, type: "number",
          min: "-1", value: quota ? String(quota[name]) : "" }))],
      work: ({ elements }) => {
        const given = Object.keys(LIMITS).filter((name) => elements[name].value !== "")
          .map((name) => [name, Number(elements[name].value)]);
        return server.queues("PUT", pathOf(elements.project.value),
          JSON.stringify(Object.fromEntries(given)));
      },
      done: "The quota is set. Every worker knows it within five seconds.",
    });
  }

  #remove(project) {
    const { server, ask } = this.context;
    return ask({ title: `Remove the quota of ${project}`, verb: "Remove", isDangerous: true,
      text: "The quota of the service's options applies then.",
      work: () => server.queues("DELETE", pathOf(project)),
      done: `The quota of ${project} is removed.` });
  }
}

function whoami({ user, project, roles, may }) {
  return make("div", {},
    facts([["User", user || "–"], ["Project", project], ["Roles", roles.join(", ") || "–"]]),
    make("details", {}, make("summary", {}, `What you may do here: ${may.length} rules`),
      make("ul", { class: "rules" }, ...may.map((rule) => make("li", {}, make("code", {}, rule))))),
    make("p", {}, make("a", { href: address("access", "keys") }, "Access keys of the project")));
}

// Whether a service has such a resource, and shows it to this user.
async function isThere(work) {
  try {
    await work();
    return true;
  } catch (error) {
    if (error instanceof Refused && [403, 404].includes(error.status)) return false;
    throw error;
  }
}
