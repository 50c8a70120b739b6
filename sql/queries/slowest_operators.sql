-- Operators and kernels on the devices' engines by the time they took together.
--
-- Arguments
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
--   job String = '': only this job; empty: all
--   host String = '': only this host; empty: all
--   limit UInt32 = 20: operators shown
-- Result
--   name: operator or kernel
--   calls: how often it ran
--   total_ns [ns]: time of all calls
--   share [0..1]: of the engine time of all operators
--   mean_ns [ns]: mean length
--   p50_ns [ns]: median length
--   p99_ns [ns]: 99th percentile of the length
SELECT
    name,
    toInt64(count()) AS calls,
    sum(duration_ns) AS total_ns,
    total_ns / sum(total_ns) OVER () AS share,
    avg(duration_ns) AS mean_ns,
    quantileExact(0.5)(duration_ns) AS p50_ns,
    quantileExact(0.99)(duration_ns) AS p99_ns
FROM spans
WHERE startsWith(track, 'engine:') AND start_ns >= {from_ns:Int64} AND start_ns < {to_ns:Int64}
    AND ({job:String} = '' OR job = {job:String}) AND ({host:String} = '' OR host = {host:String})
GROUP BY name
ORDER BY total_ns DESC, name
LIMIT {limit:UInt32}
