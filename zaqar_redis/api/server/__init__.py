# SPDX-License-Identifier: Apache-2.0
"""The server: all that knows the internals of gunicorn and uvicorn."""
