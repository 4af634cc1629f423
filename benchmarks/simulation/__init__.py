# SPDX-License-Identifier: Apache-2.0
"""A simulation of very many queues over very many pools, by the code that routes them."""
