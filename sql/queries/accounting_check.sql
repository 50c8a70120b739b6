-- Windows whose states do not add up to the window: there must be none, so a healthy store returns no rows.
--
-- Arguments
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
-- Result
--   host: host
--   device: device
--   window_start_ns [ns since 1970]: first ns of the window
--   window_ns [ns]: length of the window
--   accounted_ns [ns]: sum of the states
SELECT
    host, device, window_start_ns, window_ns,
    compute_ns + memory_bandwidth_ns + on_chip_memory_ns + interconnect_ns + latency_ns + throttled_ns
        + bank_conflict_ns + spill_ns + dma_stall_ns + kernel_unattributed_ns + collective_network_ns
        + collective_wait_ns + pcie_h2d_ns + pcie_d2h_ns + pcie_small_ns + pcie_queueing_ns
        + host_ns + host_input_ns + host_contention_ns + host_pageable_ns
        + launch_overhead_ns + dependency_ns + no_demand_ns + unresolved_ns + unknown_ns AS accounted_ns
FROM windows FINAL
WHERE window_start_ns >= {from_ns:Int64} AND window_start_ns < {to_ns:Int64} AND accounted_ns != window_ns
ORDER BY host, device, window_start_ns
