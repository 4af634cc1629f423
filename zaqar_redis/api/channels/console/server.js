// SPDX-License-Identifier: Apache-2.0
// What the service is asked over HTTP.

// JSON as values. Numbers that JavaScript cannot hold stay as they were written, where the browser
// can keep them: they are shown, and not counted with.
export function parse(text) {
  return JSON.parse(text, (_, value, context) => {
    const lost = typeof value === "number" && context?.source && String(value) !== context.source;
    return lost && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
  });
}

// Milliseconds: the service itself gives up sooner.
const PATIENCE = 30_000;

// The key was refused.
export class Unauthorized extends Error {}

// The service said why not: its status, and its words.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function about() {
  return (await request("GET", "about", {})).json();
}

export class Server {
  #key;
  #client = clientId();

  constructor(key, project) {
    this.#key = key;
    this.project = project;
  }

  // A method of the server API. body: an object, or JSON text.
  async api(method, body = {}, signal = null) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const response = await request("POST", `/api/${method}`, this.#guarded(), text, signal);
    const answer = parse(await response.text());
    if (answer.error) throw new Refused(answer.error.code, answer.error.message);
    return answer.result;
  }

  async ticket(channel) {
    const body = JSON.stringify({ channel });
    return (await (await request("POST", "token", this.#guarded(), body)).json()).token;
  }

  // Of the queue API; path is below /v2.
  async queues(method, path, body = null, signal = null) {
    const headers = { ...this.#scoped(), "Client-ID": this.#client };
    const response = await request(method, `/v2${path}`, headers, body, signal);
    return response.status === 204 ? null : response.json();
  }

  // A page of a listing: its items, and the marker of the page behind it (empty: there is none).
  async page(noun, query, signal) {
    const page = await this.queues("GET", `/${noun}?${new URLSearchParams(query)}`, null, signal);
    const next = markerOf(page.links);
    if (!next) return { items: page[noun], next };
    // The service always names a next page: only asking for it shows whether it has anything.
    const peek = new URLSearchParams({ ...query, marker: next, limit: "1" });
    const behind = await this.queues("GET", `/${noun}?${peek}`, null, signal);
    return { items: page[noun], next: behind[noun].length ? next : "" };
  }

  #scoped() {
    return this.project ? { "X-Project-ID": this.project } : {};
  }

  #guarded() {
    return this.#key ? { ...this.#scoped(), "X-API-Key": this.#key } : this.#scoped();
  }
}

async function request(method, path, headers, body = null, signal = null) {
  const patience = AbortSignal.timeout(PATIENCE);
  const response = await fetch(path, {
    method,
    body,
    headers: body === null ? headers : { ...headers, "Content-Type": "application/json" },
    cache: "no-store",
    signal: signal ? AbortSignal.any([signal, patience]) : patience,
  });
  if (response.status === 401) throw new Unauthorized("the key was refused");
  if (!response.ok) throw new Refused(response.status, await words(response));
  return response;
}

async function words(response) {
  const said = await response.json().catch(() => ({}));
  return said.description ?? said.title ?? `${response.status} ${response.statusText}`;
}

function markerOf(links) {
  const next = links.find((link) => link.rel === "next");
  return (next && new URL(next.href, location.href).searchParams.get("marker")) ?? "";
}

// A UUID; crypto.randomUUID is there on pages of https and of this machine only.
function clientId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
