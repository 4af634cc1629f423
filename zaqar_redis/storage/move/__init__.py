# SPDX-License-Identifier: Apache-2.0
"""The move of a queue from one store to another while it is in use."""
