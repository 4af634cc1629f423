// SPDX-License-Identifier: Apache-2.0
// Ids, which are long and all alike: shortened, and whole on a click.

import { show } from "./dialog.js";
import { announce, button, make } from "./dom.js";

// Characters that are shown. The last ones tell messages of one queue from each other.
const FIRST = 4;
const LAST = 8;

// kind: what it is the id of.
export function shortId(id, kind) {
  const text = id.length > FIRST + LAST + 1 ? `${id.slice(0, FIRST)}…${id.slice(-LAST)}` : id;
  return button(text, () => showId(id, kind), { class: "quiet id", title: `${id}: show, copy` });
}

function showId(id, kind) {
  const whole = make("code", { tabindex: "0", "aria-label": kind }, id);
  show(kind, make("p", {}, whole), button("Copy", () => copy(whole)));
  getSelection().selectAllChildren(whole);
}

async function copy(element) {
  getSelection().selectAllChildren(element);
  try {
    // Pages of http have no clipboard, unless they are of this machine.
    if (navigator.clipboard) await navigator.clipboard.writeText(element.textContent);
    else if (!document.execCommand("copy")) throw new Error("the browser does not allow it");
    announce("Copied.");
  } catch (error) {
    announce(`Not copied: ${error.message}. The id is marked: copy it by the keyboard.`,
      { isProblem: true });
  }
}
