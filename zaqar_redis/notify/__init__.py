# SPDX-License-Identifier: Apache-2.0
"""Delivers messages to the subscribers of queues and topics."""
