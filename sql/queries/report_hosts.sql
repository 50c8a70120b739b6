-- Which host is sick: hosts by their incidents, by what they lose more than the other hosts of their jobs, and by what is
-- missing of them. The first row is the one to look at.
--
-- A host is compared with the median of the hosts of the same job, where there are at least three of them, by the share of
-- time in each state that is a loss or a limit; the state in which it exceeds them most is named.
--
-- Arguments
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
-- Result
--   host: host
--   devices: devices
--   critical: critical incidents that touch the range
--   warnings: warnings
--   open: incidents that are not over
--   kinds: kinds of its incidents of these two severities, most frequent first
--   worst_state: state in which it exceeds the hosts of its job most; null: no host to compare with
--   excess [0..1]: by which share of its time; null: likewise
--   coverage_min [0..1]: coverage of its worst window with work of a job; null: no such window
--   err_max_ns [ns]: largest clock bound of a row that was used; null: none known
WITH
    per_state AS
    (
        SELECT host, assumeNotNull(job) AS job, state.1 AS state_name, sum(state.2) / sum(window_ns) AS share
        FROM windows FINAL
        ARRAY JOIN
            [
            ('compute', compute_ns), ('memory_bandwidth', memory_bandwidth_ns), ('on_chip_memory', on_chip_memory_ns), ('interconnect', interconnect_ns),
            ('latency', latency_ns), ('throttled', throttled_ns), ('bank_conflict', bank_conflict_ns), ('spill', spill_ns),
            ('dma_stall', dma_stall_ns), ('kernel_unattributed', kernel_unattributed_ns), ('collective_network', collective_network_ns), ('collective_wait', collective_wait_ns),
            ('pcie_h2d', pcie_h2d_ns), ('pcie_d2h', pcie_d2h_ns), ('pcie_small', pcie_small_ns), ('pcie_queueing', pcie_queueing_ns),
            ('host', host_ns), ('host_input', host_input_ns), ('host_contention', host_contention_ns), ('host_pageable', host_pageable_ns),
            ('launch_overhead', launch_overhead_ns), ('dependency', dependency_ns), ('no_demand', no_demand_ns), ('unresolved', unresolved_ns),
            ('unknown', unknown_ns)
            ] AS state
        WHERE window_start_ns >= {from_ns:Int64} AND window_start_ns < {to_ns:Int64} AND job IS NOT NULL
        GROUP BY host, job, state_name
    ),
    excess AS
    (
        SELECT host, argMax(state_name, more) AS worst_state, max(more) AS excess
        FROM
        (
            SELECT p.host AS host, p.state_name AS state_name, p.share - c.share AS more
            FROM per_state AS p
            INNER JOIN
            (
                SELECT job, state_name, quantileExact(0.5)(share) AS share
                FROM per_state GROUP BY job, state_name HAVING count() >= 3
            ) AS c ON c.job = p.job AND c.state_name = p.state_name
            WHERE p.state_name NOT IN ('compute', 'memory_bandwidth', 'on_chip_memory', 'interconnect', 'no_demand', 'unresolved')
        )
        GROUP BY host
    ),
    troubles AS
    (
        SELECT
            host, toInt64(countIf(severity = 'critical')) AS critical, toInt64(countIf(severity = 'warning')) AS warnings,
            toInt64(countIf(end_ns IS NULL)) AS open, topKIf(4)(kind, severity != 'info') AS kinds
        FROM incidents FINAL
        WHERE start_ns < {to_ns:Int64} AND (end_ns IS NULL OR end_ns >= {from_ns:Int64})
        GROUP BY host
    ),
    seen AS
    (
        SELECT host, toInt64(uniqExact(device)) AS devices, minOrNullIf(w.coverage, w.job IS NOT NULL) AS coverage_min, max(err_ns) AS err_max_ns
        FROM (SELECT * FROM windows FINAL) AS w
        WHERE window_start_ns >= {from_ns:Int64} AND window_start_ns < {to_ns:Int64}
        GROUP BY host
    ),
    every AS (SELECT host FROM seen UNION DISTINCT SELECT host FROM troubles)
SELECT
    e.host AS host, ifNull(s.devices, 0) AS devices, ifNull(t.critical, 0) AS critical, ifNull(t.warnings, 0) AS warnings,
    ifNull(t.open, 0) AS open, arrayStringConcat(ifNull(t.kinds, []), ', ') AS kinds, x.worst_state AS worst_state,
    x.excess AS excess, s.coverage_min AS coverage_min, s.err_max_ns AS err_max_ns
FROM every AS e
LEFT JOIN seen AS s ON s.host = e.host
LEFT JOIN troubles AS t ON t.host = e.host
LEFT JOIN excess AS x ON x.host = e.host
ORDER BY critical DESC, warnings DESC, excess DESC NULLS LAST, coverage_min, host
SETTINGS join_use_nulls = 1
