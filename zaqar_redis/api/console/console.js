// SPDX-License-Identifier: Apache-2.0
// The page: sign-in, the view that is shown, and its refresh.

import { Access } from "./access.js";
import { address, current, markCurrent, setProject } from "./address.js";
import { Channel } from "./channel.js";
import { Channels } from "./channels.js";
import { Connections } from "./connections.js";
import { Consumers } from "./consumers.js";
import * as credentials from "./credentials.js";
import * as dialog from "./dialog.js";
import { announce, make, setText } from "./dom.js";
import { Keys } from "./keys.js";
import { Nodes } from "./nodes.js";
import * as openid from "./openid.js";
import { Overview } from "./overview.js";
import { Pools } from "./pools.js";
import { chooseProject } from "./projects.js";
import { Queue, Topic } from "./queue.js";
import { Queues } from "./queues.js";
import { Schedules } from "./schedules.js";
import { Refused, Server, Unauthorized, about } from "./server.js";
import { Topics } from "./topics.js";

// By the first part of the address: title, the view, and that of one entry.
const VIEWS = {
  overview: ["Overview", Overview],
  queues: ["Queues", Queues, Queue],
  consumers: ["Consumers", Consumers],
  topics: ["Topics", Topics, Topic],
  schedules: ["Schedules", Schedules],
  channels: ["Channels", Channels, Channel],
  connections: ["Connections", Connections],
  nodes: ["Nodes", Nodes],
  pools: ["Pools", Pools],
  access: ["Access", Access, Keys],
};
// Views of what a service without channels does not have.
const OF_CHANNELS = ["channels", "connections", "nodes"];
const PROJECT = "zaqar-redis.project";
// Each implies those behind it.
const ROLES = ["admin", "member", "reader"];
// Seconds until the service is asked again that did not answer.
const AGAIN = 3;

const at = (id) => document.getElementById(id);
const main = at("main");

let info; // about the service: logins, openid, charts, channels
let server = null; // null: nobody has signed in
let session = null; // who has
let view = null;
let shown = null; // the name of the view, and of its entry
let timer = null;
let opening = 0; // counts attempts to open a project
let pending = null; // aborts the refresh that is running

function showProblem(text) {
  setText(at("problem"), text);
  at("problem").hidden = !text;
}

async function refresh() {
  clearTimeout(timer);
  pending?.abort();
  if (!view || document.hidden) return;
  const running = new AbortController();
  pending = running;
  try {
    await view.refresh(running.signal);
    if (running.signal.aborted) return;
    main.setAttribute("aria-busy", "false");
    showProblem("");
  } catch (error) {
    if (running.signal.aborted) return;
    if (error instanceof Unauthorized) {
      signOut(`Sign in again: ${error.message}`);
      return;
    }
    showProblem(told(error));
  }
  timer = setTimeout(refresh, view.seconds * 1000);
}

// What has happened, to somebody who wants to know what to do.
function told(error) {
  if (!(error instanceof Refused)) {
    return `The service cannot be reached: ${error.message}. The page goes on trying.`;
  }
  if (error.isStore) {
    return `The service cannot reach its Redis: ${error.message} The page goes on trying; what it ` +
      "shows is from before.";
  }
  return `The service refused the request: ${error.message}`;
}

function route() {
  if (!server) return;
  const { view: name, name: entry, params } = current();
  if (params.project && params.project !== session.project) {
    leave(); // what is shown is of another project
    open(credential()).catch(refused);
    return;
  }
  const isThere = Object.hasOwn(VIEWS, name);
  const wanted = isThere ? name : "overview";
  if (!params.project || !isThere) {
    history.replaceState(null, "", isThere ? address(wanted, entry, params) : address(wanted));
  }
  const [title, List, Entry] = VIEWS[wanted];
  const Wanted = entry && Entry ? Entry : List;
  const identity = `${wanted}/${entry}`;
  const isOther = identity !== shown;
  if (isOther) {
    const isFirst = shown === null;
    leave();
    shown = identity;
    view = new Wanted({ server, session, about: info, refresh, act, ask }, entry);
    main.append(view.element);
    if (!isFirst) main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  markCurrent(at("views"), address(wanted));
  document.title = `${entry && Entry ? entry : title} – zaqar-redis`;
  view.open(params);
  main.setAttribute("aria-busy", "true"); // until it shows what is asked for
  refresh();
}

// What a button does at once; done: the text when it is done.
async function act(work, done) {
  try {
    await work();
    announce(done);
  } catch (error) {
    announce(told(error), { isProblem: true });
  }
  refresh();
}

// What a dialog asks for first, see dialog.js.
async function ask({ done, ...asked }) {
  if (!await dialog.ask(asked)) return false;
  announce(done);
  refresh();
  return true;
}

function leave() {
  pending?.abort();
  clearTimeout(timer);
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  view?.close();
  view?.element.remove();
  view = shown = null;
}

async function renew(credential) {
  const renewed = await openid.renew(info.openid, credential);
  // Else they have signed out meanwhile, or somebody else has signed in.
  if (credentials.load()?.refresh === credential.refresh) credentials.keep(renewed);
  return renewed;
}

// Only a request shows whether the service accepts a credential, and for which project.
async function open(credential) {
  const asked = ++opening;
  const project = current().params.project ?? sessionStorage.getItem(PROJECT) ?? "";
  const wanted = new Server(credential, project, renew);
  const found = await wanted.session().catch((error) => {
    if (asked === opening) throw error;
  });
  if (asked !== opening) return; // another one, or nobody, has signed in meanwhile
  leave();
  session = found;
  server = wanted;
  server.project = session.project;
  sessionStorage.setItem(PROJECT, session.project);
  setProject(session.project);
  const { project: named = session.project } = current().params;
  if (named !== session.project) setAddress({ project: session.project }); // as the service spells it
  for (const link of at("views").children) link.href = address(link.dataset.view);
  setText(at("project"), `Project: ${session.project}`);
  setText(at("who"), [session.user, rolesOf(session)].filter(Boolean).join(": "));
  at("sign-out").hidden = isFree();
  at("sign-in").hidden = true;
  at("views").hidden = at("scope").hidden = false;
  route();
}

// Changes parameters of the address, without a look at it.
function setAddress(changes) {
  const { view: of, name: entry, params } = current();
  history.replaceState(null, "", address(of, entry, { ...params, ...changes }));
}

// Another project could not be opened.
function refused(error) {
  if (error instanceof Unauthorized) {
    signOut(`Sign in again: ${error.message}`);
    return;
  }
  showProblem(told(error));
  if (error instanceof Refused && !error.isStore) return;
  clearTimeout(timer);
  timer = setTimeout(route, AGAIN * 1000);
}

// Without those that others of them imply.
function rolesOf({ roles }) {
  const highest = ROLES.find((role) => roles.includes(role));
  return roles.filter((role) => role === highest || !ROLES.includes(role)).join(", ");
}

const isFree = () => info.logins.includes("free");

function signOut(why) {
  opening += 1;
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
  if (!isFree()) credentials.keep(credential); // first: it may be renewed while it is tried
  try {
    await open(credential);
    showProblem("");
  } catch (error) {
    if (error instanceof Unauthorized || (error instanceof Refused && !error.isStore)) {
      // The project of the address may be closed to who signs in, and the own one is not.
      if (error instanceof Refused) setAddress({ project: null });
      signOut(error.message);
      return;
    }
    // The credential may be right: nobody could say.
    showProblem(told(error));
    clearTimeout(timer);
    timer = setTimeout(() => signIn(credentials.load() ?? credential), AGAIN * 1000);
  }
}

function showKind() {
  const kind = credentials.KINDS[at("kind").value];
  setText(at("sign-in-why"), `${kind.why} ${kind.headers ? "It stays in this tab." : ""}`);
  setText(at("secret-title"), kind.title);
  at("named").hidden = !kind.named;
  at("secrets").hidden = !kind.headers;
  at("name").required = Boolean(kind.named);
  at("name").disabled = !kind.named; // else its pattern would hold for other kinds
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

const credential = () => credentials.load() ?? { headers: {}, refresh: null };

async function changeProject(name) {
  const { hash } = location;
  setAddress({ project: name });
  try {
    await open(credential());
  } catch (error) {
    history.replaceState(null, "", hash);
    throw error;
  }
}

function listen() {
  if (!info.channels) for (const name of OF_CHANNELS) delete VIEWS[name];
  at("views").append(...Object.entries(VIEWS).map(([name, [title]]) =>
    make("a", { "data-view": name }, title)));
  at("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address is that of the view
    main.focus();
  });
  at("kind").append(...info.logins.filter((name) => name in credentials.KINDS).map((name) =>
    make("option", { value: name }, name === "key" ? "Access key" : credentials.KINDS[name].title)));
  at("kind").hidden = at("kind").options.length < 2;
  at("kind").addEventListener("change", showKind);
  at("sign-in").addEventListener("submit", submit);
  at("sign-out").addEventListener("click", () => {
    history.replaceState(null, "", "#/"); // its project may be closed to the next user
    signOut("");
  });
  at("project").addEventListener("click", () =>
    chooseProject({ server, session }, changeProject));
  window.addEventListener("hashchange", route);
  document.addEventListener("visibilitychange", refresh);
}

async function start() {
  try {
    info = await about();
  } catch (error) {
    showProblem(told(error));
    setTimeout(start, AGAIN * 1000);
    return;
  }
  showProblem("");
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
