-- Why a host differs: what its recordings have of each stack on average, beside the median of all hosts that run the
-- same build of the same program. Hosts without the stack have 0.
WITH
    rows_of_peers AS
    (
        SELECT
            extract(program, '[^/]*$') AS program,
            if({build_label:String} = '', ifNull(build_id, ''), labels[{build_label:String}]) AS build,
            host, recording, kind, stack_hash, site, frames, {figure:Identifier} AS value
        FROM fleet
        WHERE {program:String} IN ('', extract(program, '[^/]*$'))
    ),
    groups AS
    (
        SELECT program, build, uniqExact(host) AS hosts
        FROM rows_of_peers
        GROUP BY program, build
        HAVING countIf(host = {host:String}) > 0
    ),
    hosts AS
    (
        SELECT program, build, host, uniqExact(recording) AS recordings FROM rows_of_peers GROUP BY program, build, host
    ),
    stacks AS
    (
        SELECT
            program, build, host, stack_hash, any(site) AS site, any(frames) AS frames,
            sum(value) / any(hosts.recordings) AS mean
        FROM rows_of_peers
        INNER JOIN hosts USING (program, build, host)
        WHERE kind = 'stack' AND value > 0
        GROUP BY program, build, host, stack_hash
    )
SELECT
    program,
    build,
    stack_hash,
    any(site) AS site,
    any(frames) AS frames,
    sumIf(mean, host = {host:String}) AS mean_of_host,
    arrayReduce('quantileExactInclusive(0.5)', arrayResize(groupArray(mean), any(groups.hosts))) AS median,
    mean_of_host - median AS difference
FROM stacks
INNER JOIN groups USING (program, build)
GROUP BY program, build, stack_hash
HAVING difference != 0
ORDER BY abs(difference) DESC, program, build, stack_hash
LIMIT {limit:UInt64};
