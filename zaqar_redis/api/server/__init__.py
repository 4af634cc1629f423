# SPDX-License-Identifier: Apache-2.0
"""All that knows the inside of the HTTP server."""
