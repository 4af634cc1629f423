# SPDX-License-Identifier: Apache-2.0
"""Tempest's tests of Zaqar, with users and projects that it makes in Keystone."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.keystone import PASSWORD, REGION, RunningKeystone
from tests.upstream.test_upstream import PREVIOUS

_OPTIONS = """
[DEFAULT]
log_file = {folder}/tempest.log
[oslo_concurrency]
lock_path = {folder}
[auth]
create_isolated_networks = False
admin_username = admin
admin_password = {password}
admin_project_name = admin
admin_domain_name = Default
tempest_roles = member
[identity]
uri_v3 = {keystone}
region = {region}
v3_endpoint_type = public
[service_available]
cinder = False
glance = False
neutron = False
nova = False
swift = False
[validation]
run_validation = False
"""
_TESTS = "zaqar_tempest_plugin.tests"


@pytest.mark.nightly
@pytest.mark.usefixtures("beside")
def test_tempest_passes(keystone: RunningKeystone, tmp_path: Path) -> None:
    options = {"folder": tmp_path, "password": PASSWORD, "keystone": keystone.url, "region": REGION}
    (tmp_path / "tempest.conf").write_text(_OPTIONS.format(**options))
    command = [PREVIOUS, "-m", "testtools.run", "discover", "-s", _TESTS]
    environment = os.environ | {"TEMPEST_CONFIG_DIR": str(tmp_path)}
    outcome = processes.run(command, timeout=500, cwd=tmp_path, env=environment)
    said = outcome.stdout + outcome.stderr
    assert outcome.returncode == 0, said
    ran = re.search(r"^Ran (\d+) tests", said, re.MULTILINE)
    assert ran
    assert int(ran[1]) >= 135
