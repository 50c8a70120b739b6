-- What a range of windows covers: time, hosts, devices and jobs, and how much of it is known. No row: no window.
--
-- Arguments
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
--   job String = '': only this job; empty: all
--   host String = '': only this host; empty: all
-- Result
--   begin_ns [ns since 1970]: start of the first window
--   end_ns [ns since 1970]: end of the last window
--   windows: windows
--   hosts: hosts
--   devices: devices, counted on each host
--   jobs: jobs
--   device_time_ns [ns]: time of all windows together
--   coverage [0..1]: share of rows and time that is known, mean over windows with work of a job; null: no such window
--   coverage_min [0..1]: that of the worst window of these
SELECT
    min(window_start_ns) AS begin_ns,
    max(window_start_ns + window_ns) AS end_ns,
    toInt64(count()) AS windows,
    toInt64(uniqExact(host)) AS hosts,
    toInt64(uniqExact(host, device)) AS devices,
    toInt64(uniqExact(w.job)) AS jobs,
    sum(window_ns) AS device_time_ns,
    avgOrNullIf(w.coverage, w.job IS NOT NULL) AS coverage,
    minOrNullIf(w.coverage, w.job IS NOT NULL) AS coverage_min
FROM (SELECT * FROM windows FINAL) AS w
WHERE window_start_ns >= {from_ns:Int64} AND window_start_ns < {to_ns:Int64}
    AND ({job:String} = '' OR w.job = {job:String}) AND ({host:String} = '' OR host = {host:String})
HAVING count() > 0
