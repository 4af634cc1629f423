# SPDX-License-Identifier: Apache-2.0
"""Authentication: signed URLs, tokens of channels, tickets of the console."""
