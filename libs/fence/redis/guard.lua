-- Runs a command unless a higher fencing token was seen under the guard key; check and command are one atomic step.
--   KEYS[1]   where the highest token is kept; KEYS[2..] the keys that the command touches (a cluster: same hash slot)
--   ARGV[1]   the writer's token, in decimal
--   ARGV[2]   after how many seconds without a write the highest token may be forgotten; 0: never
--   ARGV[3..] the command with its arguments; none: only check and remember
-- Answers what the command answers, or OK. Errors: STALE when a higher token was seen; BADTOKEN, BADTTL, BADSEEN for what
-- should be a token, a time or the highest token and is none; those of the command.
-- Tokens are compared as text, by length first: Lua's numbers are doubles, which are inexact beyond 2^53.
local token, ttl = ARGV[1] or '', ARGV[2] or ''
local highest_of_all = '9223372036854775807'
local function is_token(text)
    return string.find(text, '^[1-9]%d*$') and (#text < 19 or (#text == 19 and text <= highest_of_all))
end
if not is_token(token) then
    return redis.error_reply('BADTOKEN ' .. token .. ' is no fencing token: use a positive decimal number below 2^63')
end
if not (string.find(ttl, '^%d+$') and #ttl <= 9) then
    return redis.error_reply('BADTTL ' .. ttl .. ' is no number of seconds')
end
local seen = redis.call('GET', KEYS[1])
if seen and not is_token(seen) then
    return redis.error_reply('BADSEEN ' .. KEYS[1] .. ' holds no fencing token: somebody else writes there')
end
if seen and (#seen > #token or (#seen == #token and seen > token)) then
    return redis.error_reply('STALE fencing token ' .. token .. ': token ' .. seen .. ' was seen under ' .. KEYS[1])
end
if tonumber(ttl) > 0 then
    redis.call('SET', KEYS[1], token, 'EX', ttl)
else
    redis.call('SET', KEYS[1], token)
end
if #ARGV > 2 then
    return redis.call(unpack(ARGV, 3))
end
return redis.status_reply('OK')
