# SPDX-License-Identifier: Apache-2.0
"""What `zaqar-redis bench` cannot measure: it only compares services of the Zaqar API.

``python -m benchmarks.NAME --help`` says what each measures, how, and what it does not show.
"""
