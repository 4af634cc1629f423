// SPDX-License-Identifier: Apache-2.0
// The page: who has signed in, which view is shown, and when it is refreshed.

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

let known; // what the service says of itself
let server = null; // null: nobody has signed in
let view = null;
let shown = null; // the name of the view
let timer = null;
let asking = null; // aborts the refresh that is running

function tell(text) {
  setText(at("problem"), text);
  at("problem").hidden = !text;
}

async function refresh() {
  clearTimeout(timer);
  asking?.abort();
  if (!view || document.hidden) return;
  const mine = new AbortController();
  asking = mine;
  try {
    await view.refresh(mine.signal);
    if (mine.signal.aborted) return;
    tell("");
  } catch (error) {
    if (mine.signal.aborted) return;
    if (error instanceof Unauthorized) {
      signOut("The key is no longer the service's.");
      return;
    }
    tell(error instanceof Refused ? `The service said: ${error.message}`
      : `The service cannot be asked: ${error.message}`);
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
    view = new VIEWS[wanted]({ server, about: known, refresh });
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

// As it stands when somebody mistyped its escapes.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function leave() {
  asking?.abort();
  clearTimeout(timer);
  view?.close();
  view?.element.remove();
  view = shown = null;
}

function signIn(key) {
  const project = sessionStorage.getItem(PROJECT) ?? known.project;
  sessionStorage.setItem(KEY, key);
  server = new Server(key, project);
  at("project").value = project;
  at("sign-out").hidden = known.key === "free";
  at("sign-in").hidden = true;
  at("views").hidden = at("scope").hidden = false;
  route();
}

function signOut(why) {
  leave();
  tell("");
  server = null;
  sessionStorage.removeItem(KEY);
  at("views").hidden = at("scope").hidden = true;
  at("sign-in").hidden = false;
  setText(at("sign-in-problem"), why);
  at("key").value = "";
  at("key").focus();
}

// Whether the service takes the key is seen by using it.
async function tryKey(key) {
  try {
    await new Server(key, known.project).api("info");
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
    sessionStorage.setItem(PROJECT, at("project").value || known.project);
    leave();
    signIn(sessionStorage.getItem(KEY));
  });
  window.addEventListener("hashchange", route);
  document.addEventListener("visibilitychange", refresh);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
}

async function start() {
  try {
    known = await about();
  } catch (error) {
    tell(`The service cannot be asked: ${error.message}`);
    return;
  }
  if (known.key === "unset") {
    main.append(make("section", { class: "card narrow" }, make("h2", {}, "There is no key"),
      make("p", {}, "Nobody can sign in: set api_key in the group [channels] of the service's " +
        "configuration, or, for trying, api_insecure = true, and start it again.")));
    return;
  }
  listen();
  const key = sessionStorage.getItem(KEY);
  if (known.key === "free") signIn("");
  else if (key) await tryKey(key);
  else signOut("");
}

start();
