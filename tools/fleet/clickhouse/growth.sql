-- What a recording has more of in the build `after` than in the build `before`, by stack: on average, and the median.
-- A median of 0 says that less than half of the recordings have the stack.
WITH
    rows_of_builds AS
    (
        SELECT
            if({build_label:String} = '', ifNull(build_id, ''), labels[{build_label:String}]) = {after:String} AS is_after,
            recording, kind, stack_hash, site, frames, {figure:Identifier} AS value
        FROM fleet
        WHERE {program:String} IN ('', extract(program, '[^/]*$'))
          AND if({build_label:String} = '', ifNull(build_id, ''), labels[{build_label:String}])
              IN ({before:String}, {after:String})
    ),
    assumeNotNull((SELECT uniqExact(recording) FROM rows_of_builds WHERE NOT is_after)) AS recordings_before,
    assumeNotNull((SELECT uniqExact(recording) FROM rows_of_builds WHERE is_after)) AS recordings_after
SELECT
    stack_hash,
    any(site) AS site,
    any(frames) AS frames,
    sumIf(value, NOT is_after) / recordings_before AS mean_before,
    sumIf(value, is_after) / recordings_after AS mean_after,
    mean_after - mean_before AS growth,
    -- Recordings without the stack have 0.
    arrayReduce('quantileExactInclusive(0.5)', arrayResize(groupArrayIf(value, NOT is_after), recordings_before))
        AS median_before,
    arrayReduce('quantileExactInclusive(0.5)', arrayResize(groupArrayIf(value, is_after), recordings_after))
        AS median_after,
    recordings_before,
    recordings_after
FROM rows_of_builds
WHERE kind = 'stack' AND value > 0
GROUP BY stack_hash
HAVING growth > 0
ORDER BY growth DESC, stack_hash
LIMIT {limit:UInt64};
