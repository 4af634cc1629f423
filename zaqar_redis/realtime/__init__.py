# SPDX-License-Identifier: Apache-2.0
"""Channels: publications reach their subscribers as they are published.

The protocol is Centrifugo's, so that its SDKs work unchanged; so are the terms: channel,
publication, offset, epoch, stream position, presence, recovery.
"""
