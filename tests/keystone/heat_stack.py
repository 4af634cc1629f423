# SPDX-License-Identifier: Apache-2.0
"""A stack of Heat, for the Python that has Heat: ``heat_stack.py CREDENTIALS``, in JSON.

Each line of the input, in JSON, is an action (create, update, delete) and a template; each line of
the output is the state of the stack, why, and the attributes of the signed URLs that were created.
The resources are Heat's own, with its clients and a database in memory; no engine waits for calls.
"""

from __future__ import annotations

import json
import sys
from typing import Any

# Only the other Python has Heat, and oslo.db has no types.
from heat.common import config, context, messaging  # type: ignore[import-not-found]
from heat.db import api, models  # type: ignore[import-not-found]
from heat.engine import (  # type: ignore[import-not-found]
    environment,
    resources,
    stack,
    template,
)
from oslo_config import cfg
from oslo_db import options  # type: ignore[import-untyped]


def _context(credentials: dict[str, str]) -> Any:
    cfg.CONF([], project="heat", default_config_files=[])
    config.startup_sanity_check()
    # What is kept of the credentials needs no trust.
    cfg.CONF.set_override("deferred_auth_method", "password")
    options.set_defaults(cfg.CONF, connection="sqlite://")
    models.BASE.metadata.create_all(api.get_engine())
    messaging.setup("fake://")  # its notifications are for nobody
    resources.initialise()
    found = context.RequestContext.from_dict(credentials | {"roles": ["member"]})
    found.reload_auth_plugin()
    return found


def main() -> None:
    heat = _context(json.loads(sys.argv[1]))
    stack_id = ""
    for line in sys.stdin:
        action, document = json.loads(line)
        parsed = template.Template(document, env=environment.Environment())
        wanted = stack.Stack(heat, "orders", parsed)
        wanted.validate()
        if action == "create":
            made, stack_id = wanted, wanted.store()
            made.create()
        else:
            made = stack.Stack.load(heat, stack_id=stack_id)
            made.update(wanted) if action == "update" else made.delete()
        if action != "delete":
            made.store()  # its state, too
        signed = {
            name: {attribute: each.FnGetAtt(attribute) for attribute in each.ATTRIBUTES}
            for name, each in made.items()
            if action == "create" and each.type() == "OS::Zaqar::SignedQueueURL"
        }
        print(json.dumps(["_".join(made.state), made.status_reason, signed]), flush=True)


if __name__ == "__main__":
    main()
