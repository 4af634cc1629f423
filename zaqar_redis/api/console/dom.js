// SPDX-License-Identifier: Apache-2.0
// Building the page. Text is always inserted as text: nothing here parses HTML.

// An element; attributes that begin with "on" are listeners, null and false leave one out.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Sets only a text that differs: selections and the scroll position stay.
export function setText(element, text) {
  const shown = String(text);
  if (element.textContent !== shown) element.textContent = shown;
}

export function button(text, work, attributes = {}) {
  return make("button", { type: "button", class: "quiet", onclick: work, ...attributes }, text);
}

const WHOLE = new Intl.NumberFormat("en");
const SHARE = new Intl.NumberFormat("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });

// How long the result of an act is shown.
const ANNOUNCED_MS = 10_000;

const isKnown = (value) => value !== null && value !== undefined;

// A count, or a rate with one decimal; null is not known (yet).
export const count = (value) => (isKnown(value) ? WHOLE.format(value) : "–");
export const rate = (value) => (isKnown(value) ? SHARE.format(value) : "–");

export function duration(seconds) {
  if (!isKnown(seconds)) return "–";
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const at = units.findIndex(([, size]) => seconds >= size);
  if (at < 0) return "0 s";
  const [name, size] = units[at];
  const rest = units[at + 1] && Math.floor((seconds % size) / units[at + 1][1]);
  return `${Math.floor(seconds / size)} ${name}` + (rest ? ` ${rest} ${units[at + 1][0]}` : "");
}

export function bytes(value) {
  if (!isKnown(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit ? SHARE.format(size) : WHOLE.format(size)} ${units[unit]}`;
}

// A point of time, of seconds since 1970.
export const moment = (seconds) => (isKnown(seconds)
  ? new Date(seconds * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" })
  : "–");

// The same of an ISO 8601 text.
export const time = (text) => (text ? moment(Date.parse(text) / 1000) : "–");

// That text of a field of the type datetime-local, which has the browser's time zone; undefined: it is empty.
export const instant = (local) => (local ? new Date(local).toISOString() : undefined);

// Names and their values. pairs: [[name, a text or an element], …]
export const facts = (pairs) => make("dl", { class: "facts" },
  ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));

// Figures with a name each: {name: [title, help]}.
export class Tiles {
  #values = {};

  constructor(titles) {
    const tiles = Object.entries(titles).map(([name, [title, help]]) => {
      this.#values[name] = make("dd", { "data-figure": name }, "–");
      return make("div", { title: help ?? null }, make("dt", {}, title), this.#values[name]);
    });
    this.element = make("dl", { class: "tiles" }, ...tiles);
  }

  // Those without a tile are left out; a tile is hidden while its value is null.
  show(values) {
    for (const [name, value] of Object.entries(values)) {
      if (!(name in this.#values)) continue;
      this.#values[name].parentElement.hidden = value === null;
      setText(this.#values[name], value ?? "–");
    }
  }
}

// Says for a while what came of an act; screen readers read it.
export function announce(text, { isProblem = false } = {}) {
  const place = document.getElementById("done");
  place.hidden = false;
  place.classList.toggle("problem", isProblem);
  setText(place, text);
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => { place.hidden = true; }, ANNOUNCED_MS);
}
