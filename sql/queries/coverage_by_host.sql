-- What arrived of what each host produced, by kind of row. Low shares are data gaps, not idle time.
--
-- Arguments
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
--   host String = '': only this host; empty: all
-- Result
--   host: host
--   contract: kind of row
--   produced_rows: published, by the producers' own counts
--   received_rows: received and decoded
--   late_rows: received behind the watermark
--   redelivered_rows: repeats recognised and dropped
--   dropped_rows: lost at the source, by its own count
--   lost_rows: published and never received
--   received_share [0..1]: received of produced and dropped; null: nothing was produced
SELECT
    host,
    contract,
    sum(coverage.produced_rows) AS produced_rows,
    sum(coverage.received_rows) AS received_rows,
    sum(coverage.late_rows) AS late_rows,
    sum(coverage.redelivered_rows) AS redelivered_rows,
    sum(coverage.dropped_rows) AS dropped_rows,
    sum(coverage.lost_rows) AS lost_rows,
    received_rows / nullIf(produced_rows + dropped_rows, 0) AS received_share
FROM coverage
WHERE to_ns > {from_ns:Int64} AND from_ns < {to_ns:Int64} AND ({host:String} = '' OR host = {host:String})
GROUP BY host, contract
ORDER BY host, contract
