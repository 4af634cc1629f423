# SPDX-License-Identifier: Apache-2.0
"""The doors: HTTP in, documents out."""
