// SPDX-License-Identifier: Apache-2.0
// Receives webhooks: verifies them, confirms the subscription, and handles each message once.
//
//     WEBHOOK_SECRET=whsec_... ZAQAR_URL=http://127.0.0.1:8888 node receiver.mjs 8080 received.log
//
// WEBHOOK_SECRET is one of the secrets in the option "secrets" of the subscription. Node 18 or newer, no package.
import { createHmac, timingSafeEqual } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";

const [port, log] = process.argv.slice(2);
const { WEBHOOK_SECRET, ZAQAR_URL } = process.env;
const KEY = Buffer.from(WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");
const TOLERANCE = 300; // seconds
const LARGEST = 1024 * 1024; // bytes of a request
const SIGNED = ["URL-Signature", "URL-Methods", "URL-Paths", "URL-Expires", "X-Project-ID"];

// One line is written at once: a message and the webhook-id by which it is recognised.
const lines = existsSync(log) ? readFileSync(log, "utf8").split("\n").filter(Boolean) : [];
const handled = new Set(lines.map((line) => JSON.parse(line).webhook));

// Put your work here, in one transaction with the webhook-id if you have a database.
function handleOnce(webhook, message) {
  if (handled.has(webhook)) return;
  const id = webhook.split(".").at(-1); // of the message; before it is the subscription's
  appendFileSync(log, JSON.stringify({ webhook, id, body: message.body }) + "\n");
  handled.add(webhook);
}

// Standard Webhooks: https://www.standardwebhooks.com/
function isGenuine(headers, body) {
  const { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": given } = headers;
  if (!id || !given || !(Math.abs(Date.now() / 1000 - Number(time)) <= TOLERANCE)) return false;
  const expected = createHmac("sha256", KEY).update(`${id}.${time}.`).update(body).digest();
  return given.split(" ").some((each) => {
    const [version, text] = each.split(",");
    const signature = Buffer.from(text ?? "", "base64");
    return version === "v1" && signature.length === expected.length
      && timingSafeEqual(signature, expected);
  });
}

// Confirms a subscription, at the service that we know and nowhere else.
async function confirm(request) {
  const headers = Object.fromEntries(SIGNED.map((name) => [name, request[name]]));
  headers["Client-ID"] = "3381af92-2b9e-11e3-b191-71861300734c"; // any UUID
  headers["Content-Type"] = "application/json";
  const body = JSON.stringify(request.SubscribeBody);
  const answer = await fetch(ZAQAR_URL + request["URL-Paths"], { method: "PUT", headers, body });
  if (!answer.ok) throw new Error(`the subscription is not confirmed: ${answer.status}`);
}

async function status(request) {
  const parts = [];
  let size = 0;
  for await (const part of request) {
    size += part.length;
    if (size > LARGEST) return 413;
    parts.push(part);
  }
  const body = Buffer.concat(parts);
  if (!isGenuine(request.headers, body)) return 401; // given up: it is not tried again
  const message = JSON.parse(body);
  if (message.Message_Type === "SubscriptionConfirmation") await confirm(message);
  else if (message.Message_Type === "Notification") handleOnce(request.headers["webhook-id"], message);
  return 204; // delivered
}

createServer(async (request, response) => {
  response.statusCode = await status(request).catch((error) => {
    console.error(error);
    return 503; // it is tried again
  });
  response.end();
}).listen(Number(port), "127.0.0.1");
