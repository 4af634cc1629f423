# SPDX-License-Identifier: Apache-2.0
"""Use cases: check the rules, act on the store, decrypt message bodies."""
