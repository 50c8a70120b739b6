-- The bound of each clock over time: in steps of fleet time, weighted by time.
--
-- Arguments
--   host String = '': only this host; empty: all
--   clock String = '': only this clock; empty: all
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
--   step_ns Int64 = 60000000000: length of a step
-- Result
--   host: host that owns the clock
--   clock: source clock
--   target_host: host that owns the target clock
--   target_clock: clock mapped to; 'fleet' is fleet time
--   step_start_ns [ns since 1970]: first ns of the step; a piece counts where it begins
--   err_p50_ns [ns]: median bound; null: there was none
--   err_p99_ns [ns]: bound that holds for 99 % of the time that has one
--   err_max_ns [ns]: largest bound
--   utc_err_p50_ns [ns]: median bound against UTC, for fleet time
--   settled_share [0..1]: of the time, under a settled piece
--   provisional_share [0..1]: of the time, under a provisional piece
--   gap_share [0..1]: of the time, without any bound
SELECT
    host,
    clock,
    target_host,
    target_clock,
    intDiv(assumeNotNull(time_ns), {step_ns:Int64}) * {step_ns:Int64} AS step_start_ns,
    quantileExactWeightedIf(0.5)(err_ns, toUInt64(length_ns), err_ns IS NOT NULL) AS err_p50_ns,
    quantileExactWeightedIf(0.99)(err_ns, toUInt64(length_ns), err_ns IS NOT NULL) AS err_p99_ns,
    max(err_ns) AS err_max_ns,
    quantileExactWeightedIf(0.5)(utc_err_ns, toUInt64(length_ns), utc_err_ns IS NOT NULL) AS utc_err_p50_ns,
    sumIf(length_ns, state = 'settled') / nullIf(sum(length_ns), 0) AS settled_share,
    sumIf(length_ns, state = 'provisional') / nullIf(sum(length_ns), 0) AS provisional_share,
    sumIf(length_ns, state = 'gap') / nullIf(sum(length_ns), 0) AS gap_share
FROM clock_pieces
WHERE ({host:String} = '' OR host = {host:String}) AND ({clock:String} = '' OR clock = {clock:String})
    AND time_ns >= {from_ns:Int64} AND time_ns < {to_ns:Int64} AND length_ns > 0
GROUP BY host, clock, target_host, target_clock, step_start_ns
ORDER BY host, clock, target_host, target_clock, step_start_ns
