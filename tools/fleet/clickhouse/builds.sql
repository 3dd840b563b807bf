-- The stacks with the most bytes in each build: of one recording, on average.
WITH
    rows_of_builds AS
    (
        SELECT
            extract(program, '[^/]*$') AS program,
            if({build_label:String} = '', ifNull(build_id, ''), labels[{build_label:String}]) AS build,
            recording, kind, stack_hash, site, frames, {figure:Identifier} AS value
        FROM fleet
        WHERE {program:String} IN ('', extract(program, '[^/]*$'))
    ),
    builds AS
    (
        SELECT program, build, uniqExact(recording) AS recordings FROM rows_of_builds GROUP BY program, build
    )
SELECT
    program,
    build,
    recordings,
    stack_hash,
    any(site) AS site,
    any(frames) AS frames,
    sum(value) AS total,
    total / recordings AS mean
FROM rows_of_builds
INNER JOIN builds USING (program, build)
WHERE kind = 'stack' AND value > 0
GROUP BY program, build, recordings, stack_hash
ORDER BY program, build, total DESC, stack_hash
LIMIT {limit:UInt64} BY program, build;
