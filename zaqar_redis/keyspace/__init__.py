# SPDX-License-Identifier: Apache-2.0
"""Keys, Lua scripts and connections: the only package that knows what is inside Redis."""
