# SPDX-License-Identifier: Apache-2.0
"""A real Keystone: sqlite, Fernet tokens, under gunicorn, with projects and users.

To create its database takes longer than to start it: that is done once, and each Keystone starts
with a copy, which is kept in the virtual environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import httpx

from tests.support import servers

REGION = "RegionOne"
#: Of every user.
PASSWORD = "a password for tests"
#: user -> project and role
USERS = {
    "reader": ("blue", "reader"),
    "member": ("blue", "member"),
    "operator": ("blue", "admin"),
    "stranger": ("red", "member"),
    "leaver": ("red", "member"),
    "zaqar": ("service", "service"),
}

_OPTIONS = """
[DEFAULT]
log_file = {folder}/keystone.log
[database]
connection = sqlite:///{folder}/keystone.db
[fernet_tokens]
key_repository = {folder}/keys
[fernet_receipts]
key_repository = {folder}/keys
[credential]
key_repository = {folder}/credential-keys
[identity]
password_hash_rounds = 4
"""
_GUNICORN = """
bind = "127.0.0.1:{port}"
threads = 8
wsgi_app = "keystone.wsgi.api:application"
raw_env = ["OS_KEYSTONE_CONFIG_DIR={folder}"]
control_socket_disable = True
accesslog = "{folder}/access.log"
"""


class RunningKeystone:
    """It can be paused, and stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = servers.free_port()
        self.url = f"http://127.0.0.1:{self._port}/v3"
        self._process: subprocess.Popen[bytes] | None = None
        # A kept connection may just be closed: gunicorn does after two seconds, or after a pause.
        self._http = httpx.Client(timeout=30, limits=httpx.Limits(max_keepalive_connections=0))
        self._admin_token = ""
        #: name -> id
        self.projects: dict[str, str] = {}
        self.users: dict[str, str] = {}
        self.roles: dict[str, str] = {}

    def install(self) -> None:
        """Starts it with a copy of the template."""
        shutil.copy(_template() / "keystone.db", self._folder)
        shutil.copytree(_template() / "keys", self._folder / "keys")
        self._configure()
        self.start()
        self._admin_token = self.token("admin", "admin")
        for endpoint in self.request("GET", "/endpoints").json()["endpoints"]:
            self.request("PATCH", f"/endpoints/{endpoint['id']}", {"endpoint": {"url": self.url}})
        self.projects, self.users, self.roles = map(self._ids, ("project", "user", "role"))

    def _ids(self, kind: str) -> dict[str, str]:
        found = self.request("GET", f"/{kind}s").json()[f"{kind}s"]
        return {each["name"]: each["id"] for each in found}

    def create_template(self) -> None:
        """Creates its database and its keys, and in it projects and users."""
        self._configure()
        (self._folder / "keys").mkdir(mode=0o700)
        self._manage("db_sync")
        user, group = str(os.getuid()), str(os.getgid())
        self._manage("fernet_setup", "--keystone-user", user, "--keystone-group", group)
        given = {"password": PASSWORD, "public-url": self.url, "internal-url": self.url}
        given |= {"region-id": REGION}
        self._manage("bootstrap", *(f"--bootstrap-{name}={value}" for name, value in given.items()))
        self.start()
        self._admin_token = self.token("admin", "admin")
        self._create_users()

    def _configure(self) -> None:
        (self._folder / "keystone.conf").write_text(_OPTIONS.format(folder=self._folder))
        gunicorn = _GUNICORN.format(folder=self._folder, port=self._port)
        # Found in its working folder; Keystone would take arguments for its own.
        (self._folder / "gunicorn.conf.py").write_text(gunicorn)

    def _manage(self, *words: str) -> None:
        command = [_program("keystone-manage"), "--config-dir", str(self._folder), *words]
        subprocess.run(command, check=True, capture_output=True, timeout=300)

    def start(self) -> None:
        log = self._folder / "gunicorn.log"
        self._process = servers.start_logged([_program("gunicorn")], log, cwd=self._folder)
        servers.wait_for(self._answers, "Keystone to start")

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(self.url, timeout=2, verify=False).status_code == 200
        return False

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            self.resume()
            self._process.terminate()
            self._process.wait(60)

    def close(self) -> None:
        self.stop()
        self._http.close()

    def pause(self) -> None:
        """Lets it hang: it accepts connections, and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process
        os.killpg(self._process.pid, number)  # its worker, too

    def request(
        self, method: str, path: str, document: object = None, token: str = ""
    ) -> httpx.Response:
        """*token*: default: the administrator's."""
        headers = {"X-Auth-Token": token or self._admin_token}
        response = self._http.request(method, self.url + path, json=document, headers=headers)
        response.raise_for_status()
        return response

    def validations(self) -> int:
        """Returns how often it was asked whose a token is."""
        log, mark = self._folder / "access.log", os.urandom(8).hex()
        self.request("GET", f"?{mark}")
        servers.wait_for(lambda: mark in log.read_text(), "Keystone to log a request")
        return log.read_text().count('"GET /v3/auth/tokens')

    def create(self, kind: str, document: dict[str, Any], token: str = "", under: str = "") -> Any:
        """Creates a resource, e.g. a ``project``; returns its document."""
        return self.request("POST", f"{under}/{kind}s", {kind: document}, token).json()[kind]

    def _create_users(self) -> None:
        for role in self.request("GET", "/roles").json()["roles"]:
            self.roles[role["name"]] = role["id"]
        for name in ("blue", "red", "service"):
            self.projects[name] = self.create("project", {"name": name})["id"]
        for name, (project, role) in USERS.items():
            self.users[name] = self.create("user", {"name": name, "password": PASSWORD})["id"]
            self.grant(role, name, f"/projects/{self.projects[project]}")
        self.grant("admin", "operator", "/system")

    def grant(self, role: str, user: str, place: str, method: str = "PUT") -> None:
        """*place*: ``/projects/ID``, ``/domains/ID`` or ``/system``.  DELETE takes it away."""
        self.request(method, f"{place}/users/{self.users[user]}/roles/{self.roles[role]}")

    def add_endpoint(self, url: str, kind: str = "messaging") -> None:
        """Adds the service at *url* to the catalogue."""
        service = self.create("service", {"type": kind, "name": kind})
        for interface in ("public", "internal"):
            given = {"service_id": service["id"], "interface": interface, "url": url}
            self.create("endpoint", given | {"region_id": REGION})

    def token(self, user: str, project: str = "", scope: object = None) -> str:
        """Returns a new token by password.  *scope*: another than a project, or ``unscoped``."""
        domain = {"id": "default"}
        identity = {
            "methods": ["password"],
            "password": {"user": {"name": user, "domain": domain, "password": PASSWORD}},
        }
        wanted = scope or {"project": {"name": project or USERS[user][0], "domain": domain}}
        return self._issue(identity, wanted)

    def rescoped(self, token: str, project: str) -> str:
        """Returns a token by another one."""
        identity = {"methods": ["token"], "token": {"id": token}}
        return self._issue(identity, {"project": {"id": self.projects[project]}})

    def token_of_application(self, credential: dict[str, Any]) -> str:
        identity = {
            "methods": ["application_credential"],
            "application_credential": {"id": credential["id"], "secret": credential["secret"]},
        }
        return self._issue(identity, None)

    def _issue(self, identity: object, scope: object) -> str:
        document = {"auth": {"identity": identity} | ({"scope": scope} if scope else {})}
        response = self._http.post(f"{self.url}/auth/tokens", json=document)
        response.raise_for_status()
        return response.headers["X-Subject-Token"]

    def create_application_credential(self, user: str, **more: object) -> dict[str, Any]:
        """Returns it, with its ``id`` and ``secret``; it has the user's own project and roles."""
        under = f"/users/{self.users[user]}"
        name = f"credential-{os.urandom(4).hex()}"
        created: dict[str, Any] = self.create(
            "application_credential", {"name": name} | more, self.token(user), under
        )
        return created

    def revoke(self, token: str) -> None:
        self._http.delete(
            f"{self.url}/auth/tokens",
            headers={"X-Auth-Token": self._admin_token, "X-Subject-Token": token},
        ).raise_for_status()

    def service_options(self) -> dict[str, object]:
        """Returns the options of the group ``keystone_authtoken`` for a service beside it."""
        return {
            "www_authenticate_uri": self.url,
            "auth_url": self.url,
            "auth_type": "password",
            "username": "zaqar",
            "password": PASSWORD,
            "project_name": "service",
            "user_domain_id": "default",
            "project_domain_id": "default",
            # On a busy machine, it takes its time.
            "http_connect_timeout": 30,
        }

    def trustee_options(self) -> dict[str, object]:
        """Returns the options of the group ``trustee`` for a service beside it."""
        options = self.service_options()
        del options["www_authenticate_uri"], options["http_connect_timeout"]
        return options | {"timeout": 30}

    def token_document(self, token: str) -> dict[str, Any]:
        """Returns what it knows of a token."""
        headers = {"X-Auth-Token": self._admin_token, "X-Subject-Token": token}
        response = self._http.get(f"{self.url}/auth/tokens", headers=headers)
        response.raise_for_status()
        found: dict[str, Any] = response.json()["token"]
        return found

    def trusts(self, user: str) -> list[dict[str, Any]]:
        """Returns the trusts that a user has made."""
        path = f"/OS-TRUST/trusts?trustor_user_id={self.users[user]}"
        found: list[dict[str, Any]] = self.request("GET", path).json()["trusts"]
        return found


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _template() -> Path:
    """Returns the folder of a database and keys; the first process that needs them makes them."""
    made_by = f"{metadata.version('keystone')}-{zlib.crc32(Path(__file__).read_bytes()):08x}"
    template = Path(sys.prefix) / f"keystone-{made_by}"
    with Path(f"{template}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            with tempfile.TemporaryDirectory(dir=sys.prefix) as folder:
                made = Path(folder) / "template"
                made.mkdir()
                with contextlib.closing(RunningKeystone(made)) as created:
                    created.create_template()
                made.rename(template)
    return template


@contextlib.contextmanager
def keystone() -> Iterator[RunningKeystone]:
    with tempfile.TemporaryDirectory(prefix="zr-keystone-") as folder:
        running = RunningKeystone(Path(folder))
        try:
            running.install()
            yield running
        finally:
            running.close()
