-- SPDX-License-Identifier: Apache-2.0
-- Common parts of all workloads: the message, the clock, and one line of JSON at the end.
-- A script with counts of its own has them in the globals `work`, `empty`, `began`, `ended`.
local ffi = require "ffi"
ffi.cdef [[
typedef struct { long seconds; long nanoseconds; } bench_time;
int clock_gettime(int clock, bench_time *time);
]]
local moment = ffi.new("bench_time")
local threads = {}
local report = {}

-- Returns microseconds of a monotonic clock.
function report.now()
    ffi.C.clock_gettime(1, moment)
    return tonumber(moment.seconds) * 1000000 + tonumber(moment.nanoseconds) / 1000
end

-- Returns a message whose body is 150 bytes of JSON.
function report.message()
    local frame = '{"event":"order","number":12345,"note":"%s"}'
    local body = string.format(frame, string.rep("x", 150 - #frame + 2))
    return '{"body":' .. body .. ',"ttl":3600}'
end

function setup(thread)
    threads[#threads + 1] = thread
end

function done(summary, latency)
    local errors = summary.errors
    local work, empty, began, ended
    for _, thread in ipairs(threads) do
        work, empty = thread:get("work"), thread:get("empty")
        began, ended = thread:get("began"), thread:get("ended")
    end
    local line = '{"requests":%d,"seconds":%.6f,"refused":%d,"broken":%d,"p50":%d,"p99":%d'
    io.write(string.format("\nRESULT " .. line, summary.requests, summary.duration / 1e6,
        errors.status, errors.connect + errors.read + errors.write + errors.timeout,
        latency:percentile(50), latency:percentile(99)))
    if work then
        io.write(string.format(',"work":%d,"empty":%d,"span":%.6f', work, empty,
            (ended - began) / 1e6))
    end
    io.write("}\n")
end

return report
