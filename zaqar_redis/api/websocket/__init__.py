# SPDX-License-Identifier: Apache-2.0
"""Zaqar's WebSocket API: requests and responses in frames, and messages as they are posted."""
