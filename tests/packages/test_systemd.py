# SPDX-License-Identifier: Apache-2.0
"""The units and the layout of a machine, by systemd's own programs, in a folder as root."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conventions.files import ROOT
from tests.packages.options import unknown_variables

_ETC = ROOT / "etc"
_UNIT = _ETC / "systemd" / "zaqar-redis.service"


def _run(*words: str | Path) -> str:
    """Returns what a program writes.  An error of systemd's programs is often a line only."""
    outcome = subprocess.run(
        [str(word) for word in words],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return outcome.stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A file system in which the programs exist that the unit starts."""
    unit = tmp_path / "usr" / "lib" / "systemd" / "system" / _UNIT.name
    unit.parent.mkdir(parents=True)
    shutil.copy(_UNIT, unit)
    for target in ("sysinit", "basic", "network-online", "network", "shutdown", "multi-user"):
        (unit.parent / f"{target}.target").write_text("[Unit]\nDescription=of the system\n")
    for line in _UNIT.read_text().splitlines():
        if started := re.match(r"Exec\w+=(/\S+)", line):
            program = tmp_path / started[1][1:]
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
    return tmp_path


def test_systemd_finds_nothing_wrong_with_the_unit(root: Path) -> None:
    assert _run("systemd-analyze", "verify", f"--root={root}", _UNIT.name) == ""


def test_systemd_names_an_unknown_setting(root: Path) -> None:
    unit = root / "usr" / "lib" / "systemd" / "system" / _UNIT.name
    unit.write_text(unit.read_text().replace("ProtectHome=", "ProtectsHome="))
    assert "ProtectsHome" in _run("systemd-analyze", "verify", f"--root={root}", _UNIT.name)


def test_the_unit_gives_the_service_little_of_the_machine() -> None:
    # In tenths, from 0 to 100. What is left: the network, and files that everybody may read.
    _run("systemd-analyze", "security", "--offline=true", "--threshold=15", _UNIT)


def test_the_user_of_the_unit_is_made(root: Path) -> None:
    _copy(root, "sysusers.d")
    (root / "etc").mkdir(exist_ok=True)
    _run("systemd-sysusers", f"--root={root}", "zaqar-redis.conf")
    users = (root / "etc" / "passwd").read_text()
    assert [
        line.split(":")[5] for line in users.splitlines() if line.startswith("zaqar-redis:")
    ] == ["/var/lib/zaqar-redis"]
    assert "User=zaqar-redis\nGroup=zaqar-redis\n" in _UNIT.read_text()


def test_the_folders_are_made_for_nobody_else(root: Path) -> None:
    file = _copy(root, "tmpfiles.d")
    owners = re.compile(r"(?m)^([dz] +\S+ +\d+) +(\S+) +(\S+)$")
    found = [(user, group) for _, user, group in owners.findall(file.read_text())]
    assert set(found) <= {("root", "root"), ("root", "zaqar-redis"), ("zaqar-redis",) * 2}
    # Only root may give files away.
    file.write_text(owners.sub(r"\1 - -", file.read_text()))
    _run("systemd-tmpfiles", "--create", f"--root={root}", "zaqar-redis.conf")
    modes = {
        name: oct((root / name).stat().st_mode & 0o777)
        for name in ("etc/zaqar_redis", "var/lib/zaqar-redis", "var/log/zaqar-redis")
    }
    assert modes == {
        "etc/zaqar_redis": "0o750",
        "var/lib/zaqar-redis": "0o700",
        "var/log/zaqar-redis": "0o750",
    }


def test_the_document_installs_every_file_for_a_machine(root: Path) -> None:
    lines = (ROOT / "doc" / "install.md").read_text().splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("    install -D ")]
    for *words, target in commands:
        # Of "-t FOLDER FILE" the folder is the target, else the last word.
        folder = words[-1] if words[-2] == "-t" else ""
        words = [*words[:-1], f"{root}{folder}", target] if folder else [*words, f"{root}{target}"]
        subprocess.run(words, cwd=_ETC, check=True, timeout=60)
    installed = {path.name for path in root.rglob("*") if path.is_file()}
    machine = ("default", "logrotate.d", "systemd", "sysusers.d", "tmpfiles.d")
    assert {path.name for name in machine for path in (_ETC / name).iterdir()} <= installed
    assert oct((root / "etc" / "default" / "zaqar-redis").stat().st_mode & 0o777) == "0o600"
    assert (root / "etc" / "zaqar_redis" / "zaqar_redis.conf").is_file()
    assert (root / "usr" / "lib" / "systemd" / "system" / _UNIT.name).is_file()


def _copy(root: Path, folder: str) -> Path:
    """Puts a file of etc/ where systemd looks for it."""
    target = root / "usr" / "lib" / folder / "zaqar-redis.conf"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(_ETC / folder / target.name, target)
    return target


def test_the_file_of_the_environment_sets_options_that_exist() -> None:
    lines = (_ETC / "default" / "zaqar-redis").read_text().splitlines()
    names = {line.lstrip("#").partition("=")[0] for line in lines if line.startswith("#ZAQAR")}
    assert names
    assert unknown_variables(names) == set()


def test_the_audit_log_is_rotated_where_the_unit_lets_the_service_write() -> None:
    unit = _UNIT.read_text()
    assert "LogsDirectory=zaqar-redis\n" in unit
    assert "/var/log/zaqar-redis/*.log {" in (_ETC / "logrotate.d" / "zaqar-redis").read_text()
