// SPDX-License-Identifier: Apache-2.0
// The publications of a tail as a list on the page, and the box to publish.

import { reason } from "./dialog.js";
import { button, count, make, setText } from "./dom.js";
import { shortId } from "./ids.js";
import { Tail } from "./tail.js";

// Entries on the page: more than anybody reads, and few enough to draw at once.
const SHOWN = 200;
// Characters of one entry: a message may have megabytes.
const LONG = 4000;

export class Feed {
  #waiting = []; // entries that are not drawn yet
  #drawing = null;
  #isPaused = false;
  #received = 0;
  #dropped = 0;

  constructor(server, channel) {
    this.state = make("span", { class: "state", role: "status" });
    this.total = make("span", { class: "hint" });
    this.list = make("ol", { class: "feed", tabindex: "0", "aria-label": `Live tail of ${channel}` });
    this.reconnect = button("Connect now", () => this.tail.now(), { hidden: true });
    this.pause = button("Pause", () => this.#toggle(), { "aria-pressed": "false" });
    this.search = make("input", { type: "search", autocomplete: "off", spellcheck: "false",
      placeholder: "text", "aria-label": "Show entries with this text", oninput: () => this.#filter() });
    this.pretty = make("input", { type: "checkbox",
      onchange: () => this.list.classList.toggle("pretty", this.pretty.checked) });
    this.element = make("section", { class: "tail" },
      make("h3", {}, "Live tail"),
      make("div", { class: "row" }, this.state, this.total, this.reconnect, this.pause,
        button("Clear", () => this.list.replaceChildren()), this.search,
        make("label", { class: "check" }, this.pretty, " Pretty")),
      this.list);
    this.tail = new Tail(channel, (name) => server.ticket(name), {
      state: (kind, text) => this.#showState(kind, text),
      publication: (publication) => this.#publication(publication),
      missed: (text) => this.#put(make("li", { class: "missed" }, text)),
    });
    this.tail.start();
  }

  close() {
    this.tail.stop();
    cancelAnimationFrame(this.#drawing);
  }

  #showState(kind, text) {
    this.state.dataset.kind = kind;
    setText(this.state, text);
    this.reconnect.hidden = kind !== "waiting";
  }

  #publication(publication) {
    this.#received += 1;
    const at = publication.time ? new Date(publication.time) : new Date();
    const notes = [at.toLocaleTimeString("en-GB")];
    if (publication.offset) notes.push(`#${publication.offset}`);
    if (publication.info) {
      notes.push(publication.info.user || shortId(publication.info.client, "Connection"));
    }
    for (const [name, value] of Object.entries(publication.tags ?? {})) {
      notes.push(name === "id" ? make("span", {}, "id ", shortId(value, "Message"))
        : `${name} ${value}`);
    }
    this.#put(make("li", {},
      make("span", { class: "hint" }, ...notes.flatMap((note, index) => (index ? [" · ", note] : [note]))),
      make("code", { class: "compact" }, beginning(JSON.stringify(publication.data))),
      make("code", { class: "indented" }, beginning(JSON.stringify(publication.data, null, 2)))));
  }

  #put(entry) {
    this.#waiting.push(entry);
    if (this.#waiting.length > SHOWN) {
      this.#waiting.shift();
      this.#dropped += 1;
    }
    if (!this.#isPaused) this.#drawing ??= requestAnimationFrame(() => this.#draw());
    else this.#count();
  }

  #draw() {
    this.#drawing = null;
    this.list.prepend(...this.#waiting.splice(0).reverse());
    while (this.list.children.length > SHOWN) this.list.lastElementChild.remove();
    this.#filter();
    this.#count();
  }

  #filter() {
    const wanted = this.search.value.toLowerCase();
    for (const entry of this.list.children) {
      entry.hidden = !entry.textContent.toLowerCase().includes(wanted);
    }
  }

  #count() {
    const waiting = this.#isPaused ? `, ${count(this.#waiting.length)} waiting` : "";
    const dropped = this.#dropped ? `, ${count(this.#dropped)} not shown` : "";
    setText(this.total, `${count(this.#received)} received${waiting}${dropped}`);
  }

  #toggle() {
    this.#isPaused = !this.#isPaused;
    this.pause.setAttribute("aria-pressed", String(this.#isPaused));
    setText(this.pause, this.#isPaused ? "Go on" : "Pause");
    if (this.#isPaused) this.#count();
    else this.#draw();
  }
}

// The first characters of a text that may be long.
export function beginning(text, most = LONG) {
  const more = text.length - most;
  return more > 0 ? `${text.slice(0, most)}… and ${count(more)} characters` : text;
}

// A box for JSON. send(text, form) is the button's action, and resolves to a text for the status.
// rule: of the policy, that allows it.
export function publishBox({ title, verb, session, rule, send }, ...more) {
  const may = session.may.includes(rule);
  const data = make("textarea", { name: "data", rows: "3", required: true, spellcheck: "false",
    placeholder: '{"text": "hello"}' });
  const status = make("p", { class: "hint", role: "status" },
    may ? "" : `You may only read. ${reason(session, rule)}`);
  const confirm = make("button", {}, verb);
  const form = make("form", { class: "publish" },
    make("h3", {}, title),
    make("fieldset", { disabled: !may },
      make("label", {}, "Data, as JSON", data),
      make("div", { class: "row" }, ...more, confirm)),
    status);
  data.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    status.classList.remove("problem");
    try {
      JSON.parse(data.value);
      setText(status, await send(data.value, form));
    } catch (error) {
      status.classList.add("problem");
      setText(status, error instanceof SyntaxError ? `That is no JSON: ${error.message}` : error.message);
    } finally {
      confirm.disabled = false;
    }
  });
  return form;
}
