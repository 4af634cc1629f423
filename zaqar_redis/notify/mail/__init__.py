# SPDX-License-Identifier: Apache-2.0
"""Mails to subscribers: to whom, what is in them, and how they are sent."""
