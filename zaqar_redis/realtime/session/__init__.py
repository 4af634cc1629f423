# SPDX-License-Identifier: Apache-2.0
"""Sessions: one client's connection, with its commands and subscriptions."""
