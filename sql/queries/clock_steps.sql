-- Every new epoch of a map: a step, a reset, a reboot or an election, with its time and size. The first epoch of a pair
-- is none.
--
-- Arguments
--   host String = '': only this host; empty: all
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
-- Result
--   host: host that owns the source clock
--   clock: source clock
--   target_host: host that owns the target clock
--   target_clock: clock mapped to; 'fleet' is fleet time
--   epoch: number of the epoch that begins
--   time_ns [ns since 1970]: fleet time at which the first piece with a bound begins; null: no map to fleet time
--   size_ns [ns]: by how much the target is further on than the map before it said: a target that steps forwards, or a source that steps back, is positive; null: the epoch before had no bound
--   size_err_ns [ns]: bounds of both maps together; what the clocks may have drifted in the gap comes on top
--   gap_ns [ns]: without a bound before it, by the target; 0 where the source showed the same ticks again
WITH
    edges AS
    (
        SELECT
            host, clock, target_host, target_clock, epoch,
            argMin(valid_from_ticks, valid_from_ticks) AS first_tick,
            argMin(target_from, valid_from_ticks) AS first_target,
            argMin(err_ns, valid_from_ticks) AS first_err,
            argMin(time_ns, valid_from_ticks) AS time_ns,
            max(valid_to_ticks) AS last_tick,
            argMax(target_from, valid_from_ticks) + argMax(length_ns, valid_from_ticks) AS last_target,
            argMax(rate_q32, valid_from_ticks) AS last_rate,
            argMax(err_ns, valid_from_ticks) AS last_err
        FROM clock_pieces
        WHERE ({host:String} = '' OR host = {host:String}) AND err_ns IS NOT NULL
        GROUP BY host, clock, target_host, target_clock, epoch
    ),
    numbered AS
    (
        SELECT
            *,
            row_number() OVER pair AS place,
            lagInFrame(last_tick) OVER pair AS old_tick,
            lagInFrame(last_target) OVER pair AS old_target,
            lagInFrame(last_rate) OVER pair AS old_rate,
            lagInFrame(last_err) OVER pair AS old_err
        FROM edges
        WINDOW pair AS (PARTITION BY host, clock, target_host, target_clock ORDER BY epoch
                        ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
    )
SELECT
    host,
    clock,
    target_host,
    target_clock,
    epoch,
    time_ns,
    if(place = 1, NULL,
       first_target - old_target - toInt64(bitShiftRight(toInt128(first_tick - old_tick) * old_rate, 32))) AS size_ns,
    if(place = 1, NULL, first_err + old_err) AS size_err_ns,
    if(place = 1, NULL, greatest(first_target - old_target, 0)) AS gap_ns
FROM numbered
WHERE epoch > 0 AND (time_ns IS NULL OR (time_ns >= {from_ns:Int64} AND time_ns < {to_ns:Int64}))
ORDER BY time_ns, host, clock, target_host, target_clock, epoch
