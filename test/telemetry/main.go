// Telemetry is an OpenTelemetry collector that prints the traces it receives, to try the agent's without another
// program:
//
//	go run . -listen 127.0.0.1:4317
//
// It is a module of its own, because the protocol's generated server brings a gateway, and the parser of PromQL a
// database, that the agent does not need. Its tests run the agent beside it, and hold the dashboard to what the agent
// exports.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:4317", "address of the receiver")
	flag.Parse()
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal("telemetry: ", err)
	}
	if err := serve(l, func(spans []*tracepb.Span) { write(os.Stdout, spans) }); err != nil {
		log.Fatal("telemetry: ", err)
	}
}

// write prints the spans of one trace, a line each, by time.
func write(w io.Writer, spans []*tracepb.Span) {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b *tracepb.Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	begin := spans[0].GetStartTimeUnixNano()
	for _, s := range spans {
		indent := "  "
		if len(s.GetParentSpanId()) == 0 {
			indent = ""
		}
		text := strings.TrimSpace(attribute(s, "k8s.container.name") + " " + attribute(s, "container.image.name"))
		if indent == "" {
			text = attribute(s, "k8s.namespace.name") + "/" + attribute(s, "k8s.pod.name")
		}
		fmt.Fprintf(w, "%-22s +%-12v %-12v %s %s%s\n", indent+s.GetName(),
			time.Duration(s.GetStartTimeUnixNano()-begin).Round(time.Microsecond),
			time.Duration(s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano()).Round(time.Microsecond),
			attribute(s, "journalet.outcome"), text, s.GetStatus().GetMessage())
	}
}

func attribute(s *tracepb.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}
