# SPDX-License-Identifier: Apache-2.0
"""Stock Zaqar's generator of sample configurations has our options too."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest
from oslo_config import cfg, generator
from zaqar.storage import utils

from zaqar_redis.keyspace import client, uris
from zaqar_redis.zaqar_plugin import driver, options


@pytest.mark.parametrize("store", ["message", "management"])
def test_options_are_in_the_sample(store: str, tmp_path: Path) -> None:
    sample = tmp_path / "zaqar.conf.sample"
    names = ("zaqar", "zaqar_redis.zaqar_plugin")
    arguments = [word for name in names for word in ("--namespace", name)]
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    conf([*arguments, "--output-file", str(sample)])
    generator.generate(conf)
    text = sample.read_text()
    assert "[drivers:message_store:redis]" in text, "stock's own options are in it too"
    # As an operator does: uncomment the option.
    part = text.partition(f"[drivers:{store}_store:zaqar-redis]")[2].partition("\n[")[0]
    chosen = [line[1:] for line in part.splitlines() if line.startswith("#") and " = " in line]
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string("[ours]\n" + "\n".join(line for line in chosen if line[0].isalpha()))
    assert dict(parsed["ours"]) == {
        "uri": "zaqar-redis://127.0.0.1:6379/0",
        "timeout": "5.0",
        "connect_timeout": "2.0",
        "max_connections": "64",
        **({"move_timeout": "1.0"} if store == "management" else {}),
    }


@pytest.mark.parametrize("scheme", options.SCHEMES)
def test_stock_finds_our_drivers_by_each_scheme_and_its_default_uri_is_valid(scheme: str) -> None:
    _, (uri, *_) = options.store_options("message", scheme)
    client.validate_uri(uris.to_redis_uri(uri.default))
    assert utils.load_storage_impl(uri.default) is driver.DataDriver
    assert utils.load_storage_impl(uri.default, control_mode=True) is driver.ControlDriver
