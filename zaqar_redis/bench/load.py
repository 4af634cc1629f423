# SPDX-License-Identifier: Apache-2.0
"""Running wrk, the load generator, and reading what it found."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import msgspec

from zaqar_redis import errors
from zaqar_redis.bench.service import Failed

#: Seconds beyond its time that wrk gets for ending.
_GRACE = 30.0
#: Seconds until a request is counted as lost; the slowest of stock Zaqar's take several.
_TIMEOUT = 20


class Sample(msgspec.Struct, frozen=True):
    """What one round of one workload found."""

    #: units of the workload in a second
    rate: float
    #: milliseconds from request to answer, or from post to claim
    p50: float
    p99: float
    #: of one core, that the load generator used
    generator: float
    #: requests that failed or were refused
    errors: int
    #: units done, and whether there was nothing left to do at the end
    work: int
    dry: bool = False


class Load:
    """wrk over one thread and a number of connections."""

    def __init__(self, connections: int) -> None:
        self.connections = connections
        self._program = wrk()

    def run(
        self,
        script: str,
        url: str,
        headers: Mapping[str, str],
        seconds: int,
        *arguments: object,
    ) -> Sample:
        """Raises Failed when wrk does; stops it when interrupted."""
        folder = Path(str(resources.files(__package__).joinpath("wrk")))
        command = [self._program, "-t1", f"-c{self.connections}", f"-d{seconds}s"]
        command += [f"--timeout={_TIMEOUT}s", "-s", str(folder / f"{script}.lua")]
        for name, value in headers.items():
            command += ["-H", f"{name}: {value}"]
        command += [url, "--", *map(str, arguments)]
        used, start = _cpu_of_children(), time.monotonic()
        output = _output(command, os.environ | {"LUA_PATH": f"{folder}/?.lua;;"}, seconds)
        share = (_cpu_of_children() - used) / (time.monotonic() - start)
        return parse(output, share)


def wrk() -> str:
    """Path of wrk.  Raises BadConfiguration, saying how to get it."""
    found = shutil.which("wrk")
    if not found:
        raise errors.BadConfiguration(
            "the load generator wrk is not installed; get it with: apt-get install wrk "
            "(Debian, Ubuntu), dnf install wrk (Fedora) or brew install wrk (macOS)"
        )
    return found


def parse(output: str, generator: float) -> Sample:
    """Read the line that wrk/report.lua ends with.  Raises Failed if there is none."""
    found = re.search(r"^RESULT (\{.*\})$", output, re.MULTILINE)
    if not found:
        raise Failed(f"wrk reported nothing: {output.strip()[-500:]}")
    told = json.loads(found[1])
    failed = told["refused"] + told["broken"]
    work, span = told["requests"] - told["refused"], told["seconds"]
    if "work" in told:
        work, span = told["work"], told["span"]
    return Sample(
        rate=work / span if span else 0.0,
        p50=told["p50"] / 1000,
        p99=told["p99"] / 1000,
        generator=generator,
        errors=failed,
        work=work,
        dry=told.get("empty", 0) > 0,
    )


def _output(command: Sequence[str], environment: Mapping[str, str], seconds: int) -> str:
    # In a session of its own: the terminal's Ctrl-C is ours to handle.
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=seconds + _GRACE)[0]
    except subprocess.TimeoutExpired as error:
        raise Failed(f"wrk did not end within {seconds + _GRACE:.0f} s") from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
