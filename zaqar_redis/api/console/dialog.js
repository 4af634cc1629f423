// SPDX-License-Identifier: Apache-2.0
// Dialogs: they ask before something is destroyed, and for what something needs.

import { button, make, setText } from "./dom.js";

let made = 0; // for ids

// Opens a dialog; resolves when it is closed: to whether its work was done.
// typed: a name that must be typed first. content: elements, of which work(form) reads the fields.
export function ask({ title, text = "", verb, typed = null, isDangerous = false, content = [], work }) {
  const id = `dialog-${(made += 1)}`;
  const problem = make("p", { class: "problem", role: "alert" });
  const confirm = make("button", { class: isDangerous ? "danger" : null }, verb);
  const name = make("input", { name: "typed", autocomplete: "off", spellcheck: "false", required: true });
  const form = make("form", { method: "dialog" },
    make("h2", { id }, title), make("p", {}, text), ...content,
    ...(typed ? [make("label", {}, `Type ${typed} to confirm `, name)] : []),
    problem,
    make("div", { class: "row end" }, button("Cancel", () => dialog.close()), confirm));
  const dialog = make("dialog", { "aria-labelledby": id }, form);
  let isDone = false;
  const check = () => { confirm.disabled = typed !== null && name.value !== typed; };
  name.addEventListener("input", check);
  check();
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    setText(problem, "");
    try {
      await work(form);
      isDone = true;
      dialog.close();
    } catch (error) {
      setText(problem, error.message);
    } finally {
      check();
    }
  });
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(isDone);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// Shows something, until it is closed.
export function show(title, ...content) {
  const id = `dialog-${(made += 1)}`;
  const dialog = make("dialog", { class: "wide", "aria-labelledby": id },
    make("h2", { id }, title), ...content,
    make("div", { class: "row end" }, button("Close", () => dialog.close())));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// A field of a form. attributes: of the input, with its name.
// choices: of a select in the place of the input; value is the chosen one.
export function field(title, { choices = null, ...attributes }, help = "") {
  const id = `field-${(made += 1)}`;
  const given = { id, "aria-describedby": help ? `${id}-help` : null };
  const { value, ...others } = attributes;
  const control = choices
    ? make("select", { ...given, ...others }, ...Object.entries(choices).map(([choice, text]) =>
      make("option", { value: choice, selected: choice === value }, text)))
    : make("input", { ...given, autocomplete: "off", spellcheck: "false", ...attributes });
  return make("div", { class: "field" }, make("label", { for: id }, title), control,
    ...(help ? [make("small", { class: "hint", id: `${id}-help` }, help)] : []));
}

// A button for an act that needs a rule of the policy; disabled, with the reason, for those who may not.
export function act(session, rule, text, work, attributes = {}) {
  const may = session.may.includes(rule);
  return button(text, work, may ? attributes
    : { ...attributes, disabled: true, title: reason(session, rule) });
}

export function reason(session, rule) {
  const roles = session.roles.length ? `Your roles (${session.roles.join(", ")}) do` : "Your credential does";
  return `${roles} not allow it: ${rule}.`;
}
