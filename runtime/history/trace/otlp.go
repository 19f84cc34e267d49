package trace

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/journalet/journalet/runtime/bounded"
)

// scope is the name of the instrumentation.
const scope = "github.com/journalet/journalet/runtime/history/trace"

// Resource returns the spans of a node's agent in the form of an OTLP request.
func Resource(node, version string, spans []*tracepb.Span) *tracepb.ResourceSpans {
	a := &attributes{}
	a.text("service.name", "journalet")
	a.text("service.version", version)
	a.text("service.instance.id", node)
	a.text("k8s.node.name", node)
	return &tracepb.ResourceSpans{
		Resource: &resourcepb.Resource{Attributes: a.list},
		ScopeSpans: []*tracepb.ScopeSpans{{
			Scope: &commonpb.InstrumentationScope{Name: scope, Version: version}, Spans: spans,
		}},
	}
}

// JSON returns traces in OTLP's JSON form, on one line: what a collector's otlpjsonfile receiver and Jaeger read.
// Unlike in the JSON of protobuf, ids are in hex there, and enums are numbers.
func JSON(traces ...*tracepb.ResourceSpans) ([]byte, error) {
	b, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(&tracepb.TracesData{ResourceSpans: traces})
	if err != nil {
		return nil, fmt.Errorf("encode traces: %w", err)
	}
	var all any
	if err := bounded.JSON(b, len(b), &all); err != nil {
		return nil, fmt.Errorf("encode traces: %w", err)
	}
	idsToHex(all)
	if b, err = json.Marshal(all); err != nil {
		return nil, fmt.Errorf("encode traces: %w", err)
	}
	return b, nil
}

// idsToHex replaces the ids in decoded JSON, which protobuf writes in base64.
func idsToHex(v any) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			idsToHex(x)
		}
	case map[string]any:
		for _, name := range []string{"traceId", "spanId", "parentSpanId"} {
			if text, ok := v[name].(string); ok {
				if id, err := base64.StdEncoding.DecodeString(text); err == nil {
					v[name] = hex.EncodeToString(id)
				}
			}
		}
		for _, x := range v {
			idsToHex(x)
		}
	}
}

// attributes are a span's. Empty texts are left out.
type attributes struct{ list []*commonpb.KeyValue }

func (a *attributes) add(key string, v *commonpb.AnyValue) {
	a.list = append(a.list, &commonpb.KeyValue{Key: key, Value: v})
}

func (a *attributes) text(key, v string) {
	if v != "" {
		a.add(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v}})
	}
}

func (a *attributes) number(key string, v int64) {
	a.add(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v}})
}

func (a *attributes) flag(key string) {
	a.add(key, &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: true}})
}

// records adds the records of a span: `journalet observe --from` and `journalet why` take them. end is 0 while it is
// open.
func (a *attributes) records(begin, end uint64) {
	a.number("journalet.seq.begin", int64(begin))
	if end > 0 {
		a.number("journalet.seq.end", int64(end))
	}
}
