-- What limits each device of each job: the causes with the most time, as shares of the accounted time.
-- Time without demand is no limit and is left out as a cause, but stays in the whole; so does time that is not known.
--
-- Arguments
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
--   job String = '': only this job; empty: all
--   host String = '': only this host; empty: all
--   per_device UInt32 = 3: causes shown for each device
-- Result
--   job: job with most work in the windows; null: none
--   host: host
--   device: device
--   cause: what the time went to
--   time_ns [ns]: time of this cause
--   share [0..1]: of the time of all the windows
--   windows: windows looked at
SELECT job, host, device, cause, time_ns, time_ns / whole_ns AS share, windows
FROM
(
    SELECT
        job, host, device, state.1 AS cause, sum(state.2) AS time_ns, sum(window_ns) AS whole_ns,
        toInt64(count()) AS windows,
        row_number() OVER (PARTITION BY job, host, device ORDER BY time_ns DESC, cause) AS place
    FROM windows FINAL
    ARRAY JOIN
        [
            ('compute', compute_ns), ('memory_bandwidth', memory_bandwidth_ns), ('on_chip_memory', on_chip_memory_ns), ('interconnect', interconnect_ns),
            ('latency', latency_ns), ('throttled', throttled_ns), ('bank_conflict', bank_conflict_ns), ('spill', spill_ns),
            ('dma_stall', dma_stall_ns), ('kernel_unattributed', kernel_unattributed_ns), ('collective_network', collective_network_ns), ('collective_wait', collective_wait_ns),
            ('pcie_h2d', pcie_h2d_ns), ('pcie_d2h', pcie_d2h_ns), ('pcie_small', pcie_small_ns), ('pcie_queueing', pcie_queueing_ns),
            ('host', host_ns), ('host_input', host_input_ns), ('host_contention', host_contention_ns), ('host_pageable', host_pageable_ns),
            ('launch_overhead', launch_overhead_ns), ('dependency', dependency_ns), ('unresolved', unresolved_ns)
        ] AS state
    WHERE window_start_ns >= {from_ns:Int64} AND window_start_ns < {to_ns:Int64}
        AND ({job:String} = '' OR job = {job:String}) AND ({host:String} = '' OR host = {host:String})
    GROUP BY job, host, device, cause
)
WHERE place <= {per_device:UInt32} AND time_ns > 0
ORDER BY job, host, device, share DESC, cause
