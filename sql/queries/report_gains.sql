-- What there is to gain: device time by job and cause, and how much faster the job would be at most without that cause.
--
-- The gain is an upper limit: what took the time of one cause may be hidden behind another one when it is gone. Causes of kind
-- loss can be removed; of kind limit are those where the resource does work at what it can: only less work or a faster
-- resource helps.
--
-- Arguments
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
--   job String = '': only this job; empty: all
--   host String = '': only this host; empty: all
--   top UInt32 = 1000: rows at most
-- Result
--   job: job; null: none
--   cause: what took the time
--   kind: loss or limit
--   device_time_ns [ns]: time of all devices
--   share [0..1]: of the time in which something was asked of the devices
--   at_most_faster [x]: speed without the cause at best, as a multiple of today's
SELECT
    job, cause, kind, time_ns AS device_time_ns, time_ns / demand_ns AS share,
    if(share < 1, 1 / (1 - share), NULL) AS at_most_faster
FROM
(
    SELECT
        job, state.1 AS cause, sum(state.2) AS time_ns,
        sum(window_ns - no_demand_ns - unresolved_ns - unknown_ns) AS demand_ns,
        if(cause IN ('compute', 'memory_bandwidth', 'on_chip_memory', 'interconnect', 'collective_network', 'pcie_h2d',
                     'pcie_d2h'), 'limit', 'loss') AS kind
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
    WHERE window_start_ns >= {from_ns:Int64} AND window_start_ns < {to_ns:Int64}
        AND ({job:String} = '' OR job = {job:String}) AND ({host:String} = '' OR host = {host:String})
        AND state.1 NOT IN ('no_demand', 'unresolved', 'unknown')
    GROUP BY job, cause
)
WHERE time_ns > 0
ORDER BY kind DESC, time_ns DESC, job, cause
LIMIT {top:UInt32}
