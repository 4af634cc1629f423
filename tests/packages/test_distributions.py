# SPDX-License-Identifier: Apache-2.0
"""The sdist has everything; the wheel has what a machine needs, and runs with nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import httpx
import pytest

from tests.conventions.files import ROOT
from tests.packages import distributions
from tests.support.servers import free_port, wait_for

#: The first test builds all: most of a minute on a busy machine.
pytestmark = pytest.mark.timeout(400)

_PACKAGES = ("pyspark_zaqar", "zaqar_redis")
#: Where pip puts the samples of etc/, below the folder of an environment.
_SHARE = Path("share", "zaqar-redis")


@pytest.fixture(scope="module", autouse=True)
def without_the_checkout() -> Iterator[None]:
    """Other tests may put it on the path of all processes that they start, as PySpark does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONPATH", raising=False)
        yield


@pytest.fixture(scope="module")
def environment(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment")
    [wheel] = built.glob("*.whl")
    distributions.install(wheel, folder)
    return folder


def test_the_sdist_has_every_file_of_the_project(built: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set(distributions.sources()) - names == set()


def test_constraints_are_the_versions_that_the_tests_run_with() -> None:
    """Python of another release may need less."""
    named = (ROOT / "constraints.txt").read_text().splitlines()
    assert set(distributions.constraints().splitlines()) - set(named) == set()


def test_the_wheel_has_the_packages_the_samples_and_the_licence(built: Path) -> None:
    [wheel] = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    of_packages = {name for name in distributions.sources() if name.split("/")[0] in _PACKAGES}
    assert {name.split("/")[0] for name in of_packages} == set(_PACKAGES)
    assert of_packages - names == set()
    assert "zaqar_redis/api/console/vendor/uPlot.iife.min.js" in names
    data = f"zaqar_redis-{metadata.version('zaqar-redis')}.data/data/{_SHARE}/"
    samples = {name.removeprefix(data) for name in names if name.startswith(data)}
    assert samples == {
        name.removeprefix("etc/") for name in distributions.sources() if name.startswith("etc/")
    }
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_context_of_an_image_has_all_that_the_wheel_needs(built: Path, tmp_path: Path) -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    allowed = {line[1:] for line in lines if line.startswith("!")}
    names = [name for name in distributions.sources() if name.split("/")[0] in allowed]
    distributions.copy_of_the_sources(tmp_path / "context", names)
    distributions.build(tmp_path / "context", tmp_path / "dist", "--wheel")
    [wheel], [other] = built.glob("*.whl"), (tmp_path / "dist").glob("*.whl")
    assert sorted(zipfile.ZipFile(other).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_an_installed_wheel_says_its_version_and_has_the_samples(environment: Path) -> None:
    command = [str(environment / "bin" / "zaqar-redis"), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.split() == ["zaqar-redis", metadata.version("zaqar-redis")]
    assert (environment / _SHARE / "systemd" / "zaqar-redis.service").is_file()


def test_an_installed_wheel_serves_posts_console_and_stops(
    environment: Path, tmp_path: Path
) -> None:
    port = free_port()
    data = tmp_path / "data"
    command = [str(environment / "bin" / "zaqar-redis"), "serve", "--storage", f"embedded://{data}"]
    variables = {"PATH": os.defpath, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--bind", f"127.0.0.1:{port}"], cwd=tmp_path, env=variables, stderr=log
        )
    try:
        headers = {"Client-ID": "3381af92-2b9e-11e3-b191-71861300734c", "X-Project-ID": "p"}
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, headers=headers, timeout=60) as client:

            def is_served() -> bool:
                assert process.poll() is None, (tmp_path / "log").read_text()
                try:
                    return client.get("/v2/ping").status_code == 204
                except httpx.HTTPError:
                    return False

            wait_for(is_served, "the service to start")
            posted = client.post("/v2/queues/q/messages", json={"messages": [{"body": 1}]})
            assert posted.status_code == 201, posted.text
            [href] = posted.json()["resources"]
            assert client.get(href).json()["body"] == 1
            assert "<html" in client.get("/console/").text
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
