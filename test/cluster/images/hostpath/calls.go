package main

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// call is one RPC as upstream's tests read it from the log, behind prefix.
type call struct {
	Method            string
	Request, Response any
	Error             string
	FullError         any // google.rpc.Status
}

const prefix = "gRPCCall:"

// write answers a call, and writes both to the log: with the Secrets of tests, which they look for.
func write(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	response, err := handle(ctx, request)
	c := call{Method: info.FullMethod, Request: request, Response: response}
	if err != nil {
		c.Error, c.FullError = err.Error(), status.Convert(err).Proto()
	}
	line, failed := json.Marshal(c)
	if failed != nil {
		return nil, failed
	}
	fmt.Println(prefix, string(line))
	return response, err
}
