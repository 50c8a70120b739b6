-- Transfers over each device's host link, by direction: payload, time and effective rate.
--
-- Arguments
--   from_ns Int64 = 0: first ns of the range, fleet time
--   to_ns Int64 = 9223372036854775807: first ns after the range
--   host String = '': only this host; empty: all
-- Result
--   host: host
--   device: device
--   direction: h2d or d2h
--   transfers: transfers that started in the range
--   payload_bytes [B]: payload moved; null: no transfer stated its size
--   transfer_ns [ns]: time of all transfers, overlaps counted twice
--   bytes_per_s [B/s]: payload over that time, of the transfers that state a size
--   mean_bytes [B]: mean size
SELECT
    host,
    device,
    substring(track, 6) AS direction,
    toInt64(count()) AS transfers,
    sum(bytes) AS payload_bytes,
    sum(duration_ns) AS transfer_ns,
    payload_bytes * 1e9 / nullIf(sumIf(duration_ns, bytes IS NOT NULL), 0) AS bytes_per_s,
    avg(bytes) AS mean_bytes
FROM spans
WHERE track IN ('pcie_h2d', 'pcie_d2h') AND start_ns >= {from_ns:Int64} AND start_ns < {to_ns:Int64}
    AND ({host:String} = '' OR host = {host:String})
GROUP BY host, device, direction
ORDER BY host, device, direction
