-- Hosts that differ from their peers, which run the same build of the same program: by the modified z-score of what a
-- recording of the host has on average (docs/fleets.md).
WITH
    recordings AS
    (
        SELECT
            extract(program, '[^/]*$') AS program,
            if({build_label:String} = '', ifNull(build_id, ''), labels[{build_label:String}]) AS build,
            host,
            recording,
            sum({figure:Identifier}) AS value
        FROM fleet
        WHERE {program:String} IN ('', extract(program, '[^/]*$'))
        GROUP BY program, build, host, recording
    ),
    hosts AS
    (
        SELECT program, build, host, count() AS recordings, sum(value) / recordings AS mean
        FROM recordings
        GROUP BY program, build, host
    ),
    medians AS
    (
        SELECT program, build, count() AS hosts, quantileExactInclusive(0.5)(mean) AS peer_median
        FROM hosts
        GROUP BY program, build
        HAVING hosts >= 5
    ),
    spreads AS
    (
        SELECT
            program, build, any(peer_median) AS median, any(medians.hosts) AS hosts,
            quantileExactInclusive(0.5)(abs(mean - peer_median)) AS mad,
            avg(abs(mean - peer_median)) AS mean_deviation
        FROM hosts
        INNER JOIN medians USING (program, build)
        GROUP BY program, build
    )
SELECT
    program,
    build,
    host,
    recordings,
    mean,
    median,
    hosts,
    (mean - median) / if(mad > 0, mad / 0.6745, mean_deviation * 1.253314) AS score
FROM hosts
INNER JOIN spreads USING (program, build)
WHERE mean_deviation > 0
  AND abs(score) > 3.5
  AND abs(mean - median) > 0.1 * median
ORDER BY abs(score) DESC, program, build, host
LIMIT {limit:UInt64};
