# SPDX-License-Identifier: Apache-2.0
"""Stock Zaqar's WSGI application, created as in ``zaqar.wsgi``, for a given configuration.

STOCK_ZAQAR_CONF=zaqar.conf gunicorn tests.upstream.app:app
"""

from __future__ import annotations

import os
from importlib import import_module

from oslo_config import cfg
from oslo_log import log

conf = cfg.ConfigOpts()
log.register_options(conf)
conf(args=[], project="zaqar", default_config_files=[os.environ["STOCK_ZAQAR_CONF"]])
log.setup(conf, "zaqar")
app = import_module("zaqar.bootstrap").Bootstrap(conf).transport.app
