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
--   raw [see unit]: exact reading of a monotonic counter
--   value [see unit]: reading of a gauge
--   unit: unit of both, by the counter's newest descriptor; null: the host sent none
--   status: ok, missing, sentinel, saturated, stuck, reset or wrapped
--   read_ns [ns since 1970]: when it was read
SELECT
    readings.host AS host,
    readings.counter AS counter,
    readings.instance AS instance,
    tupleElement(readings.latest, 1) AS raw,
    tupleElement(readings.latest, 2) AS value,
    units.unit AS unit,
    tupleElement(readings.latest, 3) AS status,
    readings.read_ns AS read_ns
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
) AS readings
LEFT JOIN
(
    SELECT host, component, toNullable(argMax(assumeNotNull(text), time_ns)) AS unit
    FROM inventory
    WHERE kind = 'counter' AND attribute = 'unit' AND text IS NOT NULL AND ({host:String} = '' OR host = {host:String})
    GROUP BY host, component
) AS units ON units.host = readings.host AND units.component = readings.counter
ORDER BY host, counter, instance
