-- What work of the host is for, how many take part in a collective, and the states of windows that it tells apart. Rows stored before have their time in
-- pcie_small_ns and host_ns, and 0 here: the states of a window add up to window_ns in both.

ALTER TABLE spans
    ADD COLUMN IF NOT EXISTS activity LowCardinality(Nullable(String)) CODEC(ZSTD(1)) COMMENT 'what work of the host is for: input, pageable_copy, framework, launch, wait' AFTER attributes,
    ADD COLUMN IF NOT EXISTS communicator_size Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'members of the collective group' AFTER activity;

ALTER TABLE windows
    ADD COLUMN IF NOT EXISTS pcie_queueing_ns Int64 DEFAULT 0 CODEC(ZSTD(1)) COMMENT 'exposed transfer time lost to others on the same path [ns]' AFTER pcie_small_ns,
    ADD COLUMN IF NOT EXISTS host_input_ns Int64 DEFAULT 0 CODEC(ZSTD(1)) COMMENT 'idle with demand: the host prepared input [ns]' AFTER host_ns,
    ADD COLUMN IF NOT EXISTS host_contention_ns Int64 DEFAULT 0 CODEC(ZSTD(1)) COMMENT 'idle with demand: the host''s thread waited for a processor [ns]' AFTER host_input_ns,
    ADD COLUMN IF NOT EXISTS host_pageable_ns Int64 DEFAULT 0 CODEC(ZSTD(1)) COMMENT 'idle with demand: the host copied pageable memory [ns]' AFTER host_contention_ns,
    MODIFY COLUMN pcie_small_ns Int64 CODEC(ZSTD(1)) COMMENT 'exposed transfer time above what the bytes need: set-up and latency of small transfers [ns]',
    MODIFY COLUMN host_ns Int64 CODEC(ZSTD(1)) COMMENT 'idle with demand: the host was in calls or framework code and had not submitted the next work [ns]';
