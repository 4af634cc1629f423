// SPDX-License-Identifier: Apache-2.0
// The page: sign-in, the view that is shown, and its refresh.

import { Channels } from "./channels.js";
import * as credentials from "./credentials.js";
import { make, setText } from "./dom.js";
import * as openid from "./openid.js";
import { Nodes, Pools } from "./operating.js";
import { Queues } from "./queues.js";
import { Refused, Server, Unauthorized, about } from "./server.js";

const VIEWS = { queues: Queues, channels: Channels, nodes: Nodes, pools: Pools };
const PROJECT = "zaqar-redis.project";

const at = (id) => document.getElementById(id);
const main = at("main");

let info; // about the service: logins, openid, project, charts
let server = null; // null: nobody has signed in
let session = null; // who has
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
      signOut(`Sign in again: ${error.message}`);
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
    view = new VIEWS[wanted]({ server, session, about: info, refresh });
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

const renew = async (credential) =>
  credentials.keep(await openid.renew(info.openid, credential));

// Only a request shows whether the service accepts a credential, and for which project.
async function open(credential) {
  const wanted = new Server(credential, sessionStorage.getItem(PROJECT) ?? "", renew);
  session = await wanted.session();
  server = wanted;
  server.project = session.project;
  at("project").value = session.project;
  setText(at("who"), [session.user, session.roles.join(", ")].filter(Boolean).join(": "));
  at("sign-out").hidden = isFree();
  at("sign-in").hidden = true;
  at("views").hidden = at("scope").hidden = false;
  route();
}

const isFree = () => info.logins.includes("free");

function signOut(why) {
  leave();
  showProblem("");
  server = null;
  credentials.forget();
  sessionStorage.removeItem(PROJECT);
  at("views").hidden = at("scope").hidden = true;
  at("sign-in").hidden = false;
  setText(at("sign-in-problem"), why);
  at("secret").value = "";
  at("secret").focus();
}

async function signIn(credential) {
  try {
    await open(credential);
    if (!isFree()) credentials.keep(credential);
  } catch (error) {
    signOut(error.message);
  }
}

function showKind() {
  const kind = credentials.KINDS[at("kind").value];
  setText(at("sign-in-why"), `${kind.why} ${kind.headers ? "It stays in this tab." : ""}`);
  setText(at("secret-title"), kind.title);
  at("named").hidden = !kind.named;
  at("secrets").hidden = !kind.headers;
  at("name").required = Boolean(kind.named);
  at("secret").required = Boolean(kind.headers);
}

async function submit(event) {
  event.preventDefault();
  const { headers } = credentials.KINDS[at("kind").value];
  if (headers) {
    await signIn({ headers: headers(at("secret").value, at("name").value), refresh: null });
    return;
  }
  try {
    await openid.begin(info.openid);
  } catch (error) {
    setText(at("sign-in-problem"), error.message);
  }
}

async function changeProject(event) {
  sessionStorage.setItem(PROJECT, event.target.value || info.project);
  leave();
  try {
    await open(credentials.load() ?? { headers: {}, refresh: null });
  } catch (error) {
    sessionStorage.removeItem(PROJECT);
    if (error instanceof Unauthorized) signOut(error.message);
    else showProblem(error.message);
  }
}

function listen() {
  at("kind").append(...info.logins.filter((name) => name in credentials.KINDS).map((name) =>
    make("option", { value: name }, name === "key" ? "Access key" : credentials.KINDS[name].title)));
  at("kind").hidden = at("kind").options.length < 2;
  at("kind").addEventListener("change", showKind);
  at("sign-in").addEventListener("submit", submit);
  at("sign-out").addEventListener("click", () => signOut(""));
  at("scope").addEventListener("submit", (event) => event.preventDefault());
  at("project").addEventListener("change", changeProject);
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
  if (!info.logins.length) {
    main.append(make("section", { class: "card narrow" }, make("h2", {}, "No key is set"),
      make("p", {}, "Nobody can sign in: set api_key in the group [channels] of the service's " +
        "configuration, or strategy in the group [auth], or, to try it, api_insecure = true, and " +
        "restart it.")));
    return;
  }
  listen();
  if (isFree()) {
    await signIn({ headers: {}, refresh: null });
    return;
  }
  showKind();
  try {
    const credential = (info.openid && await openid.finish(info.openid)) ?? credentials.load();
    if (credential) await signIn(credential);
    else signOut("");
  } catch (error) {
    signOut(error.message);
  }
}

start();
