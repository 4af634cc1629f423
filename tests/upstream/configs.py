# SPDX-License-Identifier: Apache-2.0
"""The configuration files of stock's tests, rewritten for another driver."""

from __future__ import annotations

import configparser
import shutil
from pathlib import Path

from tests.upstream.targets import DriverUnderTest

#: Message store backends in the files that are replaced.
_REPLACED = ("mongodb",)


def make(installed: Path, into: Path, target: DriverUnderTest, uri: str) -> None:
    """Writes each file of *installed* to *into*, with the driver instead of MongoDB."""
    shutil.copytree(installed, into)
    for path in into.glob("*.conf"):
        config = configparser.ConfigParser(interpolation=None)
        config.read(path)
        if config.has_section("drivers"):
            _rewrite(config, target, uri)
            with path.open("w") as file:
                config.write(file)


def _rewrite(config: configparser.ConfigParser, target: DriverUnderTest, uri: str) -> None:
    drivers = config["drivers"]
    if drivers.get("message_store") in _REPLACED and "management_store" not in drivers:
        drivers["message_store"] = target.scheme
        drivers["management_store"] = target.scheme
    # MongoDB's sections stay: a test takes the address of a pool from there.
    for section in config.sections():
        if section.startswith("drivers:") and "mongodb" in config[section].get("uri", ""):
            config[section]["uri"] = uri
    for store in ("message_store", "management_store"):
        config[f"drivers:{store}:{target.scheme}"] = {**target.options, "uri": uri}
