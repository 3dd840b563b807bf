-- What there is: recordings and hosts by build, and what limits the other answers. `incomplete` recordings are left out
-- of them; of `running` ones, leaked_bytes are what was live when the rows were exported; of `cut` ones, some stacks are
-- only in the row of kind "rest" (--top).
SELECT
    extract(program, '[^/]*$') AS program,
    if({build_label:String} = '', ifNull(build_id, ''), labels[{build_label:String}]) AS build,
    uniqExact(host) AS hosts,
    uniqExact(recording) AS recordings,
    uniqExactIf(recording, NOT complete) AS incomplete,
    uniqExactIf(recording, ended_by = 'running') AS running,
    uniqExactIf(recording, kind = 'rest' AND stacks > 0) AS cut
FROM stack_rows
WHERE (recording, exported_realtime_ns) IN
    (SELECT recording, max(exported_realtime_ns) FROM stack_rows GROUP BY recording)
    AND {program:String} IN ('', extract(program, '[^/]*$'))
GROUP BY program, build
ORDER BY recordings DESC, program, build
LIMIT {limit:UInt64};
