package kubelet

import "context"

// Client is who sends a request, as the door knows it.
type Client interface {
	// ID is the same for all connections of one user; so that one can count by it.
	ID() string
	// String describes the client: "user alice (uid 1000), process 4242 (kubectl)", or the authenticated name.
	String() string
}

type clientKey struct{}

// WithClient returns a context with the client. A door calls it for each request.
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// clientOf returns the client of a request.
func clientOf(ctx context.Context) Client {
	if c, ok := ctx.Value(clientKey{}).(Client); ok {
		return c
	}
	return unknown{}
}

// unknown is the client of a door that knows none.
type unknown struct{}

func (unknown) ID() string     { return "" }
func (unknown) String() string { return "unknown client" }
