// SPDX-License-Identifier: Apache-2.0
// The page: sign-in, the view that is shown, and its refresh.

import { Channels } from "./channels.js";
import { make, setText } from "./dom.js";
import { Nodes, Pools } from "./operating.js";
import { Queues } from "./queues.js";
import { Refused, Server, Unauthorized, about } from "./server.js";

const VIEWS = { queues: Queues, channels: Channels, nodes: Nodes, pools: Pools };
const KEY = "zaqar-redis.key";
const PROJECT = "zaqar-redis.project";

const at = (id) => document.getElementById(id);
const main = at("main");

let info; // about the service: key, project, charts
let server = null; // null: nobody has signed in
let view = null;
let shown = null; // the name of the view
let timer = null;
let pending = null; // aborts the refresh that is running

function showProblem(text) {
  setText(at("problem"), text);
  at("problem").hidden = !text;
}

async function refresh() {
  clearTimeout(timer);
  pending?.abort();
  if (!view || document.hidden) return;
  const current = new AbortController();
  pending = current;
  try {
    await view.refresh(current.signal);
    if (current.signal.aborted) return;
    showProblem("");
  } catch (error) {
    if (current.signal.aborted) return;
    if (error instanceof Unauthorized) {
      signOut("The key is not valid any more: sign in with the new one.");
      return;
    }
    showProblem(error instanceof Refused ? `The service refused the request: ${error.message}`
      : `The service cannot be reached: ${error.message}`);
  }
  timer = setTimeout(refresh, view.seconds * 1000);
}

function route() {
  if (!server) return;
  const [name, ...rest] = location.hash.replace(/^#\//, "").split("/");
  const wanted = name in VIEWS ? name : "queues";
  if (wanted !== shown) {
    leave();
    shown = wanted;
    view = new VIEWS[wanted]({ server, about: info, refresh });
    main.append(view.element);
  }
  for (const link of at("views").children) {
    if (link.hash === `#/${wanted}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const chosen = rest.length ? decoded(rest.join("/")) : null;
  document.title = `${chosen ?? wanted} – zaqar-redis`;
  view.open(chosen);
  refresh();
}

// Undecoded when the escapes in the URL are malformed.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function leave() {
  pending?.abort();
  clearTimeout(timer);
  view?.close();
  view?.element.remove();
  view = shown = null;
}

function signIn(key) {
  const project = sessionStorage.getItem(PROJECT) ?? info.project;
  sessionStorage.setItem(KEY, key);
  server = new Server(key, project);
  at("project").value = project;
  at("sign-out").hidden = info.key === "free";
  at("sign-in").hidden = true;
  at("views").hidden = at("scope").hidden = false;
  route();
}

function signOut(why) {
  leave();
  showProblem("");
  server = null;
  sessionStorage.removeItem(KEY);
  at("views").hidden = at("scope").hidden = true;
  at("sign-in").hidden = false;
  setText(at("sign-in-problem"), why);
  at("key").value = "";
  at("key").focus();
}

// Only a call shows whether the service accepts the key.
async function tryKey(key) {
  try {
    await new Server(key, info.project).api("info");
    signIn(key);
  } catch (error) {
    signOut(error instanceof Unauthorized ? "This is not the service's key." : error.message);
  }
}

function listen() {
  at("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    tryKey(at("key").value);
  });
  at("sign-out").addEventListener("click", () => signOut(""));
  at("scope").addEventListener("submit", (event) => event.preventDefault());
  at("project").addEventListener("change", () => {
    sessionStorage.setItem(PROJECT, at("project").value || info.project);
    leave();
    signIn(sessionStorage.getItem(KEY));
  });
  window.addEventListener("hashchange", route);
  document.addEventListener("visibilitychange", refresh);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
}

async function start() {
  try {
    info = await about();
  } catch (error) {
    showProblem(`The service cannot be reached: ${error.message}`);
    return;
  }
  if (info.key === "unset") {
    main.append(make("section", { class: "card narrow" }, make("h2", {}, "No key is set"),
      make("p", {}, "Nobody can sign in: set api_key in the group [channels] of the service's " +
        "configuration, or, to try it, api_insecure = true, and restart it.")));
    return;
  }
  listen();
  const key = sessionStorage.getItem(KEY);
  if (info.key === "free") signIn("");
  else if (key) await tryKey(key);
  else signOut("");
}

start();
