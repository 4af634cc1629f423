// SPDX-License-Identifier: Apache-2.0
// The publications of a tail as a list on the page, and the box to publish.

import { count, make, setText } from "./dom.js";
import { Tail } from "./tail.js";

// Entries on the page: more than anybody reads, and few enough to draw at once.
const SHOWN = 200;
// Characters of one entry: a message may have megabytes.
const LONG = 4000;

export class Feed {
  #waiting = []; // entries that are not drawn yet
  #drawing = null;
  #paused = false;
  #received = 0;
  #dropped = 0;

  constructor(server, channel) {
    this.state = make("span", { class: "state", role: "status" });
    this.total = make("span", { class: "hint" });
    this.list = make("ol", { class: "feed", tabindex: "0", "aria-label": `Live tail of ${channel}` });
    this.reconnect = make("button", { type: "button", class: "quiet", hidden: true,
      onclick: () => this.tail.now() }, "Connect now");
    this.pause = make("button", { type: "button", class: "quiet", "aria-pressed": "false",
      onclick: () => this.#toggle() }, "Pause");
    const clear = make("button", { type: "button", class: "quiet",
      onclick: () => this.list.replaceChildren() }, "Clear");
    this.element = make("section", { class: "tail" },
      make("h3", {}, "Live tail"),
      make("div", { class: "row" }, this.state, this.total, this.reconnect, this.pause, clear),
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
    if (publication.info) notes.push(publication.info.user || publication.info.client);
    for (const [name, value] of Object.entries(publication.tags ?? {})) {
      notes.push(`${name} ${value}`);
    }
    const text = JSON.stringify(publication.data);
    const more = text.length - LONG;
    this.#put(make("li", {},
      make("span", { class: "hint" }, notes.join(" · ")),
      make("code", {}, more > 0 ? `${text.slice(0, LONG)}… and ${more} characters` : text)));
  }

  #put(entry) {
    this.#waiting.push(entry);
    if (this.#waiting.length > SHOWN) {
      this.#waiting.shift();
      this.#dropped += 1;
    }
    if (!this.#paused) this.#drawing ??= requestAnimationFrame(() => this.#draw());
    else this.#count();
  }

  #draw() {
    this.#drawing = null;
    this.list.prepend(...this.#waiting.splice(0).reverse());
    while (this.list.children.length > SHOWN) this.list.lastElementChild.remove();
    this.#count();
  }

  #count() {
    const waiting = this.#paused ? `, ${count(this.#waiting.length)} waiting` : "";
    const dropped = this.#dropped ? `, ${count(this.#dropped)} not shown` : "";
    setText(this.total, `${count(this.#received)} received${waiting}${dropped}`);
  }

  #toggle() {
    this.#paused = !this.#paused;
    this.pause.setAttribute("aria-pressed", String(this.#paused));
    setText(this.pause, this.#paused ? "Go on" : "Pause");
    this.#draw();
  }
}

// A box for JSON. send(text, form) is the button's action, and resolves to a text for the status.
// may: whether the user may do that.
export function publishBox(title, verb, may, send, ...more) {
  const data = make("textarea", { name: "data", rows: "3", required: true, spellcheck: "false",
    placeholder: '{"text": "hello"}' });
  const status = make("p", { class: "hint", role: "status" }, may ? "" : "You may only read.");
  const button = make("button", {}, verb);
  const form = make("form", { class: "publish" },
    make("h3", {}, title),
    make("fieldset", { disabled: !may },
      make("label", {}, "Data, as JSON", data),
      make("div", { class: "row" }, ...more, button)),
    status);
  data.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    status.classList.remove("problem");
    try {
      JSON.parse(data.value);
      setText(status, await send(data.value, form));
    } catch (error) {
      status.classList.add("problem");
      setText(status, error instanceof SyntaxError ? `That is no JSON: ${error.message}` : error.message);
    } finally {
      button.disabled = false;
    }
  });
  return form;
}
