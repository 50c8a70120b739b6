-- What the steps publish: clock segments, accounting, verdicts, incidents, coverage, refused messages, own metrics.
--
-- Rows that can be written again carry a revision (or version): the highest wins, readers use FINAL.

CREATE TABLE IF NOT EXISTS segments
(
    host             LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host that owns the source clock',
    clock            LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'source clock',
    target_host      LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host that owns the target clock; for fleet time the elected reference',
    target_clock     LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'clock mapped to; ''fleet'' is fleet time',
    epoch            Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'changes at each step or reset of the pair, and at each election',
    version          Int64                  CODEC(ZSTD(1)) COMMENT 'revision of this piece',
    valid_from_ticks Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'first source tick it holds for [ticks]',
    valid_to_ticks   Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'first source tick it no longer holds for [ticks]',
    src0_ticks       Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'source tick of the anchor [ticks]',
    dst0_ticks       Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'target tick of the anchor [ticks]',
    rate_q32         Int64                  CODEC(ZSTD(1)) COMMENT 'target ticks a source tick, times 2^32',
    err_ns           Nullable(Int64)        CODEC(ZSTD(1)) COMMENT 'bound on the mapped time; null in a gap [ns]',
    utc_err_ns       Nullable(Int64)        CODEC(ZSTD(1)) COMMENT 'bound of fleet time against UTC; null where unknown or not fleet time [ns]',
    state            LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'settled, provisional or gap',
    settled_at_ticks Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'local tick at which the piece was decided [ticks]',
    input_partition  Int32                  CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset     Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at      DateTime64(3, 'UTC')   DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (host, clock, target_host, target_clock, epoch, valid_from_ticks)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304
COMMENT 'A piece of the map from one clock to another: dst0 + (t − src0) · rate_q32 / 2^32.';

CREATE TABLE IF NOT EXISTS windows
(
    host                   LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'host',
    device                 LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'device',
    job                    LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'job with most device work in the window; null: none',
    window_start_ns        Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'first ns of the window [ns since 1970]',
    window_ns              Int64                            CODEC(ZSTD(1)) COMMENT 'length of the window [ns]',
    revision               Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'highest input offset included; a later revision replaces the window',
    compute_ns             Int64                            CODEC(ZSTD(1)) COMMENT 'kernels limited by arithmetic throughput [ns]',
    memory_bandwidth_ns    Int64                            CODEC(ZSTD(1)) COMMENT 'kernels limited by device memory bandwidth [ns]',
    on_chip_memory_ns      Int64                            CODEC(ZSTD(1)) COMMENT 'kernels limited by on-chip memory [ns]',
    interconnect_ns        Int64                            CODEC(ZSTD(1)) COMMENT 'kernels limited by the on-chip or device interconnect [ns]',
    latency_ns             Int64                            CODEC(ZSTD(1)) COMMENT 'kernel time that no throughput limit explains [ns]',
    throttled_ns           Int64                            CODEC(ZSTD(1)) COMMENT 'kernel time lost to a lowered clock [ns]',
    bank_conflict_ns       Int64                            CODEC(ZSTD(1)) COMMENT 'kernel time lost to bank conflicts [ns]',
    spill_ns               Int64                            CODEC(ZSTD(1)) COMMENT 'kernel time lost to spills [ns]',
    dma_stall_ns           Int64                            CODEC(ZSTD(1)) COMMENT 'kernel time lost waiting for DMA [ns]',
    kernel_unattributed_ns Int64                            CODEC(ZSTD(1)) COMMENT 'kernel time whose work is not known (no flops, bytes or peaks) [ns]',
    collective_network_ns  Int64                            CODEC(ZSTD(1)) COMMENT 'exposed collective, bytes at bus bandwidth [ns]',
    collective_wait_ns     Int64                            CODEC(ZSTD(1)) COMMENT 'exposed collective, waiting for a late peer [ns]',
    pcie_h2d_ns            Int64                            CODEC(ZSTD(1)) COMMENT 'exposed host-to-device transfer at the link''s effective bandwidth [ns]',
    pcie_d2h_ns            Int64                            CODEC(ZSTD(1)) COMMENT 'exposed device-to-host transfer at the link''s effective bandwidth [ns]',
    pcie_small_ns          Int64                            CODEC(ZSTD(1)) COMMENT 'exposed transfer time above what the bytes need: small transfers, queueing [ns]',
    host_ns                Int64                            CODEC(ZSTD(1)) COMMENT 'idle with demand: the host had not submitted the next work [ns]',
    launch_overhead_ns     Int64                            CODEC(ZSTD(1)) COMMENT 'idle although the next work was submitted [ns]',
    dependency_ns          Int64                            CODEC(ZSTD(1)) COMMENT 'idle, waiting for an event [ns]',
    no_demand_ns           Int64                            CODEC(ZSTD(1)) COMMENT 'idle without a pending request; not a bottleneck [ns]',
    unresolved_ns          Int64                            CODEC(ZSTD(1)) COMMENT 'gaps between clocks smaller than their error bounds [ns]',
    unknown_ns             Int64                            CODEC(ZSTD(1)) COMMENT 'no coverage: data missing, late or before the first reading [ns]',
    kernels                Int64                            CODEC(ZSTD(1)) COMMENT 'kernels that started in the window',
    transfers              Int64                            CODEC(ZSTD(1)) COMMENT 'transfers that started in the window',
    flops                  Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'floating-point operations, by share of kernel time inside the window [flop]',
    memory_bytes           Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'device memory traffic of kernels, likewise [B]',
    h2d_bytes              Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'payload host to device, likewise [B]',
    d2h_bytes              Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'payload device to host, likewise [B]',
    launch_latency_p50_ns  Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'median of kernel start − submission end; null: no pair [ns]',
    orphans                Int64                            CODEC(ZSTD(1)) COMMENT 'kernels and transfers without a submission',
    err_ns                 Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'largest bound of any row used; null: some row had none [ns]',
    received_rows          Int64                            CODEC(ZSTD(1)) COMMENT 'rows of the host in the window',
    late_rows              Int64                            CODEC(ZSTD(1)) COMMENT 'rows that came behind the watermark',
    dropped_rows           Int64                            CODEC(ZSTD(1)) COMMENT 'rows lost at the source, by its own count',
    lost_rows              Int64                            CODEC(ZSTD(1)) COMMENT 'rows published and never received',
    redelivered_rows       Int64                            CODEC(ZSTD(1)) COMMENT 'repeats recognised and dropped',
    coverage               Float64                          CODEC(ZSTD(1)) COMMENT 'share of the window''s rows and time that is known [0..1]',
    counter_errors         Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'works whose stated work at its peak takes longer than they did, and readings of counters of the device that are no numbers',
    input_partition        Int32                            CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset           Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at            DateTime64(3, 'UTC')             DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time                   DateTime64(9, 'UTC')             ALIAS fromUnixTimestamp64Nano(window_start_ns, 'UTC') COMMENT 'window_start_ns as a time',
    INDEX times fromUnixTimestamp64Nano(window_start_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(revision)
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(window_start_ns, 'UTC'))
ORDER BY (host, device, window_ns, window_start_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304, ttl_only_drop_parts = 1
COMMENT 'Time accounting of one device in one window; the states add up to window_ns exactly.';

CREATE TABLE IF NOT EXISTS verdicts
(
    host            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'host',
    device          LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'device',
    job             LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'job',
    window_start_ns Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'first ns of the window [ns since 1970]',
    window_ns       Int64                            CODEC(ZSTD(1)) COMMENT 'length of the window [ns]',
    revision        Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'as in windows',
    cause           LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'a state, or mixed, no_demand, insufficient_data',
    share           Float64                          CODEC(ZSTD(1)) COMMENT 'share of the window''s time [0..1]',
    share_low       Float64                          CODEC(ZSTD(1)) COMMENT 'lower limit of share [0..1]',
    share_high      Float64                          CODEC(ZSTD(1)) COMMENT 'upper limit of share [0..1]',
    runner_up       LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'second largest cause',
    confidence      Float64                          CODEC(ZSTD(1)) COMMENT 'distance of the lower limit to the runner-up''s upper limit [0..1]',
    recoverable_ns  Int64                            CODEC(ZSTD(1)) COMMENT 'time the cause cost [ns]',
    evidence        String                           CODEC(ZSTD(1)) COMMENT 'the numbers used, as JSON',
    advice          String                           CODEC(ZSTD(1)) COMMENT 'one sentence for an engineer',
    input_partition Int32                            CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset    Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at     DateTime64(3, 'UTC')             DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time            DateTime64(9, 'UTC')             ALIAS fromUnixTimestamp64Nano(window_start_ns, 'UTC') COMMENT 'window_start_ns as a time',
    INDEX times fromUnixTimestamp64Nano(window_start_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(revision)
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(window_start_ns, 'UTC'))
ORDER BY (host, device, window_ns, window_start_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304, ttl_only_drop_parts = 1
COMMENT 'What limits a device in a window.';

CREATE TABLE IF NOT EXISTS incidents
(
    host            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'host',
    device          LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'device',
    kind            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'what it is, such as data_loss, clock_gap, pcie_saturation',
    start_ns        Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'start [ns since 1970]',
    end_ns          Nullable(Int64)                  CODEC(Delta(8), ZSTD(1)) COMMENT 'end; null: still open [ns since 1970]',
    revision        Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'a later revision replaces the incident',
    severity        LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'info, warning or critical',
    evidence        String                           CODEC(ZSTD(1)) COMMENT 'the numbers used, as JSON',
    input_partition Int32                            CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset    Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at     DateTime64(3, 'UTC')             DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time            DateTime64(9, 'UTC')             ALIAS fromUnixTimestamp64Nano(start_ns, 'UTC') COMMENT 'start_ns as a time',
    end_time        Nullable(DateTime64(9, 'UTC'))   ALIAS fromUnixTimestamp64Nano(end_ns, 'UTC') COMMENT 'end_ns as a time',
    INDEX times fromUnixTimestamp64Nano(start_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(revision)
ORDER BY (host, device, kind, start_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304, allow_nullable_key = 1
COMMENT 'Something wrong with a start and an end.';

CREATE TABLE IF NOT EXISTS coverage
(
    host             LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host',
    source           LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'producer',
    source_epoch     Int64                  CODEC(ZSTD(1)) COMMENT 'epoch of the producer',
    contract         LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'kind of batch',
    from_ns          Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'previous beat; the row counts what came since [ns since 1970]',
    to_ns            Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'this beat [ns since 1970]',
    produced_rows    Int64                  CODEC(ZSTD(1)) COMMENT 'published by the producer''s count',
    received_rows    Int64                  CODEC(ZSTD(1)) COMMENT 'received and decoded',
    late_rows        Int64                  CODEC(ZSTD(1)) COMMENT 'received behind the watermark',
    redelivered_rows Int64                  CODEC(ZSTD(1)) COMMENT 'repeats recognised and dropped',
    dropped_rows     Int64                  CODEC(ZSTD(1)) COMMENT 'lost at the source by its own count',
    lost_rows        Int64                  CODEC(ZSTD(1)) COMMENT 'published and never received; negative: a loss counted before came after all',
    input_partition  Int32                  CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset     Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at      DateTime64(3, 'UTC')   DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time             DateTime64(9, 'UTC')   ALIAS fromUnixTimestamp64Nano(to_ns, 'UTC') COMMENT 'to_ns as a time',
    INDEX times fromUnixTimestamp64Nano(to_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(to_ns, 'UTC'))
ORDER BY (host, source, contract, to_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304, ttl_only_drop_parts = 1
COMMENT 'What arrived of what was produced, per producer, kind and beat.';

CREATE TABLE IF NOT EXISTS dead_letters
(
    topic           LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'topic of the message',
    `partition`     Int64                            CODEC(ZSTD(1)) COMMENT 'its partition',
    `offset`        Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'its offset',
    step            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'step that could not use it',
    code            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'stable reason to count by',
    reason          String                           CODEC(ZSTD(1)) COMMENT 'reason for people',
    rows            Int64                            CODEC(ZSTD(1)) COMMENT 'rows the headers claimed; 0 where they could not be read',
    host            LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'host by the message''s key; null: unreadable',
    size_bytes      Int64                            CODEC(ZSTD(1)) COMMENT 'size of the message [B]',
    time_ms         Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'broker''s time of the message [ms since 1970]',
    head            String                           CODEC(ZSTD(1)) COMMENT 'first bytes of the message, hexadecimal',
    input_partition Int32                            CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset    Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at     DateTime64(3, 'UTC')             DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time            DateTime64(3, 'UTC')             ALIAS fromUnixTimestamp64Milli(time_ms, 'UTC') COMMENT 'time_ms as a time',
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(ingested_at)
ORDER BY (topic, partition, offset)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304
COMMENT 'Messages that could not be decoded.';

CREATE TABLE IF NOT EXISTS telemetry
(
    time_ns         Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'when [ns since 1970]',
    step            LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'step or service',
    `partition`     Int64                  CODEC(ZSTD(1)) COMMENT 'partition; −1: the whole worker',
    metric          LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'name with unit',
    value           Float64                CODEC(ZSTD(1)) COMMENT 'value [see metric]',
    input_partition Int32                  CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset    Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at     DateTime64(3, 'UTC')   DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time            DateTime64(9, 'UTC')   ALIAS fromUnixTimestamp64Nano(time_ns, 'UTC') COMMENT 'time_ns as a time',
    INDEX times fromUnixTimestamp64Nano(time_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(time_ns, 'UTC'))
ORDER BY (step, metric, partition, time_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304, ttl_only_drop_parts = 1
COMMENT 'The pipeline''s own metrics.';
