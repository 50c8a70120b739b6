-- Clocks that have no bound against their target now: their map ends in a gap, and its producer has not closed. A
-- healthy store returns no rows.
--
-- Arguments
--   host String = '': only this host; empty: all
-- Result
--   host: host that owns the clock
--   clock: source clock
--   target_host: host that owns the target clock
--   target_clock: clock mapped to; 'fleet' is fleet time
--   last_bound_time_ns [ns since 1970]: fleet time up to which there was a bound; null: there never was one
--   last_err_ns [ns]: the bound it had then
--   gap_ns [ns]: length of the gap so far, by the target
WITH
    ends AS
    (
        SELECT host, clock, target_host, target_clock, max(valid_to_ticks) >= toInt64(4611686018427387904) AS closed
        FROM segments FINAL
        WHERE ({host:String} = '' OR host = {host:String})
        GROUP BY host, clock, target_host, target_clock
    ),
    pieces AS
    (
        SELECT
            host, clock, target_host, target_clock,
            argMax(state, (epoch, valid_from_ticks)) AS last_state,
            countIf(state != 'gap') AS bounded,
            maxIf((epoch, valid_from_ticks), state != 'gap') AS last_bound,
            argMaxIf(time_ns + length_ns, (epoch, valid_from_ticks), state != 'gap') AS last_bound_time_ns,
            argMaxIf(err_ns, (epoch, valid_from_ticks), state != 'gap') AS last_err_ns,
            groupArrayIf((epoch, valid_from_ticks, length_ns), state = 'gap') AS gaps
        FROM clock_pieces
        WHERE ({host:String} = '' OR host = {host:String})
        GROUP BY host, clock, target_host, target_clock
    )
SELECT
    host,
    clock,
    target_host,
    target_clock,
    last_bound_time_ns,
    last_err_ns,
    arraySum(g -> if(bounded = 0 OR (g.1, g.2) > last_bound, g.3, 0), gaps) AS gap_ns
FROM pieces
INNER JOIN ends USING (host, clock, target_host, target_clock)
WHERE last_state = 'gap' AND NOT closed
ORDER BY host, clock, target_host, target_clock
