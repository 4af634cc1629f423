# SPDX-License-Identifier: Apache-2.0
"""Receives webhooks: verifies them, confirms the subscription, and handles each message once.

    pip install standardwebhooks
    WEBHOOK_SECRET=whsec_... ZAQAR_URL=http://127.0.0.1:8888 python receiver.py 8080 received.db

WEBHOOK_SECRET is one of the secrets in the option "secrets" of the subscription.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import urllib.request
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook

LARGEST = 1024 * 1024  # bytes of a request
VERIFIER = Webhook(os.environ["WEBHOOK_SECRET"])
ZAQAR_URL = os.environ["ZAQAR_URL"]
DATABASE = sys.argv[2]
SIGNED = ("URL-Signature", "URL-Methods", "URL-Paths", "URL-Expires", "X-Project-ID")


def handle_once(webhook_id: str, message: dict[str, Any]) -> None:
    """Handles a message once: records it and its webhook-id in one transaction."""
    with closing(sqlite3.connect(DATABASE, timeout=5)) as database, database:
        if database.execute("INSERT OR IGNORE INTO webhooks VALUES (?)", [webhook_id]).rowcount:
            # Your work: here it stores the message.
            id = webhook_id.rpartition(".")[2]  # of the message; before it is the subscription's
            row = id, json.dumps(message["body"])
            database.execute("INSERT INTO messages VALUES (?, ?)", row)


def confirm(request: dict[str, Any]) -> None:
    """Confirms a subscription, only at the service that we know."""
    headers = {name: request[name] for name in SIGNED}
    headers["Client-ID"] = "3381af92-2b9e-11e3-b191-71861300734c"  # any UUID
    headers["Content-Type"] = "application/json"
    url, body = ZAQAR_URL + request["URL-Paths"], json.dumps(request["SubscribeBody"]).encode()
    confirmation = urllib.request.Request(url, body, headers, method="PUT")  # noqa: S310  our own URL
    urllib.request.urlopen(confirmation, timeout=5).close()  # noqa: S310  our own URL


class WebhookReceiver(BaseHTTPRequestHandler):
    timeout = 10  # seconds that a client may take

    def do_POST(self) -> None:
        self.send_response(self.status())
        self.end_headers()

    def status(self) -> int:
        try:
            length = int(self.headers["Content-Length"])
            if not 0 <= length <= LARGEST:
                return 413
            message = VERIFIER.verify(self.rfile.read(length), dict(self.headers))
        except Exception:  # whatever a forger sends
            return 401  # given up: it is not tried again
        try:
            if message["Message_Type"] == "SubscriptionConfirmation":
                confirm(message)
            elif message["Message_Type"] == "Notification":
                handle_once(self.headers["webhook-id"], message)
        except Exception as error:
            self.log_error("%r", error)
            return 503  # it is tried again
        return 204  # delivered


if __name__ == "__main__":
    with closing(sqlite3.connect(DATABASE)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS webhooks (id TEXT PRIMARY KEY)")
        database.execute("CREATE TABLE IF NOT EXISTS messages (id TEXT, body TEXT)")
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), WebhookReceiver).serve_forever()
