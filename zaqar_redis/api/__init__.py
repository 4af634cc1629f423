# SPDX-License-Identifier: Apache-2.0
"""The front ends over HTTP and WebSocket: the queue API, channels, and the console."""
