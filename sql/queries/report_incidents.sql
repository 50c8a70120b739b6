-- What went wrong: incidents that touch a range, worst and longest first.
--
-- Arguments
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
--   host String = '': only this host; empty: all
--   top UInt32 = 1000: rows at most
-- Result
--   severity: critical, warning or info
--   kind: what it is
--   host: host
--   device: device; null: the whole host
--   start_ns [ns since 1970]: start
--   end_ns [ns since 1970]: end; null: still open
--   length_ns [ns]: length; null: still open
--   evidence: the numbers used, as JSON
SELECT severity, kind, host, device, start_ns, end_ns, end_ns - start_ns AS length_ns, evidence
FROM incidents FINAL
WHERE start_ns < {to_ns:Int64} AND (end_ns IS NULL OR end_ns >= {from_ns:Int64})
    AND ({host:String} = '' OR host = {host:String})
ORDER BY indexOf(['info', 'warning', 'critical'], severity) DESC, end_ns IS NULL DESC, length_ns DESC, start_ns, kind, host,
    ifNull(device, '')
LIMIT {top:UInt32}
