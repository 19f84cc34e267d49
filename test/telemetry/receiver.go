package main

import (
	"context"
	"net"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// receiver serves the protocol's own service.
type receiver struct {
	collectorpb.UnimplementedTraceServiceServer

	receive func(spans []*tracepb.Span)
}

// serve passes the spans of each trace to receive, until l is closed.
func serve(l net.Listener, receive func(spans []*tracepb.Span)) error {
	srv := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(srv, &receiver{receive: receive})
	return srv.Serve(l)
}

// Export is called for each request.
func (r *receiver) Export(_ context.Context, in *collectorpb.ExportTraceServiceRequest,
) (*collectorpb.ExportTraceServiceResponse, error) {
	for _, rs := range in.GetResourceSpans() {
		for _, scope := range rs.GetScopeSpans() {
			r.receive(scope.GetSpans())
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}
