-- Jobs over all hosts, whom collectives waited for, and operators by device and minute.
--
-- Rows that can be written again carry a revision: the highest wins, readers use FINAL.

CREATE TABLE IF NOT EXISTS job_windows
(
    job                    LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'job',
    window_start_ns        Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'first ns of the window [ns since 1970]',
    window_ns              Int64                            CODEC(ZSTD(1)) COMMENT 'length of the window [ns]',
    revision               Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'a later revision replaces the window',
    hosts                  Int64                            CODEC(ZSTD(1)) COMMENT 'hosts heard',
    devices                Int64                            CODEC(ZSTD(1)) COMMENT 'devices of the job that are accounted for',
    active_devices         Int64                            CODEC(ZSTD(1)) COMMENT 'of these, devices that worked for it',
    missing_devices        Int64                            CODEC(ZSTD(1)) COMMENT 'devices of the job whose host was silent',
    device_ns              Int64                            CODEC(ZSTD(1)) COMMENT 'length of the window times devices; the states add up to it [ns]',
    compute_ns             Int64                            CODEC(ZSTD(1)) COMMENT 'kernels limited by arithmetic throughput, all devices together [ns]',
    memory_bandwidth_ns    Int64                            CODEC(ZSTD(1)) COMMENT 'kernels limited by device memory bandwidth, all devices together [ns]',
    on_chip_memory_ns      Int64                            CODEC(ZSTD(1)) COMMENT 'kernels limited by on-chip memory, all devices together [ns]',
    interconnect_ns        Int64                            CODEC(ZSTD(1)) COMMENT 'kernels limited by the on-chip or device interconnect, all devices together [ns]',
    latency_ns             Int64                            CODEC(ZSTD(1)) COMMENT 'kernel time that no throughput limit explains, all devices together [ns]',
    throttled_ns           Int64                            CODEC(ZSTD(1)) COMMENT 'kernel time lost to a lowered clock, all devices together [ns]',
    bank_conflict_ns       Int64                            CODEC(ZSTD(1)) COMMENT 'kernel time lost to bank conflicts, all devices together [ns]',
    spill_ns               Int64                            CODEC(ZSTD(1)) COMMENT 'kernel time lost to spills, all devices together [ns]',
    dma_stall_ns           Int64                            CODEC(ZSTD(1)) COMMENT 'kernel time lost waiting for DMA, all devices together [ns]',
    kernel_unattributed_ns Int64                            CODEC(ZSTD(1)) COMMENT 'kernel time whose work is not known (no flops, bytes or peaks), all devices together [ns]',
    collective_network_ns  Int64                            CODEC(ZSTD(1)) COMMENT 'exposed collective, bytes at bus bandwidth, all devices together [ns]',
    collective_wait_ns     Int64                            CODEC(ZSTD(1)) COMMENT 'exposed collective, waiting for a late peer, all devices together [ns]',
    pcie_h2d_ns            Int64                            CODEC(ZSTD(1)) COMMENT 'exposed host-to-device transfer at the link''s effective bandwidth, all devices together [ns]',
    pcie_d2h_ns            Int64                            CODEC(ZSTD(1)) COMMENT 'exposed device-to-host transfer at the link''s effective bandwidth, all devices together [ns]',
    pcie_small_ns          Int64                            CODEC(ZSTD(1)) COMMENT 'exposed transfer time above what the bytes need: set-up and latency of small transfers, all devices together [ns]',
    pcie_queueing_ns       Int64                            CODEC(ZSTD(1)) COMMENT 'exposed transfer time lost to others on the same path, all devices together [ns]',
    host_ns                Int64                            CODEC(ZSTD(1)) COMMENT 'idle with demand: the host was in calls or framework code and had not submitted the next work, all devices together [ns]',
    host_input_ns          Int64                            CODEC(ZSTD(1)) COMMENT 'idle with demand: the host prepared input, all devices together [ns]',
    host_contention_ns     Int64                            CODEC(ZSTD(1)) COMMENT 'idle with demand: the host''s thread waited for a processor, all devices together [ns]',
    host_pageable_ns       Int64                            CODEC(ZSTD(1)) COMMENT 'idle with demand: the host copied pageable memory, all devices together [ns]',
    launch_overhead_ns     Int64                            CODEC(ZSTD(1)) COMMENT 'idle although the next work was submitted, all devices together [ns]',
    dependency_ns          Int64                            CODEC(ZSTD(1)) COMMENT 'idle, waiting for an event, all devices together [ns]',
    no_demand_ns           Int64                            CODEC(ZSTD(1)) COMMENT 'idle without a pending request; not a bottleneck, all devices together [ns]',
    unresolved_ns          Int64                            CODEC(ZSTD(1)) COMMENT 'gaps between clocks smaller than their error bounds, all devices together [ns]',
    unknown_ns             Int64                            CODEC(ZSTD(1)) COMMENT 'no coverage: data missing, late or before the first reading, all devices together [ns]',
    busy_ns                Int64                            CODEC(ZSTD(1)) COMMENT 'time with a kernel [ns]',
    idle_ns                Int64                            CODEC(ZSTD(1)) COMMENT 'time without work, whatever the reason [ns]',
    utilisation            Nullable(Float64)                CODEC(ZSTD(1)) COMMENT 'busy_ns over known time; null: nothing is known [0..1]',
    imbalance              Nullable(Float64)                CODEC(ZSTD(1)) COMMENT 'largest over mean busy time of the devices; null: none was busy',
    busiest_host           LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host of the device with the largest',
    busiest_device         LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'that device',
    kernels                Int64                            CODEC(ZSTD(1)) COMMENT 'kernels that started',
    transfers              Int64                            CODEC(ZSTD(1)) COMMENT 'transfers that started',
    flops                  Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'floating-point operations; null: none stated [flop]',
    memory_bytes           Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'device memory traffic of kernels, likewise [B]',
    h2d_bytes              Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'payload host to device, likewise [B]',
    d2h_bytes              Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'payload device to host, likewise [B]',
    err_ns                 Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'largest bound of any device; null: one had none [ns]',
    coverage               Float64                          CODEC(ZSTD(1)) COMMENT 'share that is known; a missing device counts as 0 [0..1]',
    cause                  LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'as in verdicts',
    share                  Float64                          CODEC(ZSTD(1)) COMMENT 'share of the cause in device_ns [0..1]',
    share_low              Float64                          CODEC(ZSTD(1)) COMMENT 'lower limit of share [0..1]',
    share_high             Float64                          CODEC(ZSTD(1)) COMMENT 'upper limit of share [0..1]',
    runner_up              LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'second largest cause',
    confidence             Float64                          CODEC(ZSTD(1)) COMMENT 'distance of the lower limit to the runner-up''s upper limit [0..1]',
    recoverable_ns         Int64                            CODEC(ZSTD(1)) COMMENT 'device time the cause cost [ns]',
    evidence               String                           CODEC(ZSTD(1)) COMMENT 'the numbers used, as JSON',
    advice                 String                           CODEC(ZSTD(1)) COMMENT 'one sentence for an engineer',
    input_partition        Int32                            CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset           Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at            DateTime64(3, 'UTC')             DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time                   DateTime64(9, 'UTC')             ALIAS fromUnixTimestamp64Nano(window_start_ns, 'UTC') COMMENT 'window_start_ns as a time',
    INDEX times fromUnixTimestamp64Nano(window_start_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(revision)
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(window_start_ns, 'UTC'))
ORDER BY (job, window_ns, window_start_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304, allow_nullable_key = 1, ttl_only_drop_parts = 1
COMMENT 'Time accounting of a job over its devices on all hosts, and what limits it.';

CREATE TABLE IF NOT EXISTS collective_waits
(
    job             LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'job',
    communicator    LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'collective group',
    window_start_ns Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'first ns of the window [ns since 1970]',
    window_ns       Int64                            CODEC(ZSTD(1)) COMMENT 'length of the window [ns]',
    revision        Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'a later revision replaces the row',
    host            LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host of the rank that was waited for; null: the clocks do not tell whose it was',
    device          LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'its device',
    rank            Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'its rank',
    cause           LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'what kept it: slow_kernels, uneven_work, a state of windows, unexplained or indeterminate',
    wait_ns         Int64                            CODEC(ZSTD(1)) COMMENT 'time that the others waited, all together [ns]',
    waiting         Int64                            CODEC(ZSTD(1)) COMMENT 'members of the group less one',
    last            Int64                            CODEC(ZSTD(1)) COMMENT 'collectives in which it came last',
    collectives     Int64                            CODEC(ZSTD(1)) COMMENT 'collectives of the group that ended in the window with all members seen',
    excess_ns       Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'by how much the cause took the rank longer than the median of the others; null: not known [ns]',
    input_partition Int32                            CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset    Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at     DateTime64(3, 'UTC')             DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time            DateTime64(9, 'UTC')             ALIAS fromUnixTimestamp64Nano(window_start_ns, 'UTC') COMMENT 'window_start_ns as a time',
    INDEX times fromUnixTimestamp64Nano(window_start_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(revision)
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(window_start_ns, 'UTC'))
ORDER BY (job, communicator, window_ns, window_start_ns, host, device)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304, allow_nullable_key = 1, ttl_only_drop_parts = 1
COMMENT 'Whom the members of a group waited for in its collectives, and why.';

CREATE TABLE IF NOT EXISTS operators
(
    host             LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'host',
    device           LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'device',
    device_kind      LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'kind of the device by the inventory',
    job              LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'job',
    team             LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'who pays',
    name             LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'operator or kernel; (other): those past the bound on names',
    engine           LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'engine that ran it',
    window_start_ns  Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'first ns of the window [ns since 1970]',
    window_ns        Int64                            CODEC(ZSTD(1)) COMMENT 'length of the window [ns]',
    revision         Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'rows of the host that the window counts; a later revision replaces the row',
    calls            Int64                            CODEC(ZSTD(1)) COMMENT 'calls that started in the window',
    total_ns         Int64                            CODEC(ZSTD(1)) COMMENT 'time of these calls [ns]',
    flops            Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'of calls that state it; null: none does [flop]',
    bytes            Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'device memory traffic, likewise [B]',
    compute_ns       Int64                            CODEC(ZSTD(1)) COMMENT 'time bound by arithmetic [ns]',
    memory_ns        Int64                            CODEC(ZSTD(1)) COMMENT 'time bound by device memory [ns]',
    latency_ns       Int64                            CODEC(ZSTD(1)) COMMENT 'time that neither explains [ns]',
    unattributed_ns  Int64                            CODEC(ZSTD(1)) COMMENT 'likewise, of calls whose work or whose device''s peaks are not known [ns]',
    p50_ns           Int64                            CODEC(ZSTD(1)) COMMENT 'median length, within the width of a bin [ns]',
    p99_ns           Int64                            CODEC(ZSTD(1)) COMMENT '99th percentile of the length, likewise [ns]',
    duration_bins    Array(Int64)                     CODEC(ZSTD(1)) COMMENT 'bins b of lengths in [2^(b/8), 2^((b+1)/8)) ns; −1: 0 ns',
    duration_calls   Array(Int64)                     CODEC(ZSTD(1)) COMMENT 'calls in each of these bins',
    peak_flops_per_s Nullable(Float64)                CODEC(ZSTD(1)) COMMENT 'achievable on this engine at full clock [flop/s]',
    peak_bytes_per_s Nullable(Float64)                CODEC(ZSTD(1)) COMMENT 'achievable from device memory [B/s]',
    full_clock_mhz   Nullable(Float64)                CODEC(ZSTD(1)) COMMENT 'full clock of the engines [MHz]',
    input_partition  Int32                            CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset     Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at      DateTime64(3, 'UTC')             DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time             DateTime64(9, 'UTC')             ALIAS fromUnixTimestamp64Nano(window_start_ns, 'UTC') COMMENT 'window_start_ns as a time',
    INDEX times fromUnixTimestamp64Nano(window_start_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(revision)
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(window_start_ns, 'UTC'))
ORDER BY (host, device, job, team, name, engine, window_ns, window_start_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304, allow_nullable_key = 1, ttl_only_drop_parts = 1
COMMENT 'What each operator did on a device in a window; bins of lengths merge by sumMap.';
