-- Pieces of the clocks' maps, each with the fleet time at which it begins and its length: what dashboards and the
-- queries clock_* draw over time.
--
-- time_ns is null where the host has no map to fleet time. After a reboot MONOTONIC_RAW shows old readings again: a
-- piece takes the newest boot whose map had begun by then.

CREATE VIEW IF NOT EXISTS clock_pieces AS
WITH
    pieces AS
    (
        SELECT
            host, clock, target_host, target_clock, epoch, valid_from_ticks, valid_to_ticks, rate_q32, err_ns,
            utc_err_ns, state,
            dst0_ticks + toInt64(bitShiftRight(toInt128(valid_from_ticks - src0_ticks) * rate_q32, 32)) AS target_from,
            toInt64(bitShiftRight(toInt128(valid_to_ticks - valid_from_ticks) * rate_q32, 32)) AS length_ns
        FROM segments FINAL
        WHERE valid_to_ticks > valid_from_ticks AND valid_to_ticks < toInt64(4611686018427387904)
    ),
    fleet AS
    (
        SELECT host, valid_from_ticks AS raw_from, target_from AS fleet_from, rate_q32 AS fleet_rate
        FROM pieces
        WHERE target_clock = 'fleet'
    )
SELECT
    p.host AS host, p.clock AS clock, p.target_host AS target_host, p.target_clock AS target_clock, p.epoch AS epoch,
    p.valid_from_ticks AS valid_from_ticks, p.valid_to_ticks AS valid_to_ticks, p.target_from AS target_from,
    p.rate_q32 AS rate_q32, p.length_ns AS length_ns, p.err_ns AS err_ns, p.utc_err_ns AS utc_err_ns, p.state AS state,
    multiIf(p.target_clock = 'fleet', p.target_from,
            f.fleet_rate = 0, NULL,
            f.fleet_from + toInt64(bitShiftRight(toInt128(p.target_from - f.raw_from) * f.fleet_rate, 32))) AS time_ns
FROM pieces AS p
ASOF LEFT JOIN fleet AS f ON f.host = p.host AND f.raw_from <= p.target_from;
