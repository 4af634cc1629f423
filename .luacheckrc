-- For the scripts as Redis gets them: tools/lint puts their shared parts in.
std = "lua51"
read_globals = {"redis", "KEYS", "ARGV", "cjson", "cmsgpack", "struct", "bit"}
max_line_length = false
ignore = {
    "211", "231",  -- a shared part defines more than each script uses
    "421", "43.",  -- a name in a shared part, and an argument, may be that of a key
}
-- Functions of shared parts that these scripts do not call.
files["**/message_drop.lua"].ignore = {"113/now", "113/leases", "113/claims"}
files["**/message_exhausted.lua"].ignore = {"113/leases", "113/claims"}
files["**/message_hold.lua"].ignore = {"113/leases", "113/claims"}
files["**/message_peek.lua"].ignore = {"113/leases"}
