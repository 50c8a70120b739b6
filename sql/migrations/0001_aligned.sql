-- Rows of the producers in fleet time: one table a kind.
--
-- Identity of a row: (producer, epoch, sequence, row) within its table. Keys follow how people ask: one host, one device,
-- a stretch of time. Codecs were measured on made-up serving traffic (2 hosts, 4 devices each, nearly all columns filled):
-- ticks and times Delta + ZSTD(1) 2.3 B a value against 3.4 B with DoubleDelta, durations T64('bit') 1.9 B against 2.1 B;
-- together 13.5 B a span against 16.5 B with ZSTD alone, at the same insert speed. Gauges: ZSTD alone beat Gorilla on all
-- but pure noise. The tokens of the last 10,000 parts inserted into a table are remembered (a block makes one part a day
-- it spans), so that a repeated insert is stored once. Parts up to 128 MiB stay compact: an insert of 50k spans then costs
-- 0.9 CPU seconds a million rows instead of 2.4 (a file a column). Merges take few parts at once, in small blocks: 100 parts
-- of 40 columns would need a gigabyte.
-- A key with device may be null: null is host work. The index `times` is what lets a filter on the alias `time` skip
-- granules: the key's last column is seen only where it is named itself.

CREATE TABLE IF NOT EXISTS spans
(
    process_id            Nullable(Int64)                     CODEC(ZSTD(1)) COMMENT 'process that caused the work; with host it scopes correlation ids',
    device                LowCardinality(Nullable(String))    CODEC(ZSTD(1)) COMMENT 'device id, unique within the host; null for host work',
    track                 LowCardinality(String)              CODEC(ZSTD(1)) COMMENT 'host_api, driver, pcie_h2d, pcie_d2h, engine:<name>, collective, cpu_thread',
    name                  LowCardinality(String)              CODEC(ZSTD(1)) COMMENT 'operator, kernel, API call or transfer',
    start_ticks           Int64                               CODEC(Delta(8), ZSTD(1)) COMMENT 'start on the batch''s clock [ticks]',
    duration_ticks        Int64                               CODEC(T64('bit'), ZSTD(1)) COMMENT 'length on the batch''s clock [ticks]',
    correlation_id        Nullable(Int64)                     CODEC(Delta(8), ZSTD(1)) COMMENT 'joins API call, submission, transfer and kernel; unique with host and process',
    stream                LowCardinality(Nullable(String))    CODEC(ZSTD(1)) COMMENT 'stream or queue the work was put in',
    wait_ids              Array(Int64)                        CODEC(ZSTD(1)) COMMENT 'correlation ids of the spans or events this one waited for',
    bytes                 Nullable(Int64)                     CODEC(ZSTD(1)) COMMENT 'bytes moved: payload of a transfer, memory traffic of a kernel [B]',
    flops                 Nullable(Int64)                     CODEC(ZSTD(1)) COMMENT 'floating-point operations done [flop]',
    job                   LowCardinality(Nullable(String))    CODEC(ZSTD(1)) COMMENT 'job the work belongs to',
    rank                  Nullable(Int64)                     CODEC(ZSTD(1)) COMMENT 'rank of the device in the job',
    request_id            Nullable(String)                    CODEC(ZSTD(1)) COMMENT 'request served',
    step                  Nullable(Int64)                     CODEC(Delta(8), ZSTD(1)) COMMENT 'step (iteration) number within the job',
    team                  LowCardinality(Nullable(String))    CODEC(ZSTD(1)) COMMENT 'who pays',
    communicator          LowCardinality(Nullable(String))    CODEC(ZSTD(1)) COMMENT 'collective group',
    communicator_sequence Nullable(Int64)                     CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the collective within its group',
    attributes            Map(LowCardinality(String), String) CODEC(ZSTD(1)) COMMENT 'anything else',
    start_ns              Int64                               CODEC(Delta(8), ZSTD(1)) COMMENT 'fleet time [ns since 1970]',
    duration_ns           Int64                               CODEC(T64('bit'), ZSTD(1)) COMMENT 'length: source ticks times rate [ns]',
    err_ns                Nullable(Int64)                     CODEC(ZSTD(1)) COMMENT 'bound on the error against every clock of the same reference; null: none can be given [ns]',
    utc_err_ns            Nullable(Int64)                     CODEC(ZSTD(1)) COMMENT 'bound on the error of fleet time against UTC; null: none can be given [ns]',
    alignment             LowCardinality(String)              CODEC(ZSTD(1)) COMMENT 'settled, provisional or gap',
    host                  LowCardinality(String)              CODEC(ZSTD(1)) COMMENT 'host the rows came from',
    producer              LowCardinality(String)              CODEC(ZSTD(1)) COMMENT 'producer of the batch; first part of a row''s identity',
    epoch                 Int64                               CODEC(Delta(8), ZSTD(1)) COMMENT 'epoch of the producer; part of the identity',
    sequence              Int64                               CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the batch; part of the identity',
    row                   Int64                               CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the row within the batch; part of the identity',
    clock                 LowCardinality(String)              CODEC(ZSTD(1)) COMMENT 'source clock of the ticks',
    late                  Bool                                CODEC(ZSTD(1)) COMMENT 'came behind its host''s watermark by more than the allowed lateness',
    input_partition       Int32                               CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset          Int64                               CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at           DateTime64(3, 'UTC')                DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time                  DateTime64(9, 'UTC')                ALIAS fromUnixTimestamp64Nano(start_ns, 'UTC') COMMENT 'start_ns as a time',
    INDEX times fromUnixTimestamp64Nano(start_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(start_ns, 'UTC'))
ORDER BY (host, device, track, start_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304, allow_nullable_key = 1, ttl_only_drop_parts = 1
COMMENT 'Work with a start and a length on one track. With fleet time.';

CREATE TABLE IF NOT EXISTS counters
(
    device          LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'device id; null for the host',
    counter         LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'name in the counter''s descriptor',
    instance        LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'which one of several: cpu0, lane3, eth0, channel5',
    time_ticks      Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'when it was read, on the batch''s clock [ticks]',
    raw             Nullable(Int64)                  CODEC(Delta(8), ZSTD(1)) COMMENT 'exact reading of a monotonic counter; null if missing [as declared]',
    value           Nullable(Float64)                CODEC(ZSTD(1)) COMMENT 'reading of a gauge; null if missing, never 0 for missing [as declared]',
    status          LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'ok, missing, sentinel, saturated, stuck, reset, wrapped, jitter (small step back)',
    time_ns         Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'fleet time [ns since 1970]',
    err_ns          Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'bound on the error against every clock of the same reference; null: none can be given [ns]',
    utc_err_ns      Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'bound on the error of fleet time against UTC; null: none can be given [ns]',
    alignment       LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'settled, provisional or gap',
    host            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'host the rows came from',
    producer        LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'producer of the batch; first part of a row''s identity',
    epoch           Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'epoch of the producer; part of the identity',
    sequence        Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the batch; part of the identity',
    row             Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the row within the batch; part of the identity',
    clock           LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'source clock of the ticks',
    late            Bool                             CODEC(ZSTD(1)) COMMENT 'came behind its host''s watermark by more than the allowed lateness',
    input_partition Int32                            CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset    Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at     DateTime64(3, 'UTC')             DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time            DateTime64(9, 'UTC')             ALIAS fromUnixTimestamp64Nano(time_ns, 'UTC') COMMENT 'time_ns as a time',
    INDEX times fromUnixTimestamp64Nano(time_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(time_ns, 'UTC'))
ORDER BY (host, device, counter, instance, time_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304, allow_nullable_key = 1, ttl_only_drop_parts = 1
COMMENT 'Readings of counters and gauges. With fleet time.';

CREATE TABLE IF NOT EXISTS profiles
(
    process_id      Int64                            CODEC(ZSTD(1)) COMMENT 'process sampled',
    thread_id       Int64                            CODEC(ZSTD(1)) COMMENT 'thread sampled',
    time_ticks      Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'when [ticks]',
    stack           LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'frames root first, separated by '';'', interned',
    weight_ns       Int64                            CODEC(ZSTD(1)) COMMENT 'time the sample stands for [ns]',
    job             LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'job',
    rank            Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'rank',
    time_ns         Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'fleet time [ns since 1970]',
    err_ns          Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'bound on the error against every clock of the same reference; null: none can be given [ns]',
    utc_err_ns      Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'bound on the error of fleet time against UTC; null: none can be given [ns]',
    alignment       LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'settled, provisional or gap',
    host            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'host the rows came from',
    producer        LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'producer of the batch; first part of a row''s identity',
    epoch           Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'epoch of the producer; part of the identity',
    sequence        Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the batch; part of the identity',
    row             Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the row within the batch; part of the identity',
    clock           LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'source clock of the ticks',
    late            Bool                             CODEC(ZSTD(1)) COMMENT 'came behind its host''s watermark by more than the allowed lateness',
    input_partition Int32                            CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset    Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at     DateTime64(3, 'UTC')             DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time            DateTime64(9, 'UTC')             ALIAS fromUnixTimestamp64Nano(time_ns, 'UTC') COMMENT 'time_ns as a time',
    INDEX times fromUnixTimestamp64Nano(time_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(time_ns, 'UTC'))
ORDER BY (host, process_id, time_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304, ttl_only_drop_parts = 1
COMMENT 'Sampled host stacks. With fleet time.';

CREATE TABLE IF NOT EXISTS inventory
(
    time_ticks      Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'when it was read [ticks]',
    kind            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'host, device, link, engine, peak, partition, software, counter, clock',
    component       LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'id within the host: dev0, 0000:3b:00.0, numa0, dev0/pcie',
    parent          LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'component it hangs on: switch, root port, NUMA node, device',
    attribute       LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'what is stated, such as width_lanes, speed_gt_s, flops_per_s, version',
    text            Nullable(String)                 CODEC(ZSTD(1)) COMMENT 'the value as text',
    number          Nullable(Float64)                CODEC(ZSTD(1)) COMMENT 'the value as a number [see unit]',
    unit            LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'unit of number',
    time_ns         Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'fleet time [ns since 1970]',
    err_ns          Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'bound on the error against every clock of the same reference; null: none can be given [ns]',
    utc_err_ns      Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'bound on the error of fleet time against UTC; null: none can be given [ns]',
    alignment       LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'settled, provisional or gap',
    host            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'host the rows came from',
    producer        LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'producer of the batch; first part of a row''s identity',
    epoch           Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'epoch of the producer; part of the identity',
    sequence        Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the batch; part of the identity',
    row             Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the row within the batch; part of the identity',
    clock           LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'source clock of the ticks',
    late            Bool                             CODEC(ZSTD(1)) COMMENT 'came behind its host''s watermark by more than the allowed lateness',
    input_partition Int32                            CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset    Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at     DateTime64(3, 'UTC')             DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time            DateTime64(9, 'UTC')             ALIAS fromUnixTimestamp64Nano(time_ns, 'UTC') COMMENT 'time_ns as a time',
    INDEX times fromUnixTimestamp64Nano(time_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (host, component, attribute, time_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304
COMMENT 'What the host has: devices, topology, links, capabilities, peaks, versions, counter descriptors. With fleet time.';

CREATE TABLE IF NOT EXISTS marks
(
    time_ticks      Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'when [ticks]',
    kind            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'deployment, version, incident, note',
    subject         LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'driver, firmware, compiler, model, job, host',
    name            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'what was deployed or happened',
    version         LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'version after the mark',
    detail          Nullable(String)                 CODEC(ZSTD(1)) COMMENT 'free text',
    time_ns         Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'fleet time [ns since 1970]',
    err_ns          Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'bound on the error against every clock of the same reference; null: none can be given [ns]',
    utc_err_ns      Nullable(Int64)                  CODEC(ZSTD(1)) COMMENT 'bound on the error of fleet time against UTC; null: none can be given [ns]',
    alignment       LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'settled, provisional or gap',
    host            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'host the rows came from',
    producer        LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'producer of the batch; first part of a row''s identity',
    epoch           Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'epoch of the producer; part of the identity',
    sequence        Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the batch; part of the identity',
    row             Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the row within the batch; part of the identity',
    clock           LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'source clock of the ticks',
    late            Bool                             CODEC(ZSTD(1)) COMMENT 'came behind its host''s watermark by more than the allowed lateness',
    input_partition Int32                            CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset    Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at     DateTime64(3, 'UTC')             DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time            DateTime64(9, 'UTC')             ALIAS fromUnixTimestamp64Nano(time_ns, 'UTC') COMMENT 'time_ns as a time',
    INDEX times fromUnixTimestamp64Nano(time_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
ORDER BY (kind, subject, time_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304
COMMENT 'Things that happened and may explain a change. With fleet time.';

CREATE TABLE IF NOT EXISTS heartbeats
(
    time_ticks         Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'when the beat was made, on the host''s reference clock [ticks]',
    contract           LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'kind of batch the row speaks of',
    clock              LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'clock of those batches',
    batches_total      Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'batches of this kind published in this epoch, all clocks together',
    rows_total         Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'rows of this kind published in this epoch, all clocks together',
    dropped_rows_total Int64                  CODEC(ZSTD(1)) COMMENT 'rows of this kind lost at the source in this epoch',
    through_ticks      Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'promise on `clock`: rows published later are not earlier than this [ticks]',
    closed             Bool                   CODEC(ZSTD(1)) COMMENT 'true: the producer ends here and sends no more of this kind',
    time_ns            Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'fleet time [ns since 1970]',
    err_ns             Nullable(Int64)        CODEC(ZSTD(1)) COMMENT 'bound on the error against every clock of the same reference; null: none can be given [ns]',
    utc_err_ns         Nullable(Int64)        CODEC(ZSTD(1)) COMMENT 'bound on the error of fleet time against UTC; null: none can be given [ns]',
    alignment          LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'settled, provisional or gap',
    host               LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'host the rows came from',
    producer           LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'producer of the batch; first part of a row''s identity',
    epoch              Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'epoch of the producer; part of the identity',
    sequence           Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the batch; part of the identity',
    row                Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'number of the row within the batch; part of the identity',
    batch_clock        LowCardinality(String) CODEC(ZSTD(1)) COMMENT 'source clock of the ticks',
    late               Bool                   CODEC(ZSTD(1)) COMMENT 'came behind its host''s watermark by more than the allowed lateness',
    input_partition    Int32                  CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset       Int64                  CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at        DateTime64(3, 'UTC')   DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time               DateTime64(9, 'UTC')   ALIAS fromUnixTimestamp64Nano(time_ns, 'UTC') COMMENT 'time_ns as a time',
    INDEX times fromUnixTimestamp64Nano(time_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMMDD(fromUnixTimestamp64Nano(time_ns, 'UTC'))
ORDER BY (host, producer, contract, time_ns)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304, ttl_only_drop_parts = 1
COMMENT 'Cumulative counts of a producer: a lost tail is seen, and idleness is data. With fleet time.';
