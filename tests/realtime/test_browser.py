# SPDX-License-Identifier: Apache-2.0
"""centrifuge-js, in a real browser, on a page of another origin: two workers, one Redis."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import signal
import subprocess
import tarfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from playwright.sync_api import Browser, Page

from tests.realtime.sdk_client import KEY, SECRET
from tests.realtime.streams import api
from tests.support import servers

OPTIONS: dict[str, dict[str, object]] = {
    "channels": {
        "token_hmac_secret_key": SECRET,
        "api_key": KEY,
        "allowed_origins": "http://127.0.0.1:*",
        "presence": True,
        "history_size": 50,
        "history_ttl": 300,
        "force_recovery": True,
        "allow_subscribe_for_client": True,
        "allow_publish_for_subscriber": True,
        "allow_history_for_subscriber": True,
        "allow_presence_for_subscriber": True,
        "allowed_delta_types": "fossil",
        "delta_publish": True,
    }
}
#: Its events are in `events`: [kind, details].
PAGE = """
<!doctype html>
<script src="SDK"></script>
<script>
const events = [], binary = BINARY;
const pack = (data) => binary ? new TextEncoder().encode(JSON.stringify(data)) : data;
const unpack = (data) => binary ? JSON.parse(new TextDecoder().decode(data)) : data;
// Bytes that are no text, as numbers.
const read = (data) => binary && data[0] > 127 ? Array.from(data) : unpack(data);
let client, subscription;

function start(transport, service, token, channel, options) {
  const scheme = transport === 'websocket' ? 'ws' : 'http';
  const endpoint = `${scheme}://${service}/connection/${transport}`;
  client = new Centrifuge([{transport, endpoint}], {
    token,
    emulationEndpoint: `http://${service}/emulation`,
    minReconnectDelay: 1000,
  });
  client.on('connecting', (ctx) => events.push(['connecting', ctx.code]));
  client.on('connected', (ctx) => events.push(['connected', ctx.transport]));
  client.on('disconnected', (ctx) => events.push(['disconnected', [ctx.code, ctx.reason]]));
  subscription = client.newSubscription(channel, options);
  subscription.on('subscribed', (ctx) =>
    events.push(['subscribed', [ctx.wasRecovering, ctx.recovered]]));
  subscription.on('publication', (ctx) =>
    events.push(['publication', [ctx.offset, read(ctx.data)]]));
  subscription.subscribe();
  client.connect();
  return subscription.ready();
}

async function readState() {
  const {publications, offset} = await subscription.history({limit: -1});
  const {clients} = await subscription.presence();
  const {numClients, numUsers} = await subscription.presenceStats();
  return {
    history: publications.map((each) => unpack(each.data)),
    offset,
    users: Object.values(clients).map((each) => each.user),
    stats: [numClients, numUsers],
  };
}
</script>
"""


class SilentFileHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves the files of *folder*; yields the base URL."""
    handler = functools.partial(SilentFileHandler, directory=str(folder))
    file_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with servers.http_server(file_server) as server:
        yield f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of one page for each format."""
    folder = tmp_path_factory.mktemp("pages")
    npm = ["npm", "pack", "--silent", "centrifuge@5.8.0"]
    subprocess.run(npm, cwd=folder, check=True, timeout=60, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    for name, sdk in (("json", "centrifuge.js"), ("protobuf", "centrifuge.protobuf.js")):
        page = PAGE.replace("SDK", f"package/dist/{sdk}")
        (folder / f"{name}.html").write_text(
            page.replace("BINARY", "true" if name == "protobuf" else "false")
        )
    with served(folder) as address:
        yield address


def payload(n: int) -> dict[str, Any]:
    """Returns data long enough for a delta."""
    return {"n": n, "text": "the same again, é" * 5}


def events(page: Page, what: str) -> list[Any]:
    return [details for kind, details in page.evaluate("events") if kind == what]


def until(page: Page, what: str, count: int) -> list[Any]:
    """Waits for *count* events of a kind; returns the details of all of them."""
    enough = "([what, count]) => events.filter((each) => each[0] === what).length >= count"
    page.wait_for_function(enough, arg=[what, count], timeout=60_000)
    return events(page, what)


@pytest.mark.parametrize(
    ("transport", "format", "options"),
    [
        ("websocket", "json", {"delta": "fossil"}),
        pytest.param("websocket", "protobuf", {}, marks=pytest.mark.nightly),
        pytest.param("http_stream", "json", {}, marks=pytest.mark.nightly),
        ("http_stream", "protobuf", {}),
        pytest.param("sse", "json", {}, marks=pytest.mark.nightly),
    ],
)
def test_centrifuge_js_recovers_missed_publications(
    browser: Browser,
    pages: str,
    service: servers.RunningService,
    transport: str,
    format: str,
    options: dict[str, str],
) -> None:
    user, channel = str(uuid.uuid4()), str(uuid.uuid4())
    token = jwt.encode({"sub": user}, SECRET, algorithm="HS256")
    page, frames = browser.new_page(), list[bytes | str]()
    page.on(
        "websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(frame))
    )
    page.goto(f"{pages}/{format}.html")
    given = [transport, f"127.0.0.1:{service.port}", token, channel, options]
    page.evaluate("(given) => start(...given)", given)
    assert until(page, "connected", 1) == [transport]
    page.evaluate("(data) => subscription.publish(pack(data))", payload(1))
    assert until(page, "publication", 1) == [[1, payload(1)]]
    assert page.evaluate("readState()") == {
        "history": [payload(1)],
        "offset": 1,
        "users": [user],
        "stats": [1, 1],
    }

    # The server disconnects it for a second, and it misses publications.
    api(service, "disconnect", user=user, disconnect={"code": 3011, "reason": "force reconnect"})
    assert until(page, "connecting", 2)[1] == 3011
    for n in (2, 3, 4):
        api(service, "publish", channel=channel, data=payload(n))
    assert until(page, "subscribed", 2) == [[False, False], [True, True]]
    assert until(page, "publication", 4) == [[n, payload(n)] for n in (1, 2, 3, 4)]

    # Its connection is lost without a close frame.
    for worker in service.workers():
        os.kill(worker, signal.SIGKILL)
    servers.wait_for(service.answers, "other workers")
    for n in (5, 6):
        api(service, "publish", channel=channel, data=payload(n))
    assert until(page, "subscribed", 3)[2] == [True, True]
    assert until(page, "publication", 6) == [[n, payload(n)] for n in range(1, 7)]
    # After each subscribe the first publication was full, later ones deltas if requested.
    came = "".join(map(str, frames)).count('"delta":true,"time":')
    assert came == (3 if options else 0)
    page.close()


def test_binary_publication_reaches_protobuf_and_disconnects_json_client(
    browser: Browser, pages: str, service: servers.RunningService
) -> None:
    channel = str(uuid.uuid4())
    both = {}
    for format in ("json", "protobuf"):
        token = jwt.encode({"sub": format}, SECRET, algorithm="HS256")
        page = both[format] = browser.new_page()
        page.goto(f"{pages}/{format}.html")
        given = ["websocket", f"127.0.0.1:{service.port}", token, channel, {}]
        page.evaluate("(given) => start(...given)", given)
    both["json"].evaluate("(data) => subscription.publish(pack(data))", payload(1))
    both["protobuf"].evaluate("(data) => subscription.publish(pack(data))", payload(2))
    for page in both.values():
        assert until(page, "publication", 2) == [[1, payload(1)], [2, payload(2)]]
    bytes_ = [255, 0, 10, 123]
    both["protobuf"].evaluate("(data) => subscription.publish(new Uint8Array(data))", bytes_)
    assert until(both["protobuf"], "publication", 3)[2] == [3, bytes_]
    assert until(both["json"], "disconnected", 1) == [[3506, "inappropriate protocol"]]
    for page in both.values():
        page.close()
