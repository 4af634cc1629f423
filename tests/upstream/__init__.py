# SPDX-License-Identifier: Apache-2.0
"""Run the tests of stock OpenStack Zaqar on a storage driver from outside it.

``run`` runs in our own environment: it starts servers and writes reports.
``inside`` and what it imports run in an environment that has zaqar installed.
"""
