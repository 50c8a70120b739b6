-- How recent what is stored of each host is. Ages are against the server's clock unless now_ns is given.
--
-- Arguments
--   now_ns Int64 = 0: the time to count from; 0: the server's clock
--   host String = '': only this host; empty: all
-- Result
--   host: host
--   last_heard_ns [ns since 1970]: newest heartbeat, fleet time
--   last_window_ns [ns since 1970]: end of the newest window; null: the host has no device
--   heard_age_s [s]: since the newest heartbeat
--   windows_behind_s [s]: from the end of the newest window to the newest heartbeat; 0: that window ends later
--   closed: whether every producer of the host has said that it ends
WITH
    if({now_ns:Int64} = 0, toUnixTimestamp64Nano(now64(9)), {now_ns:Int64}) AS at_ns,
    heard AS
    (
        SELECT host, max(last_ns) AS last_heard_ns, min(last_closed) AS closed
        FROM
        (
            SELECT host, producer, contract, max(time_ns) AS last_ns, argMax(closed, (time_ns, closed)) AS last_closed
            FROM heartbeats
            WHERE {host:String} = '' OR host = {host:String}
            GROUP BY host, producer, contract
        )
        GROUP BY host
    ),
    made AS
    (
        SELECT host, toNullable(max(window_start_ns + window_ns)) AS last_window_ns
        FROM windows FINAL
        GROUP BY host
    )
SELECT
    heard.host AS host,
    heard.last_heard_ns AS last_heard_ns,
    made.last_window_ns AS last_window_ns,
    (at_ns - last_heard_ns) / 1e9 AS heard_age_s,
    (greatest(last_heard_ns, last_window_ns) - last_window_ns) / 1e9 AS windows_behind_s,
    toBool(heard.closed) AS closed
FROM heard
LEFT JOIN made ON made.host = heard.host
ORDER BY host
