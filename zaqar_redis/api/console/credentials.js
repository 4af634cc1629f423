// SPDX-License-Identifier: Apache-2.0
// What users sign in with. A credential: the headers of its requests, and what renews it (null:
// nothing). It stays in this tab.

const STORED = "zaqar-redis.credential";

const basic = (name, secret) =>
  `Basic ${btoa(String.fromCharCode(...new TextEncoder().encode(`${name}:${secret}`)))}`;

// By the names that the service gives them. headers: of a secret, and of a name where it has one.
export const KINDS = {
  api_key: {
    title: "API key",
    why: "The key is the option api_key in the group [channels] of the service's configuration.",
    headers: (secret) => ({ "X-API-Key": secret }),
  },
  openid: { title: "OpenID", why: "You sign in at the OpenID provider, and come back." },
  key: {
    title: "Secret",
    named: true,
    why: "An access key, as zaqar-redis key create has shown it.",
    headers: (secret, name) => ({ Authorization: basic(name, secret) }),
  },
  jwt: {
    title: "Token",
    why: "A token of the OpenID provider.",
    headers: (secret) => ({ Authorization: `Bearer ${secret}` }),
  },
  keystone: {
    title: "Keystone token",
    why: "A token of a project, as openstack token issue shows it.",
    headers: (secret) => ({ "X-Auth-Token": secret }),
  },
};

export const load = () => JSON.parse(sessionStorage.getItem(STORED));

export function keep(credential) {
  sessionStorage.setItem(STORED, JSON.stringify(credential));
  return credential;
}

export const forget = () => sessionStorage.removeItem(STORED);
