-- Pairs of events in an order that cannot be. A pair that is found again is the same row: readers use FINAL.

CREATE TABLE IF NOT EXISTS causality_violations
(
    host            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'host',
    rule            LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'submission: work starts before its submission ended; completion: a host span that waited for work ends before the work',
    time_ns         Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'when the effect happened [ns since 1970]',
    process_id      Int64                            CODEC(ZSTD(1)) COMMENT 'process of both',
    correlation_id  Int64                            CODEC(ZSTD(1)) COMMENT 'id that joins them',
    inversion_ns    Int64                            CODEC(ZSTD(1)) COMMENT 'by how much the cause is later than the effect [ns]',
    beyond_ns       Int64                            CODEC(ZSTD(1)) COMMENT 'what of it the bounds of both cannot explain [ns]',
    cause_clock     LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'clock of the cause',
    cause_device    LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'its device; null: the host',
    cause_track     LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'its track',
    cause_name      LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'its name',
    cause_time_ns   Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'its fleet time [ns since 1970]',
    cause_err_ns    Int64                            CODEC(ZSTD(1)) COMMENT 'bound on it [ns]',
    cause_producer  LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'identity of its span: producer',
    cause_epoch     Int64                            CODEC(ZSTD(1)) COMMENT 'its epoch',
    cause_sequence  Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'its number',
    cause_row       Int64                            CODEC(ZSTD(1)) COMMENT 'its row',
    effect_clock    LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'clock of the effect',
    effect_device   LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'its device; null: the host',
    effect_track    LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'its track',
    effect_name     LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'its name',
    effect_time_ns  Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'its fleet time [ns since 1970]',
    effect_err_ns   Int64                            CODEC(ZSTD(1)) COMMENT 'bound on it [ns]',
    effect_producer LowCardinality(String)           CODEC(ZSTD(1)) COMMENT 'identity of its span: producer',
    effect_epoch    Int64                            CODEC(ZSTD(1)) COMMENT 'its epoch',
    effect_sequence Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'its number',
    effect_row      Int64                            CODEC(ZSTD(1)) COMMENT 'its row',
    input_partition Int32                            CODEC(ZSTD(1)) COMMENT 'partition of the message',
    input_offset    Int64                            CODEC(Delta(8), ZSTD(1)) COMMENT 'offset of the message',
    ingested_at     DateTime64(3, 'UTC')             DEFAULT now64(3) CODEC(Delta(8), ZSTD(1)) COMMENT 'when the row was stored; retention counts from here',
    time            DateTime64(9, 'UTC')             ALIAS fromUnixTimestamp64Nano(time_ns, 'UTC') COMMENT 'time_ns as a time',
    INDEX times fromUnixTimestamp64Nano(time_ns, 'UTC') TYPE minmax GRANULARITY 1,
    INDEX input_offsets input_offset TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(ingested_at)
ORDER BY (host, time_ns, rule, cause_producer, cause_epoch, cause_sequence, cause_row, effect_producer, effect_epoch,
          effect_sequence, effect_row)
SETTINGS non_replicated_deduplication_window = 10000, min_bytes_for_wide_part = 134217728,
    max_parts_to_merge_at_once = 20, merge_max_block_size_bytes = 4194304
COMMENT 'Two events in an order that cannot be, whatever the clocks show within their bounds: a wrong correlation, or a clock that broke what is assumed of it.';
