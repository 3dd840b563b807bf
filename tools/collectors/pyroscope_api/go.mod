module heapprof/pyroscope_api

go 1.25.0

require (
	github.com/grafana/pyroscope/api v1.6.0
	google.golang.org/protobuf v1.36.10
)
