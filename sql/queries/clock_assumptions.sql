-- What the stored maps say about the two assumptions behind the bounds: how far rates are from nominal (rho) and how
-- fast they change (A). Rates are those between points ``stretch_ns`` apart on settled pieces of one epoch; their noise
-- is noise_ppm and noise_ppm_per_s: figures that are no larger only say that the clock is at least as good.
--
-- Arguments
--   host String = '': only this host; empty: all
--   stretch_ns Int64 = 10000000000: length of a stretch; changes that come and go within it are averaged away
-- Result
--   host: host that owns the clock
--   clock: source clock
--   target_host: host that owns the target clock
--   target_clock: clock mapped to; 'fleet' is fleet time
--   stretches: rates that were looked at
--   rate_p50_ppm [ppm]: median rate against nominal; null: the inventory does not state the clock's hz, or fewer than two points
--   rate_max_ppm [ppm]: largest distance from nominal, to be compared with rho (100)
--   change_p50_ppm_per_s [ppm/s]: median change of the rate
--   change_max_ppm_per_s [ppm/s]: largest, to be compared with A (0.5)
--   noise_ppm [ppm]: how far a rate can be off, from the bounds of both points (in the mean)
--   noise_ppm_per_s [ppm/s]: likewise a change of rate
WITH
    points AS
    (
        SELECT
            host, clock, target_host, target_clock, epoch, intDiv(target_from, {stretch_ns:Int64}) AS stretch,
            argMin(valid_from_ticks, valid_from_ticks) AS tick,
            argMin(target_from, valid_from_ticks) AS target,
            argMin(err_ns, valid_from_ticks) AS err
        FROM clock_pieces
        WHERE ({host:String} = '' OR host = {host:String}) AND state = 'settled'
        GROUP BY host, clock, target_host, target_clock, epoch, stretch
    ),
    rates AS
    (
        SELECT
            host, clock, target_host, target_clock, epoch, stretch,
            lagInFrame(toNullable(tick)) OVER pair AS tick0,
            lagInFrame(toNullable(target)) OVER pair AS target0,
            lagInFrame(toNullable(stretch)) OVER pair AS stretch0,
            (target - target0) / (tick - tick0) AS rate,
            (err + lagInFrame(toNullable(err)) OVER pair) / (target - target0) AS noise,
            (target + target0) / 2 AS middle
        FROM points
        WINDOW pair AS (PARTITION BY host, clock, target_host, target_clock, epoch ORDER BY stretch
                        ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
    ),
    changes AS
    (
        SELECT
            *,
            abs(rate / lagInFrame(toNullable(rate)) OVER pair - 1) * 1e15
                / (middle - lagInFrame(toNullable(middle)) OVER pair) AS change,
            (noise + lagInFrame(toNullable(noise)) OVER pair) * 1e15
                / (middle - lagInFrame(toNullable(middle)) OVER pair) AS change_noise
        FROM rates
        WHERE stretch0 = stretch - 1
        WINDOW pair AS (PARTITION BY host, clock, target_host, target_clock, epoch ORDER BY stretch
                        ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
    ),
    stated AS
    (
        SELECT host, component AS clock, argMax(number, time_ns) AS hz
        FROM inventory
        WHERE kind = 'clock' AND attribute = 'hz' AND number > 0
        GROUP BY host, component
    )
SELECT
    host,
    clock,
    target_host,
    target_clock,
    toInt64(count()) AS stretches,
    quantileExact(0.5)((rate * nominal_hz / 1e9 - 1) * 1e6) AS rate_p50_ppm,
    max(abs(rate * nominal_hz / 1e9 - 1) * 1e6) AS rate_max_ppm,
    quantileExact(0.5)(change) AS change_p50_ppm_per_s,
    max(change) AS change_max_ppm_per_s,
    avg(noise) * 1e6 AS noise_ppm,
    avg(change_noise) AS noise_ppm_per_s
FROM
(
    SELECT changes.*, if(clock IN ('monotonic_raw', 'monotonic', 'boottime', 'realtime'), 1e9, nullIf(stated.hz, 0))
        AS nominal_hz
    FROM changes
    LEFT JOIN stated ON stated.host = changes.host AND stated.clock = changes.clock
)
GROUP BY host, clock, target_host, target_clock
ORDER BY host, clock, target_host, target_clock
