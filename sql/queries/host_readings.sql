-- The latest reading of every counter and gauge of the hosts themselves (or of one device).
--
-- Arguments
--   host String = '': only this host; empty: all
--   device String = '': readings of this device; empty: of the host
--   counter String = '': only this counter; empty: all
-- Result
--   host: host
--   counter: counter, as in its descriptor
--   instance: which one of several; null: there is one
--   raw [as declared]: exact reading of a monotonic counter
--   value [as declared]: reading of a gauge
--   status: ok, missing, sentinel, saturated, stuck, reset or wrapped
--   read_ns [ns since 1970]: when it was read
SELECT
    host,
    counter,
    instance,
    tupleElement(latest, 1) AS raw,
    tupleElement(latest, 2) AS value,
    tupleElement(latest, 3) AS status,
    read_ns
FROM
(
    SELECT
        host,
        counter,
        instance,
        max(time_ns) AS read_ns,
        argMax((raw, value, status), (time_ns, input_offset, row)) AS latest
    FROM counters
    WHERE ifNull(device, '') = {device:String} AND ({counter:String} = '' OR counter = {counter:String})
        AND ({host:String} = '' OR host = {host:String})
    GROUP BY host, counter, instance
)
ORDER BY host, counter, instance
