# SPDX-License-Identifier: Apache-2.0
"""Publish and subscribe over several buses, measured in turn."""
