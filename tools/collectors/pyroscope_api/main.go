// The endpoint /ingest with Pyroscope's own parser of names and its definition of pprof: prints a JSON object for each
// profile that arrives. Arguments: the address to listen on, such as 127.0.0.1:4040.
package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"sync"

	profilev1 "github.com/grafana/pyroscope/api/gen/proto/go/google/v1"
	"github.com/grafana/pyroscope/api/model/labelset"
	"google.golang.org/protobuf/proto"
)

type arrived struct {
	Labels   map[string]string `json:"labels"`
	Sums     map[string]int64  `json:"sums"`
	Time     int64             `json:"time_ns"`
	Duration int64             `json:"duration_ns"`
	Samples  int               `json:"samples"`
}

func read(request *http.Request) (*arrived, error) {
	name, err := labelset.Parse(request.URL.Query().Get("name"))
	if err != nil {
		return nil, err
	}
	if err := labelset.ValidateLabelSet(name); err != nil {
		return nil, err
	}
	body, err := gzip.NewReader(request.Body)
	if err != nil {
		return nil, err
	}
	bytes, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var profile profilev1.Profile
	if err := proto.Unmarshal(bytes, &profile); err != nil {
		return nil, err
	}
	result := &arrived{name.Labels(), map[string]int64{}, profile.TimeNanos, profile.DurationNanos, len(profile.Sample)}
	for i, kind := range profile.SampleType {
		for _, sample := range profile.Sample {
			result.Sums[profile.StringTable[kind.Type]] += sample.Value[i]
		}
	}
	return result, nil
}

func main() {
	output := json.NewEncoder(os.Stdout)
	var one sync.Mutex
	http.HandleFunc("POST /ingest", func(answer http.ResponseWriter, request *http.Request) {
		result, err := read(request)
		if err != nil {
			http.Error(answer, err.Error(), http.StatusBadRequest)
			return
		}
		one.Lock()
		defer one.Unlock()
		if err := output.Encode(result); err != nil {
			log.Fatal(err)
		}
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
