-- How long after their end spans were stored. Meaningful while fleet time runs with this server's clock: replayed or
-- made-up times show up as very large or negative.
--
-- Arguments
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
--   host String = '': only this host; empty: all
-- Result
--   host: host
--   spans: rows looked at
--   late_spans: rows stored as late
--   p50_ms [ms]: median lag
--   p99_ms [ms]: 99th percentile
--   max_ms [ms]: largest lag
SELECT
    host,
    toInt64(count()) AS spans,
    toInt64(countIf(late)) AS late_spans,
    quantileExact(0.5)(lag_ms) AS p50_ms,
    quantileExact(0.99)(lag_ms) AS p99_ms,
    max(lag_ms) AS max_ms
FROM
(
    SELECT host, late, toUnixTimestamp64Milli(ingested_at) - intDiv(start_ns + duration_ns, 1000000) AS lag_ms
    FROM spans
    WHERE start_ns >= {from_ns:Int64} AND start_ns < {to_ns:Int64} AND ({host:String} = '' OR host = {host:String})
)
GROUP BY host
ORDER BY host
