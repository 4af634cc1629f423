-- SPDX-License-Identifier: Apache-2.0
-- Claim args[1] messages, and then do what args[2] says: "delete" the messages by their
-- ids, "release" the claim, or "keep" it. What is counted is claims that got messages,
-- with their follow-up; the clock stops when a claim gets none.
local report = require "report"
local pending, sent, nothing = {}, 0, 0
local claim, follow
work, empty, began, ended = 0, 0, 0, 0

function init(args)
    wrk.headers["Content-Type"] = "application/json"
    follow = args[2]
    claim = wrk.format("POST", wrk.path .. "/claims?limit=" .. args[1], nil,
        '{"ttl":43200,"grace":60}')
end

function request()
    if began == 0 then
        began = report.now()
        ended = began
    end
    local waiting = #pending
    if waiting == 0 then
        return claim
    end
    local path = pending[waiting]
    pending[waiting] = nil
    sent = sent + 1
    return wrk.format("DELETE", path)
end

local function next_step(headers, body)
    if follow == "delete" then
        local ids = {}
        for id in string.gmatch(body, '"id"%s*:%s*"([^"]+)"') do
            ids[#ids + 1] = id
        end
        return wrk.path .. "/messages?ids=" .. table.concat(ids, ",")
    end
    return headers["Location"] or headers["location"]
end

function response(status, headers, body)
    if status == 201 then
        if follow ~= "keep" then
            pending[#pending + 1] = next_step(headers, body)
        end
    elseif status == 204 then
        -- Deletes answer 204 too: one more than were sent is a claim without messages.
        nothing = nothing + 1
        if nothing > sent then
            empty = empty + 1
            nothing = sent
        end
    end
    if empty == 0 or follow == "release" then
        work = follow == "keep" and work + (status == 201 and 1 or 0) or sent
        ended = report.now()
    end
end
