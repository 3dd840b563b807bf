-- The rows of `heapprof export rows --per-stack` (docs/fleets.md), and the view of them that the queries read.
--
-- Parameters of all queries, set with --param_NAME=VALUE of clickhouse-client or SET param_NAME = 'VALUE':
--   figure        peak_bytes, leaked_bytes, allocated_bytes, ...
--   build_label   empty: builds are told apart by build ID; else by this label, such as version
--   program       empty: all programs; else the file name of one
--   limit         rows of the answer; of builds.sql, for each build

CREATE TABLE IF NOT EXISTS stack_rows
(
    format_version UInt32,
    recording String,
    host LowCardinality(String),
    program LowCardinality(String),
    build_id LowCardinality(Nullable(String)),
    pid UInt32,
    start_realtime_ns UInt64,
    duration_ns UInt64,
    exported_realtime_ns UInt64,
    ended_by LowCardinality(String),
    complete Bool,
    labels Map(LowCardinality(String), String),
    kind LowCardinality(String),
    stacks UInt64,
    stack_hash Nullable(String),
    site LowCardinality(Nullable(String)),
    frames Array(LowCardinality(String)),
    peak_bytes UInt64,
    peak_blocks UInt64,
    leaked_bytes UInt64,
    leaked_blocks UInt64,
    allocated_bytes UInt64,
    allocations UInt64,
    temporary_allocations UInt64,
    temporary_bytes UInt64,
    CONSTRAINT is_row_of_a_stack CHECK format_version = 1 AND recording != '' AND kind IN ('stack', 'rest')
)
ENGINE = MergeTree
ORDER BY (program, recording);

-- Of each recording the rows of its last export, each once: a recording can be exported again when it has grown, and a
-- file of rows can be loaded twice. Damaged recordings are left out, since a wrong size can be larger than all others
-- together; recordings.sql counts them.
CREATE VIEW IF NOT EXISTS fleet AS
SELECT *
FROM stack_rows
WHERE (recording, exported_realtime_ns) IN
    (SELECT recording, max(exported_realtime_ns) FROM stack_rows GROUP BY recording)
    AND complete
LIMIT 1 BY recording, kind, stack_hash;
