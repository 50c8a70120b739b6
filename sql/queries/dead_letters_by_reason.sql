-- Messages that could not be used, by where and why.
--
-- Arguments
--   topic String = '': only this topic; empty: all
-- Result
--   topic: topic of the messages
--   step: step that could not use them
--   code: stable reason
--   messages: how many
--   claimed_rows: rows their headers claimed
--   first_ms [ms since 1970]: broker's time of the first
--   last_ms [ms since 1970]: broker's time of the last
--   example: the first one's place and reason
SELECT
    topic,
    step,
    code,
    toInt64(count()) AS messages,
    sum(rows) AS claimed_rows,
    min(time_ms) AS first_ms,
    max(time_ms) AS last_ms,
    argMin(concat(topic, '[', toString(partition), ']@', toString(offset), ': ', reason), (time_ms, offset)) AS example
FROM dead_letters FINAL
WHERE {topic:String} = '' OR topic = {topic:String}
GROUP BY topic, step, code
ORDER BY messages DESC, topic, step, code
