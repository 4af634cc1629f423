# SPDX-License-Identifier: Apache-2.0
"""The entry points of targets lead to them."""

from __future__ import annotations

from configparser import ConfigParser
from importlib.metadata import EntryPoint

from tests.conventions.files import ROOT
from zaqar_redis.notify.targets import GROUP, http


def test_http_and_https_have_one_target() -> None:
    declared = ConfigParser()
    declared.read(ROOT / "setup.cfg")
    lines = declared["options.entry_points"][GROUP].split("\n")
    points = dict(line.split(" = ") for line in lines if line)
    factories = [EntryPoint(name, points[name], GROUP).load() for name in ("http", "https")]
    assert factories == [http.create, http.create]
