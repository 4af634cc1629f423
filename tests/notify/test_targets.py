# SPDX-License-Identifier: Apache-2.0
"""The entry points of targets lead to them."""

from __future__ import annotations

from configparser import ConfigParser
from importlib.metadata import EntryPoint

import pytest

from tests.conventions.files import ROOT
from tests.support.targets import target_context
from zaqar_redis.notify.targets import GROUP
from zaqar_redis.notify.targets.http import HttpTarget
from zaqar_redis.notify.targets.mail import MailTarget
from zaqar_redis.notify.targets.trust import TrustTarget


@pytest.mark.parametrize(
    ("schemes", "kind"),
    [
        (("http", "https"), HttpTarget),
        (("mailto",), MailTarget),
        (("trust+http", "trust+https"), TrustTarget),
    ],
)
def test_schemes_of_a_kind_have_one_target(schemes: tuple[str, ...], kind: type) -> None:
    declared = ConfigParser()
    declared.read(ROOT / "setup.cfg")
    lines = declared["options.entry_points"][GROUP].split("\n")
    points = dict(line.split(" = ") for line in lines if line)
    factories = {EntryPoint(name, points[name], GROUP).load() for name in schemes}
    (factory,) = factories
    assert isinstance(factory(target_context()), kind)
