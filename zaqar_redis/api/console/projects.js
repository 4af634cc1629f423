// SPDX-License-Identifier: Apache-2.0
// Choosing the project that the page shows.

import { ask, field } from "./dialog.js";
import { button, make, setText } from "./dom.js";

// Projects that are offered at once; what is typed narrows them.
const SHOWN = 50;

// choose(name): shows another project, or rejects.
export function chooseProject({ server, session }, choose) {
  const typed = field("Project", { name: "project", required: true, maxlength: "256" });
  const input = typed.querySelector("input");
  const list = make("ul", { class: "choices", "aria-label": "Projects" });
  const note = make("p", { class: "hint", role: "status" });
  let known = [];
  let isComplete = true;
  const show = () => {
    const wanted = input.value.toLowerCase();
    const found = known.filter((name) => name.toLowerCase().includes(wanted));
    list.replaceChildren(...found.slice(0, SHOWN).map((name) => make("li", {},
      button(name, () => {
        input.value = name;
        input.form.requestSubmit();
      }, { "aria-current": name === session.project ? "true" : null }))));
    const more = found.length > SHOWN ? "There are more: type a part of the name." : "";
    setText(note, isComplete ? more : `${more} Not all stores have told their projects: type the ` +
      "whole name of one that is missing.");
  };
  if (session.may.includes("console:projects")) {
    setText(note, "Looking for projects…");
    server.console("projects").then(({ projects, complete }) => {
      known = projects;
      isComplete = complete;
      input.addEventListener("input", show);
      show();
    }).catch((error) => setText(note, error.message));
  } else setText(note, "The list of projects is for administrators; type the name of yours.");
  return ask({ title: "Choose a project", verb: "Choose", content: [typed, list, note],
    work: () => choose(input.value) });
}
