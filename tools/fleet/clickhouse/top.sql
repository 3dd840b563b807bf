-- The stacks with the most bytes over all hosts. `share` is of everything, stacks that were left out included.
SELECT
    stack_hash,
    any(site) AS site,
    any(frames) AS frames,
    sum(value) AS total,
    total / (SELECT sum({figure:Identifier}) FROM fleet
             WHERE {program:String} IN ('', extract(program, '[^/]*$'))) AS share,
    uniqExact(host) AS hosts,
    uniqExact(recording) AS recordings
FROM
(
    SELECT stack_hash, site, frames, host, recording, {figure:Identifier} AS value
    FROM fleet
    WHERE kind = 'stack' AND {program:String} IN ('', extract(program, '[^/]*$'))
)
WHERE value > 0
GROUP BY stack_hash
ORDER BY total DESC, stack_hash
LIMIT {limit:UInt64};
