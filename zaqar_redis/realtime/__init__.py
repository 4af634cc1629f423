# SPDX-License-Identifier: Apache-2.0
"""Channels: publications reach their subscribers as they happen.

The wire is Centrifugo's, so that its SDKs work unchanged; its words are used here too:
channel, publication, offset, epoch, position, presence, recovery.
"""
