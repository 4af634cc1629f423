# SPDX-License-Identifier: Apache-2.0
"""Writes rows as messages, and restores what was read once."""
