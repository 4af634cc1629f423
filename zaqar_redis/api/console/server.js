// SPDX-License-Identifier: Apache-2.0
// The client of the service's HTTP APIs.

// JSON as values. Numbers that JavaScript cannot hold stay as they were written, if the browser
// supports it: they are for display only.
export function parse(text) {
  return JSON.parse(text, (_, value, context) => {
    const lost = typeof value === "number" && context?.source && String(value) !== context.source;
    return lost && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
  });
}

// Of a queue or topic, below /v2. kind: queues or topics.
export const pathOf = (name, kind = "queues") => `/${kind}/${encodeURIComponent(name)}`;

// What one of a kind is called, and its channel begins with.
export const nounOf = (kind) => kind.slice(0, -1);

const JSON_TYPE = "application/json";

// Entries of a listing that is shown as a whole.
const LISTED_MAX = 2000;

// Of a request; the service's own timeouts are shorter.
const TIMEOUT_MS = 30_000;

// The service did not accept the credential.
export class Unauthorized extends Error {}

// The service refused the request: its status, and its message.
export class Refused extends Error {
  // isStore: the service itself is well, but its Redis did not answer.
  constructor(status, message, isStore = status === 503) {
    super(message);
    this.status = status;
    this.isStore = isStore;
  }
}

// The server API's error for what the service could not do: its Redis is away.
const INTERNAL = 100;

export async function about() {
  return (await request("GET", "about", {})).json();
}

export class Server {
  #credential;
  #renew;
  #renewing = null;
  #client = clientId();

  // project: empty for that of the credential. renew(credential) resolves to another one.
  constructor(credential, project, renew) {
    this.#credential = credential;
    this.#renew = renew;
    this.project = project;
  }

  // Who has signed in, and what they may do.
  async session() {
    return (await this.#request("GET", "session", {})).json();
  }

  // A method of the server API. body: an object, or JSON text.
  async api(method, body = {}, signal = null) {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    const response = await this.#request("POST", `/api/${method}`, {}, text, signal);
    const answer = parse(await response.text());
    if (answer.error?.code === INTERNAL) {
      throw new Refused(INTERNAL, "channels cannot be asked now.", true);
    }
    if (answer.error) throw new Refused(answer.error.code, answer.error.message);
    return answer.result;
  }

  async ticket(channel) {
    const body = JSON.stringify({ channel });
    return (await (await this.#request("POST", "token", {}, body)).json()).token;
  }

  // A request to the queue API; path is below /v2. type: of the body; timeout: milliseconds.
  async queues(method, path, body = null, signal = null,
    { type = JSON_TYPE, timeout = TIMEOUT_MS } = {}) {
    const headers = { "Client-ID": this.#client, ...(body !== null && { "Content-Type": type }) };
    const response = await this.#request(method, `/v2${path}`, headers, body, signal, timeout);
    return response.status === 204 ? null : parse(await response.text() || "null");
  }

  // Moves or copies messages: {queue, ids, limit, copy}.
  move(queue, asked) {
    return this.queues("POST", `${pathOf(queue)}/move`, JSON.stringify(asked));
  }

  // All of a listing that has few entries: pools, quotas.
  async all(resource, query, signal) {
    const found = [];
    for (let marker = ""; found.length < LISTED_MAX;) {
      const given = { ...query, ...(marker && { marker }) };
      const page = await this.queues("GET", `/${resource}?${new URLSearchParams(given)}`, null, signal);
      found.push(...page[resource]);
      marker = markerOf(page.links);
      if (!page[resource].length || !marker) break;
    }
    return found;
  }

  // What the console's own endpoints tell; path is below /console.
  async console(path, query = {}, signal = null) {
    const text = new URLSearchParams(query).toString();
    const response = await this.#request("GET", text ? `${path}?${text}` : path, {}, null, signal);
    return response.json();
  }

  // An act at the console's own endpoints.
  async consoleAct(method, path, body) {
    const text = body === undefined ? null : JSON.stringify(body);
    const response = await this.#request(method, path, {}, text);
    return response.status === 204 ? null : response.json();
  }

  // The figures of a queue in the last hours.
  history(queue, hours, signal) {
    return this.console(`queues/${encodeURIComponent(queue)}/history`, { hours }, signal);
  }

  async #request(method, path, headers, body = null, signal = null, timeout = TIMEOUT_MS) {
    const project = this.project ? { "X-Project-ID": this.project } : {};
    const send = () => request(method, path,
      { ...this.#credential.headers, ...project, ...headers }, body, signal, timeout);
    const used = this.#credential;
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof Unauthorized && used.refresh)) throw error;
    }
    // Of many requests that are refused at once, the first renews it.
    if (used === this.#credential) await (this.#renewing ??= this.#renewCredential());
    return send();
  }

  async #renewCredential() {
    try {
      this.#credential = await this.#renew(this.#credential);
    } catch (error) {
      throw new Unauthorized(error.message);
    } finally {
      this.#renewing = null;
    }
  }
}

async function request(method, path, headers, body = null, signal = null, timeout = TIMEOUT_MS) {
  const end = AbortSignal.timeout(timeout);
  const response = await fetch(path, {
    method,
    body,
    headers: body === null ? headers : { "Content-Type": JSON_TYPE, ...headers },
    cache: "no-store",
    signal: signal ? AbortSignal.any([signal, end]) : end,
  }).catch((error) => {
    throw error.name === "TimeoutError"
      ? new Error(`no answer within ${timeout / 1000} s`) : error;
  });
  if (response.status === 401) throw new Unauthorized(await errorText(response));
  if (!response.ok) throw new Refused(response.status, await errorText(response));
  return response;
}

async function errorText(response) {
  const problem = await response.json().catch(() => ({}));
  return problem.description ?? problem.title ?? `${response.status} ${response.statusText}`;
}

// The marker of the next page; empty: there is none.
export function markerOf(links) {
  const next = links.find((link) => link.rel === "next");
  return (next && new URL(next.href, location.href).searchParams.get("marker")) ?? "";
}

// A UUID; crypto.randomUUID exists only on pages of https and of localhost.
function clientId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
