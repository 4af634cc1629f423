// SPDX-License-Identifier: Apache-2.0
// Pools: the stores that queues are spread over, where queues live, draining and rebalancing.

import { act, field } from "./dialog.js";
import { count, make, setText } from "./dom.js";
import { Refused } from "./server.js";
import { Listing, cut } from "./table.js";

const COLUMNS = [
  { title: "Pool", sort: "name" },
  { title: "Store", sort: "uri" },
  { title: "Weight", sort: "weight", number: true, help: "Its share of new queues" },
  { title: "Flavor", sort: "flavor" },
  { title: "Queues", sort: "queues", number: true },
  { title: "State", sort: "draining" },
  { title: "Acts" },
];
const NOT_SHOWN = "The service shows its pools in admin mode only: zaqar-redis serve --admin, or " +
  "admin_mode = true in its configuration.";

const WEIGHT_MAX = "4294967295";

const pathOf = (name) => `/pools/${encodeURIComponent(name)}`;

export class Pools {
  seconds = 3;

  constructor(context) {
    this.context = context;
    this.note = make("p", {});
    this.listing = new Listing({
      caption: "Pools", columns: COLUMNS, sort: "name", search: "Name contains",
      empty: "No pools: all queues are in [storage] uri.",
      load: (query, signal) => this.#load(query, signal), row: (pool) => this.#row(pool),
    });
    this.shares = make("div", { class: "shares" });
    this.stayed = make("ul", { class: "problem" });
    this.progress = make("p", { role: "status" });
    const { session } = context;
    this.start = act(session, "pools:rebalance", "Rebalance", () => this.#rebalance("PUT"));
    this.stop = act(session, "pools:rebalance", "Stop", () => this.#rebalance("DELETE"));
    this.placement = make("section", { class: "card" },
      make("h3", {}, "Where queues live"),
      make("p", { class: "hint" }, "Bars: queues that each store has. Marks: its share by weight."),
      this.shares, this.stayed, make("div", { class: "row" }, this.start, this.stop, this.progress));
    this.shown = make("div", {},
      make("div", { class: "row" },
        act(session, "pools:create", "Create a pool", () => this.#create())),
      this.listing.element);
    this.element = make("div", { class: "stack" },
      make("section", { class: "card" }, make("h2", {}, "Pools"), this.note, this.shown),
      this.placement);
  }

  open(params) {
    this.listing.open(params);
  }

  close() {
    this.listing.close();
  }

  async refresh(signal) {
    try {
      await this.listing.refresh(signal);
      this.#showPlacement(await this.context.server.queues("GET", "/rebalance", null, signal));
    } catch (error) {
      if (!(error instanceof Refused && error.status === 404)) throw error;
      setText(this.note, NOT_SHOWN);
      this.shown.hidden = this.placement.hidden = true;
      return;
    }
    setText(this.note, "");
    this.shown.hidden = this.placement.hidden = false;
  }

  async #load(query, signal) {
    const { server } = this.context;
    const names = await server.all("pools", {}, signal);
    // One that is removed meanwhile is not shown.
    const pools = await Promise.all(names.map((pool) =>
      server.queues("GET", `${pathOf(pool.name)}?detailed=true`, null, signal)
        .catch((error) => {
          if (error instanceof Refused && error.status === 404) return null;
          throw error;
        })));
    return cut(pools.filter(Boolean), query, (pool) => ({ ...pool, draining: Number(pool.draining) }),
      (pool) => pool.name);
  }

  #row(pool) {
    const { session } = this.context;
    const again = () => this.context.act(() => this.#patch(pool.name, { draining: false }),
      `Pool ${pool.name} is in use again.`);
    const drain = pool.draining ? act(session, "pools:update", "Use again", again)
      : act(session, "pools:update", "Drain", () => this.#drain(pool.name));
    const remove = act(session, "pools:delete", "Remove", () => this.#remove(pool.name));
    return [pool.name, [pool.name, pool.uri, count(pool.weight), pool.flavor || "–",
      count(pool.queues), state(pool), make("div", { class: "acts" }, drain,
        act(session, "pools:update", "Weight", () => this.#weigh(pool.name)), remove)]];
  }

  #showPlacement({ running, stores, stayed }) {
    const most = Math.max(1, ...stores.flatMap(({ queues, due }) => [queues, due]));
    this.shares.replaceChildren(...stores.map(({ name, queues, due }) => {
      const label = `${name}: ${count(queues)} queues, ${count(due)} by weight`;
      const bar = make("meter", { min: "0", max: String(most), value: String(queues),
        "aria-label": label });
      const share = make("meter", { class: "due", min: "0", max: String(most), value: String(due),
        "aria-hidden": "true" });
      return make("div", { class: "share" }, make("span", {}, name),
        make("div", {}, bar, share), make("span", { class: "number" }, `${count(queues)} / ${count(due)}`));
    }));
    const left = stores.reduce((sum, { queues, due }) => sum + Math.max(0, queues - due), 0);
    setText(this.progress, running ? `Rebalancing: ${count(left)} queues are still to move.`
      : left ? `Not where their weight wants them: ${count(left)} queues.` : "Spread by weight.");
    this.stayed.replaceChildren(...(stayed.queues ? stayed.why : []).map((why) => make("li", {}, why)));
    const may = this.context.session.may.includes("pools:rebalance");
    this.start.disabled = !may || running;
    this.stop.disabled = !may || !running;
  }

  async #rebalance(method) {
    await this.context.act(() => this.context.server.queues(method, "/rebalance"),
      method === "PUT" ? "Rebalancing has begun." : "Rebalancing ends with the queue that moves now.");
  }

  #patch(name, changes) {
    return this.context.server.queues("PATCH", pathOf(name), JSON.stringify(changes));
  }

  #drain(name) {
    return this.context.ask({ title: `Drain ${name}`, verb: "Drain",
      text: "It gets no new queues, and its queues move to the other pools. Use again ends that.",
      work: () => this.#patch(name, { draining: true }), done: `Pool ${name} is draining.` });
  }

  #weigh(name) {
    const { weight } = this.listing.items.get(name);
    return this.context.ask({ title: `Weight of ${name}`, verb: "Change",
      content: [field("Weight", { name: "weight", type: "number", min: "0", max: WEIGHT_MAX,
        value: String(weight), required: true }, "Its share of new queues; 0 for none.")],
      work: (form) => this.#patch(name, { weight: Number(form.elements.weight.value) }),
      done: `The weight of ${name} is changed.` });
  }

  #remove(name) {
    return this.context.ask({ title: `Remove ${name}`, verb: "Remove", isDangerous: true,
      text: "The service forgets the pool; its store stays as it is. A pool with queues is not removed.",
      work: () => this.context.server.queues("DELETE", pathOf(name)),
      done: `Pool ${name} is removed.` });
  }

  #create() {
    return this.context.ask({ title: "Create a pool", verb: "Create", content: [
      field("Name", { name: "name", required: true, maxlength: "64" }),
      field("URI of its store", { name: "uri", required: true, maxlength: "255",
        placeholder: "redis://redis.example.org:6379/0" }),
      field("Weight", { name: "weight", type: "number", min: "0", max: WEIGHT_MAX, value: "100",
        required: true }, "Its share of new queues."),
    ],
    work: ({ elements }) => this.context.server.queues("PUT", pathOf(elements.name.value),
      JSON.stringify({ uri: elements.uri.value, weight: Number(elements.weight.value) })),
    done: "The pool is created." });
  }
}

function state({ draining, stayed }) {
  if (!draining) return "in use";
  return stayed.queues ? `draining; ${count(stayed.queues)} queues could not move` : "draining";
}
