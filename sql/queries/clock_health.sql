-- How well each clock is tied to its target: error bounds, steps and gaps of the pieces of its map. The piece without
-- an end that follows a closed producer is no gap: it is left out.
--
-- Arguments
--   host String = '': only this host; empty: all
-- Result
--   host: host that owns the clock
--   clock: source clock
--   target_host: host that owns the target clock; for fleet time the elected reference
--   target_clock: clock mapped to; 'fleet' is fleet time
--   pieces: pieces of the map
--   epochs: 1 + steps, resets and elections seen
--   settled_share [0..1]: of the ticks covered, under a settled piece
--   provisional_share [0..1]: of the ticks covered, under a provisional piece
--   gap_share [0..1]: of the ticks covered, without any bound
--   err_p50_ns [ns]: median bound over the ticks that have one
--   err_p99_ns [ns]: bound that holds for 99 % of those ticks
--   err_max_ns [ns]: largest bound
--   utc_err_p50_ns [ns]: median bound against UTC, for fleet time
--   last_state: state of the last piece; that of a closed clock stays provisional: no later reading can settle it
--   closed: whether the producer of its samples has closed
WITH toInt64(4611686018427387904) AS end_of_time
SELECT
    host,
    clock,
    target_host,
    target_clock,
    toInt64(countIf(NOT ending)) AS pieces,
    toInt64(uniqExactIf(epoch, NOT ending)) AS epochs,
    sumIf(ticks, state = 'settled' AND NOT ending) / nullIf(sumIf(ticks, NOT ending), 0) AS settled_share,
    sumIf(ticks, state = 'provisional' AND NOT ending) / nullIf(sumIf(ticks, NOT ending), 0) AS provisional_share,
    sumIf(ticks, state = 'gap' AND NOT ending) / nullIf(sumIf(ticks, NOT ending), 0) AS gap_share,
    quantileExactWeightedIf(0.5)(err_ns, ticks, NOT ending) AS err_p50_ns,
    quantileExactWeightedIf(0.99)(err_ns, ticks, NOT ending) AS err_p99_ns,
    max(err_ns) AS err_max_ns,
    quantileExactWeightedIf(0.5)(utc_err_ns, ticks, NOT ending) AS utc_err_p50_ns,
    argMaxIf(state, (epoch, valid_from_ticks), NOT ending) AS last_state,
    toBool(max(ending)) AS closed
FROM
(
    SELECT *, valid_to_ticks >= end_of_time AS ending, toUInt64(valid_to_ticks - valid_from_ticks) AS ticks
    FROM segments FINAL
    WHERE ({host:String} = '' OR host = {host:String}) AND valid_to_ticks > valid_from_ticks
)
GROUP BY host, clock, target_host, target_clock
ORDER BY host, clock, target_host, target_clock
