# SPDX-License-Identifier: Apache-2.0
"""Stock Zaqar as a running service, over our driver or its own."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests.support import servers
from tests.upstream import crowd
from tests.upstream.targets import TARGETS
from zaqar_redis.benchmarks.logs import check_log

_ROOT = Path(__file__).parents[2]

#: Log lines of stock Zaqar for a refused request: with a traceback.
_REFUSED = " ERROR zaqar.transport.wsgi."

#: Without authentication nobody is an administrator, so nobody could use these operations.
POLICY = "".join(
    f'"{what}": "@"\n'
    for what in (
        "health:get",
        *(f"pools:{verb}" for verb in ("get_all", "create", "get", "update", "delete")),
        *(f"flavors:{verb}" for verb in ("get_all", "create", "get", "update", "delete")),
    )
)


@contextlib.contextmanager
def zaqar(
    uri: str,
    *options: str,
    python: str = sys.executable,
    target: str = "zaqar-redis",
    pooling: bool = False,
) -> Iterator[str]:
    """Runs stock Zaqar on the Redis at *uri*, yields its URL; *options* are gunicorn's."""
    with tempfile.TemporaryDirectory(prefix="zr-stock-") as folder:
        config = Path(folder) / "zaqar.conf"
        config.write_text(configuration(uri, target, pooling))
        (Path(folder) / "policy.yaml").write_text(POLICY)
        port = servers.free_port()
        url = f"http://127.0.0.1:{port}"
        log = Path(folder) / "log"
        command = [
            *(python, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}"),
            *("--chdir", folder, *options, "tests.upstream.app:app"),
        ]
        environment = {"STOCK_ZAQAR_CONF": str(config), "PYTHONPATH": str(_ROOT)}
        process = servers.start_logged(command, log, environment)
        with servers.stopping(process, 30):
            servers.wait_for(
                lambda: _answers(url) or process.poll() is not None, "stock Zaqar to start", 60
            )
            if process.poll() is not None:
                raise RuntimeError(f"stock Zaqar did not start:\n{log.read_text()}")
            yield url
        lines = log.read_text().splitlines(keepends=True)
        check_log("stock Zaqar", "".join(line for line in lines if _REFUSED not in line))


@contextlib.contextmanager
def inside(folder: Path, configured: str) -> Iterator[httpx.Client]:
    """A client of stock Zaqar that runs in this process."""
    (folder / "policy.yaml").write_text(POLICY)
    bootstrap = crowd.bootstrap(servers.config_file(folder, configured))
    with httpx.Client(transport=httpx.WSGITransport(app=bootstrap.transport.app)) as client:
        yield client
    bootstrap.storage.close()
    bootstrap.control.close()


def configuration(
    uri: str, target: str = "zaqar-redis", pooling: bool = False, management: str = ""
) -> str:
    """Returns a zaqar.conf with the store at *uri*, and *management* if given."""
    scheme = TARGETS[target].scheme
    return f"""
[DEFAULT]
admin_mode = True
auth_strategy =
pooling = {pooling}
[signed_url]
secret_key = of the tests only
[drivers]
message_store = {scheme}
management_store = {scheme}
[drivers:message_store:{scheme}]
uri = {uri}
[drivers:management_store:{scheme}]
uri = {management or uri}
[oslo_policy]
policy_file = policy.yaml
[profiler]
enabled = False
# The default needs a library that is not installed, and logs an error.
connection_string = redis://127.0.0.1
"""


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/v2/ping", headers={"Client-ID": "x"}).status_code < 500
    except httpx.HTTPError:
        return False
