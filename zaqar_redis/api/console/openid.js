// SPDX-License-Identifier: Apache-2.0
// Signing in at an OpenID provider: its authorization code flow, with PKCE (RFC 7636).

// What the page remembers while the user is at the provider.
const PENDING = "zaqar-redis.openid";

const page = () => location.origin + location.pathname;

// Goes to the provider: {issuer, client_id}.
export async function begin(provider) {
  if (!crypto.subtle) throw new Error("Browsers can do this on pages of https and localhost only.");
  const { authorization_endpoint } = await configuration(provider);
  const [state, verifier] = [random(), random()];
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  sessionStorage.setItem(PENDING, JSON.stringify({ state, verifier, view: location.hash }));
  const query = new URLSearchParams({
    response_type: "code", client_id: provider.client_id, redirect_uri: page(), scope: "openid",
    state, code_challenge: text(new Uint8Array(digest)), code_challenge_method: "S256",
  });
  location.assign(`${authorization_endpoint}?${query}`);
}

// A credential, when the user has come back from the provider; null if it was not there.
export async function finish(provider) {
  const answer = new URLSearchParams(location.search);
  if (!answer.has("state")) return null;
  const pending = JSON.parse(sessionStorage.getItem(PENDING));
  sessionStorage.removeItem(PENDING);
  history.replaceState(null, "", page() + (pending?.view ?? ""));
  if (pending?.state !== answer.get("state")) throw new Error("Another tab began this sign-in.");
  if (!answer.has("code")) {
    throw new Error(answer.get("error_description") ?? answer.get("error") ?? "There is no code.");
  }
  return ask(provider, { grant_type: "authorization_code", code: answer.get("code"),
    redirect_uri: page(), code_verifier: pending.verifier });
}

export function renew(provider, { refresh }) {
  return ask(provider, { grant_type: "refresh_token", refresh_token: refresh });
}

async function ask(provider, form) {
  const { token_endpoint } = await configuration(provider);
  const body = new URLSearchParams({ client_id: provider.client_id, ...form });
  const given = await json(await fetch(token_endpoint, { method: "POST", body }));
  return { headers: { Authorization: `Bearer ${given.access_token}` },
    refresh: given.refresh_token ?? form.refresh_token ?? null };
}

async function configuration({ issuer }) {
  return json(await fetch(`${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`));
}

async function json(response) {
  if (!response.ok) throw new Error(`The OpenID provider answered ${response.status}.`);
  return response.json();
}

const random = () => text(crypto.getRandomValues(new Uint8Array(32)));

// Bytes in base64url, as PKCE has them.
function text(bytes) {
  const base64 = btoa(String.fromCharCode(...bytes));
  return base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
