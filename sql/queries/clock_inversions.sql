-- Events in an order that cannot be, counted by pair of clocks and hour: the inversion rate. A healthy store returns no
-- rows. The worst of each stands with both its events; all of them are in the table causality_violations.
--
-- Arguments
--   host String = '': only this host; empty: all
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
-- Result
--   host: host of both clocks
--   rule: submission (work starts before its submission ended) or completion (who waited for work ends before it)
--   cause_clock: clock of what must come first
--   effect_clock: clock of what must come after it
--   hour_start_ns [ns since 1970]: first ns of the hour
--   violations: pairs of events inverted by more than both bounds
--   beyond_p50_ns [ns]: median of what both bounds together cannot explain
--   beyond_max_ns [ns]: largest
--   process_id: process of the worst pair
--   correlation_id: its id
--   cause: its cause: track and name
--   cause_row: identity of the cause: producer, epoch, sequence, row
--   effect: its effect: track and name
--   effect_row: identity of the effect: producer, epoch, sequence, row
SELECT
    host,
    rule,
    cause_clock,
    effect_clock,
    intDiv(time_ns, 3600000000000) * 3600000000000 AS hour_start_ns,
    toInt64(count()) AS violations,
    quantileExact(0.5)(beyond_ns) AS beyond_p50_ns,
    max(beyond_ns) AS beyond_max_ns,
    argMax(process_id, worst) AS process_id,
    argMax(correlation_id, worst) AS correlation_id,
    argMax(concat(cause_track, ' ', cause_name), worst) AS cause,
    argMax(format('{} {} {} {}', cause_producer, toString(cause_epoch), toString(cause_sequence), toString(cause_row)),
           worst) AS cause_row,
    argMax(concat(effect_track, ' ', effect_name), worst) AS effect,
    argMax(format('{} {} {} {}', effect_producer, toString(effect_epoch), toString(effect_sequence),
                  toString(effect_row)), worst) AS effect_row
FROM
(
    SELECT *, (beyond_ns, -time_ns, cause_sequence, cause_row, effect_sequence, effect_row) AS worst
    FROM causality_violations FINAL
    WHERE ({host:String} = '' OR host = {host:String}) AND time_ns >= {from_ns:Int64} AND time_ns < {to_ns:Int64}
)
GROUP BY host, rule, cause_clock, effect_clock, hour_start_ns
ORDER BY hour_start_ns, host, rule, cause_clock, effect_clock
