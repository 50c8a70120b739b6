-- Where the time of each job went: every ns of its devices' windows in exactly one state, so that shares add up to 1.
--
-- Arguments
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
--   job String = '': only this job; empty: all
--   host String = '': only this host; empty: all
-- Result
--   job: job with most work in the windows; null: none
--   devices: devices that worked for it
--   state_name: state
--   time_ns [ns]: time in this state
--   share [0..1]: of the time of all the job's windows
--   demand_share [0..1]: of the time with demand and knowledge; null: time without
SELECT
    job, devices, state_name, time_ns, time_ns / whole_ns AS share,
    if(state_name IN ('no_demand', 'unresolved', 'unknown') OR demand_ns = 0, NULL, time_ns / demand_ns) AS demand_share
FROM
(
    SELECT
        job, state.1 AS state_name, sum(state.2) AS time_ns, sum(window_ns) AS whole_ns,
        toInt64(uniqExact(host, device)) AS devices,
        sum(window_ns - no_demand_ns - unresolved_ns - unknown_ns) AS demand_ns
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
    GROUP BY job, state_name
)
WHERE time_ns > 0
ORDER BY job IS NULL, job, time_ns DESC, state_name
