// SPDX-License-Identifier: Apache-2.0
// The address of a view: #/view/name?parameters. It has all that is chosen, the project too, so
// that it can be shared, and the browser's "back" goes through it.

let shownProject = "";

// All addresses are of this project from now on, unless they name another one.
export function setProject(name) {
  shownProject = name;
}

export function address(view, name = "", { project = shownProject, ...params } = {}) {
  const path = name ? `#/${view}/${encodeURIComponent(name)}` : `#/${view}`;
  const given = Object.entries({ ...params, project })
    .filter(([, value]) => value !== "" && value !== null);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

// {view, name, params} of the page's address.
export function current() {
  const [path, ...query] = location.hash.replace(/^#\//, "").split("?");
  const [view, ...name] = path.split("/");
  return { view, name: decoded(name.join("/")),
    params: Object.fromEntries(new URLSearchParams(query.join("?"))) };
}

export function go(view, name = "", params = {}) {
  location.hash = address(view, name, params);
}

// Marks the link of what is shown, and brings it into view where the links are scrolled.
export function markCurrent(nav, hash, value = "page") {
  for (const link of nav.children) {
    if (link.hash !== hash) link.removeAttribute("aria-current");
    else if (link.getAttribute("aria-current") !== value) {
      link.setAttribute("aria-current", value);
      nav.scrollLeft = link.offsetLeft - nav.offsetLeft - (nav.clientWidth - link.offsetWidth) / 2;
    }
  }
}

// Changes parameters; null or "" removes one. What is typed makes no entries of the history.
export function change(changes, { isTyped = false } = {}) {
  const { view, name, params } = current();
  const wanted = address(view, name, { ...params, ...changes });
  if (wanted === location.hash) return;
  if (!isTyped) {
    location.hash = wanted;
    return;
  }
  history.replaceState(null, "", wanted);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

// Undecoded when the escapes are malformed.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
