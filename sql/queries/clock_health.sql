-- How well each clock is tied to its target: error bounds, steps and gaps of the pieces of its map.
--
-- Arguments
--   host String = '': only this host; empty: all
-- Result
--   host: host that owns the clock
--   clock: source clock
--   target_host: host that owns the target clock
--   target_clock: clock mapped to; 'fleet' is fleet time
--   pieces: pieces of the map
--   epochs: 1 + steps, resets and elections seen
--   settled_share [0..1]: of the ticks covered, under a settled piece
--   gap_share [0..1]: of the ticks covered, without any bound
--   err_p50_ns [ns]: median bound over the pieces that have one
--   err_max_ns [ns]: largest bound
SELECT
    host,
    clock,
    target_host,
    target_clock,
    toInt64(count()) AS pieces,
    toInt64(uniqExact(epoch)) AS epochs,
    sumIf(ticks, state = 'settled') / nullIf(sum(ticks), 0) AS settled_share,
    sumIf(ticks, state = 'gap') / nullIf(sum(ticks), 0) AS gap_share,
    quantileExactLow(0.5)(err_ns) AS err_p50_ns,
    max(err_ns) AS err_max_ns
FROM
(
    SELECT *, toFloat64(valid_to_ticks) - toFloat64(valid_from_ticks) AS ticks
    FROM segments FINAL
    WHERE ({host:String} = '' OR host = {host:String})
)
GROUP BY host, clock, target_host, target_clock
ORDER BY host, clock, target_host, target_clock
