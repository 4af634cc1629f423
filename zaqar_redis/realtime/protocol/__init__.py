# SPDX-License-Identifier: Apache-2.0
"""Centrifugo's client protocol and server API: messages, encodings, codes."""
