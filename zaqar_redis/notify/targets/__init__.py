# SPDX-License-Identifier: Apache-2.0
"""The targets: each delivers to subscribers of some schemes."""
