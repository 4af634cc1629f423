# SPDX-License-Identifier: Apache-2.0
"""The configuration files of stock's tests, made over for another driver."""

from __future__ import annotations

import configparser
import shutil
from pathlib import Path

from tests.upstream.targets import Target

#: Backends that the files name as the one for messages, of those this replaces.
_REPLACED = ("mongodb",)


def make(installed: Path, into: Path, target: Target, uri: str) -> None:
    """Write each file of *installed* to *into*, with the driver instead of MongoDB."""
    shutil.copytree(installed, into)
    for path in into.glob("*.conf"):
        config = configparser.ConfigParser(interpolation=None)
        config.read(path)
        if config.has_section("drivers"):
            _make_over(config, target, uri)
            with path.open("w") as file:
                config.write(file)


def _make_over(config: configparser.ConfigParser, target: Target, uri: str) -> None:
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
