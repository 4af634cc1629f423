# SPDX-License-Identifier: Apache-2.0
"""The service beside other message brokers."""
