-- SPDX-License-Identifier: Apache-2.0
-- Read one URL again and again.
require "report"
