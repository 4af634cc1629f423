# SPDX-License-Identifier: Apache-2.0
"""The commands of ``zaqar-redis``: the only package that reads the configuration."""
