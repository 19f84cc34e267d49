package client

import (
	"context"
	"net/http"
)

type verbKey struct{}

// withVerb returns a context of a request with this method.
func withVerb(ctx context.Context, method string) context.Context {
	return context.WithValue(ctx, verbKey{}, method)
}

// verbOf returns the method of a request; lists and watches of Reflectors have none of their own.
func verbOf(ctx context.Context) string {
	if v, ok := ctx.Value(verbKey{}).(string); ok {
		return v
	}
	return http.MethodGet
}
