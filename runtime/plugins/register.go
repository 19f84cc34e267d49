package plugins

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/journalet/journalet/messages/clean"
)

// The deadlines of a kubelet (pkg/kubelet/pluginmanager/operationexecutor).
const (
	// dialTimeout bounds the connection, infoTimeout GetInfo, notifyTimeout NotifyRegistrationStatus.
	dialTimeout   = 10 * time.Second
	infoTimeout   = time.Second
	notifyTimeout = 5 * time.Second
	// firstRetry and maxRetry bound the pause after a failure; it doubles between the two. kubelet: exponentialbackoff,
	// 500 ms and 2 min 2 s.
	firstRetry = 500 * time.Millisecond
	maxRetry   = 122 * time.Second
)

const (
	// maxInfoBytes bounds what a plugin reports about itself.
	maxInfoBytes = 16 << 10
	// maxNameBytes bounds its name, maxErrorBytes what is repeated of an error.
	maxNameBytes  = 256
	maxErrorBytes = 256
)

// refused is why a plugin will not be used as it is.
type refused struct{ error }

// keep registers the plugin of a socket, tries again after a failure, and ends its use when ctx ends.
func (w *Watcher) keep(ctx context.Context, path string) {
	for delay := firstRetry; ; delay = min(2*delay, maxRetry) {
		p, err := w.register(ctx, path)
		log := w.opts.Log.With("socket", path, "type", p.Type, "plugin", p.Name)
		switch {
		case err == nil: // also if ctx has ended meanwhile
			log.Info("plugin registered")
			<-ctx.Done()
			w.opts.Handlers[p.Type].Deregister(p)
			return
		case ctx.Err() != nil:
			return
		case errors.As(err, new(refused)):
			log.Warn("plugin refused", "error", err)
			<-ctx.Done()
			return
		}
		log.Warn("plugin not registered; it is tried again", "error", Message(err), "after", delay)
		select {
		case <-ctx.Done():
			return
		case <-w.opts.After(delay):
		}
	}
}

// register requests what a plugin is, has its handler use it, and reports to it how that ended.
func (w *Watcher) register(ctx context.Context, path string) (Plugin, error) {
	conn, err := NewConn(path, maxInfoBytes)
	if err != nil {
		return Plugin{}, err
	}
	defer conn.Close()
	client := registration.NewRegistrationClient(conn)
	p, err := info(ctx, conn, client, path)
	if err != nil {
		return p, err
	}
	err = w.use(ctx, p)
	status := &registration.RegistrationStatus{PluginRegistered: err == nil}
	if err != nil {
		status.Error = Message(err)
	}
	notify, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	if _, failed := client.NotifyRegistrationStatus(notify, status); failed != nil && err == nil {
		w.opts.Handlers[p.Type].Deregister(p)
		return p, fmt.Errorf("the plugin did not take the report of its registration: %w", failed)
	}
	return p, err
}

// info requests what a plugin is.
func info(
	ctx context.Context, conn *grpc.ClientConn, client registration.RegistrationClient, path string,
) (Plugin, error) {
	if err := connect(ctx, conn); err != nil {
		return Plugin{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	r, err := client.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		return Plugin{}, fmt.Errorf("GetInfo: %w", err)
	}
	p := Plugin{Type: r.GetType(), Name: r.GetName(), Endpoint: r.GetEndpoint(), Versions: r.GetSupportedVersions()}
	switch {
	case len(p.Name) > maxNameBytes || len(p.Type) > maxNameBytes:
		return Plugin{}, refused{errors.New("the plugin's name or type is too long")}
	case p.Endpoint == "":
		p.Endpoint = path
	case !filepath.IsAbs(p.Endpoint):
		return p, refused{fmt.Errorf("the plugin's endpoint %.64q is no absolute path", p.Endpoint)}
	}
	return p, nil
}

// connect waits until a connection is there.
func connect(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn.Connect()
	for s := conn.GetState(); s.String() != "READY"; s = conn.GetState() {
		if !conn.WaitForStateChange(ctx, s) {
			return fmt.Errorf("cannot connect within %s", dialTimeout)
		}
	}
	return nil
}

// use has the handler of its type use a plugin.
func (w *Watcher) use(ctx context.Context, p Plugin) error {
	h := w.opts.Handlers[p.Type]
	if h == nil {
		return refused{fmt.Errorf("no handler registered for plugin type: %s at socket %s", p.Type, p.Endpoint)}
	}
	if err := h.Validate(p); err != nil {
		return refused{err}
	}
	return h.Register(ctx, p)
}

// Message returns what may be repeated of a plugin's error: it also goes to the log, and back to the plugin.
func Message(err error) string {
	return clean.Text(err.Error(), maxErrorBytes)
}
