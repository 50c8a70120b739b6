-- Submissions against the work they submitted: how many pairs are in order, inverted within their bounds
-- (indeterminate: consistent with some truth), or inverted beyond them, and how many of these no row of
-- causality_violations flags: there must be none. Joins all spans of the range: choose a short one in a large store.
--
-- Arguments
--   host String = '': only this host; empty: all
--   from_ns Int64 = 0: first ns of the range, fleet time, of the work
--   to_ns Int64 = 9223372036854775807: first ns after the range
-- Result
--   host: host
--   device: device of the work
--   pairs: submissions and work with the same process and correlation id
--   without_bound: of these, pairs that nothing can be said of, as one side has no bound
--   in_order: work starts at or after the end of its submission
--   within_bounds: it starts before, by no more than both bounds
--   beyond_bounds: it starts before by more
--   unflagged: of these, without a row in causality_violations
--   latency_p50_ns [ns]: median of start − submission end over pairs with a bound
--   indeterminate_share [0..1]: of the pairs with a bound, those whose difference is smaller than both bounds: which event came first cannot be told
SELECT
    host,
    device,
    toInt64(count()) AS pairs,
    toInt64(countIf(bound IS NULL)) AS without_bound,
    toInt64(countIf(latency >= 0 AND bound IS NOT NULL)) AS in_order,
    toInt64(countIf(latency < 0 AND -latency <= bound)) AS within_bounds,
    toInt64(countIf(-latency > bound)) AS beyond_bounds,
    toInt64(countIf(-latency > bound AND flag = '')) AS unflagged,
    quantileExactIf(0.5)(latency, bound IS NOT NULL) AS latency_p50_ns,
    countIf(abs(latency) <= bound) / nullIf(countIf(bound IS NOT NULL), 0) AS indeterminate_share
FROM
(
    SELECT work.host AS host, assumeNotNull(work.device) AS device, work.start_ns - submission.end_ns AS latency,
           work.err_ns + submission.err_ns AS bound, flagged.rule AS flag
    FROM
    (
        SELECT host, process_id, correlation_id, device, start_ns, err_ns, producer, epoch, sequence, row
        FROM spans
        WHERE ({host:String} = '' OR host = {host:String}) AND device IS NOT NULL AND start_ns >= {from_ns:Int64}
            AND start_ns < {to_ns:Int64}
    ) AS work
    INNER JOIN
    (
        SELECT host, process_id, correlation_id, start_ns + duration_ns AS end_ns, err_ns, producer, epoch, sequence,
               row
        FROM spans
        WHERE ({host:String} = '' OR host = {host:String}) AND track = 'driver'
    ) AS submission
    ON work.host = submission.host AND work.process_id = submission.process_id
        AND work.correlation_id = submission.correlation_id
    LEFT ANY JOIN
    (
        SELECT *
        FROM causality_violations FINAL
        WHERE rule = 'submission'
    ) AS flagged
    ON flagged.host = work.host AND flagged.effect_producer = work.producer AND flagged.effect_epoch = work.epoch
        AND flagged.effect_sequence = work.sequence AND flagged.effect_row = work.row
        AND flagged.cause_producer = submission.producer AND flagged.cause_epoch = submission.epoch
        AND flagged.cause_sequence = submission.sequence AND flagged.cause_row = submission.row
)
GROUP BY host, device
ORDER BY host, device
