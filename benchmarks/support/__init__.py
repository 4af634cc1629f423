# SPDX-License-Identifier: Apache-2.0
"""What programs of benchmarks share."""
