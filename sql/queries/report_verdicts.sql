-- What limits each job: how many of its device windows each cause limits, with shares, limits and what to do about it.
--
-- Arguments
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
--   job String = '': only this job; empty: all
--   host String = '': only this host; empty: all
-- Result
--   job: job; null: none
--   cause: what limits the windows, or mixed, no_demand, insufficient_data
--   windows: windows with this verdict
--   of_windows: windows of the job
--   share [0..1]: mean share of the cause in these windows
--   share_low [0..1]: mean of the lower limits
--   share_high [0..1]: mean of the upper limits
--   confidence [0..1]: mean distance of the lower limit to the runner-up's upper limit
--   recoverable_ns [ns]: time the cause cost in these windows
--   runner_up: most frequent second cause; null: none
--   advice: one sentence for an engineer
SELECT
    job,
    cause,
    windows,
    toInt64(sum(windows) OVER (PARTITION BY job)) AS of_windows,
    share, share_low, share_high, confidence, recoverable_ns, runner_up, advice
FROM
(
    SELECT
        v.job AS job, v.cause AS cause, toInt64(count()) AS windows, avg(v.share) AS share,
        avg(v.share_low) AS share_low, avg(v.share_high) AS share_high, avg(v.confidence) AS confidence,
        sum(v.recoverable_ns) AS recoverable_ns, topK(1)(v.runner_up)[1] AS runner_up, any(v.advice) AS advice
    FROM (SELECT * FROM verdicts FINAL) AS v
    WHERE v.window_start_ns >= {from_ns:Int64} AND v.window_start_ns < {to_ns:Int64}
        AND ({job:String} = '' OR v.job = {job:String}) AND ({host:String} = '' OR v.host = {host:String})
    GROUP BY job, cause
)
ORDER BY job IS NULL, job, windows DESC, cause
