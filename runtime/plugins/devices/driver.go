package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/journalet/journalet/actors/devices"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/plugins"
)

// The names of the directory in the root directory, and of the socket in it that plugins register on. kubelet:
// device-plugins/kubelet.sock.
const (
	Dir        = own.DevicePlugins
	SocketFile = "kubelet.sock"
)

const (
	// maxPlugins bounds the plugins that are there at once.
	maxPlugins = 64
	// maxConnections bounds how many register at once, maxRequestBytes their requests.
	maxConnections  = 64
	maxRequestBytes = 16 << 10
	// registrationsPerSecond bounds how often plugins register for long; each time all their devices are recorded.
	registrationsPerSecond = 1
	// requestTimeout bounds how long a connection may take to begin.
	requestTimeout = 10 * time.Second
	// dirMode is the mode of the directory. kubelet: 0750.
	dirMode = 0o750
)

// Timeouts bound calls on plugins; a zero field takes its default.
type Timeouts struct {
	// Dial bounds the connection with the first call. Default 10 s, as in the kubelet.
	Dial time.Duration
	// Allocate bounds Allocate. Default 30 s; the kubelet has no bound.
	Allocate time.Duration
	// PreStart bounds PreStartContainer. Default 30 s, as in the kubelet.
	PreStart time.Duration
	// Preferred bounds GetPreferredAllocation: the pod waits for its admission. Default 5 s.
	Preferred time.Duration
}

// Options configure a Driver. Dir, Sink and Outcome must be set.
type Options struct {
	// Dir is the directory of the socket.
	Dir string
	// Sink records a fact about the node, and returns when it is stored.
	Sink func(context.Context, *journaletv1.Event) error
	// Outcome records a fact about the node.
	Outcome func(*journaletv1.Event)
	// After is the clock of the pause between two facts of a plugin; nil: time.After.
	After    func(time.Duration) <-chan time.Time
	Timeouts Timeouts
	Log      *slog.Logger
}

// Driver drives device plugins. All methods may be called at any time.
type Driver struct {
	pluginapi.UnimplementedRegistrationServer
	opts    Options
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// plugins are the present plugins, by resource. closed means that no other plugin is accepted.
	plugins map[string]*plugin
	closed  bool
	// registrations bounds how often plugins register.
	registrations *rate.Limiter
}

// New returns a driver that serves nothing until Run.
func New(o Options) *Driver {
	t := &o.Timeouts
	t.Dial = cmp.Or(t.Dial, 10*time.Second)
	t.Allocate = cmp.Or(t.Allocate, 30*time.Second)
	t.PreStart = cmp.Or(t.PreStart, pluginapi.KubeletPreStartContainerRPCTimeoutInSecs*time.Second)
	t.Preferred = cmp.Or(t.Preferred, 5*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.After == nil {
		o.After = time.After
	}
	d := &Driver{
		opts: o, plugins: map[string]*plugin{},
		registrations: rate.NewLimiter(registrationsPerSecond, maxPlugins),
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// Run serves the socket until ctx ends. It removes the sockets of plugins in its directory first, as the kubelet does:
// plugins that watch it register again.
func (d *Driver) Run(ctx context.Context) error {
	defer d.close()
	l, err := d.listen()
	if err != nil {
		return fmt.Errorf("device plugins cannot register: %w", err)
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(maxRequestBytes), grpc.MaxConcurrentStreams(1),
		grpc.ConnectionTimeout(requestTimeout))
	pluginapi.RegisterRegistrationServer(s, d)
	ended := context.AfterFunc(ctx, s.Stop)
	defer ended()
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}

func (d *Driver) listen() (l net.Listener, err error) {
	if err = os.MkdirAll(d.opts.Dir, dirMode); err != nil {
		return nil, err
	}
	if err = plugins.RemoveSockets(d.opts.Dir); err != nil {
		return nil, err
	}
	return plugins.Listen(filepath.Join(d.opts.Dir, SocketFile), maxConnections)
}

// close ends all calls on plugins, without a fact: they are still there.
func (d *Driver) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop()
	d.running.Wait()
}

// Register handles a plugin that registers itself.
func (d *Driver) Register(ctx context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	if r.GetVersion() != pluginapi.Version {
		return nil, status.Errorf(codes.InvalidArgument, "version %.32q is not supported; register with %s",
			r.GetVersion(), pluginapi.Version)
	}
	if e := r.GetEndpoint(); e == "" || e != filepath.Base(e) || strings.HasPrefix(e, ".") || e == SocketFile {
		return nil, status.Errorf(codes.InvalidArgument,
			"endpoint %.64q is not the name of a socket beside %s", e, SocketFile)
	}
	if err := d.begin(ctx, r.GetResourceName(), filepath.Join(d.opts.Dir, r.GetEndpoint())); err != nil {
		d.opts.Log.Warn("a device plugin was refused", "resource", plugins.Message(errors.New(r.GetResourceName())),
			"error", plugins.Message(err))
		return nil, status.Error(codes.FailedPrecondition, plugins.Message(err))
	}
	return &pluginapi.Empty{}, nil
}

// Watched returns the handler of the plugins of type DevicePlugin that a plugins.Watcher finds.
func (d *Driver) Watched() plugins.Handler { return watched{d} }

type watched struct{ *Driver }

// Validate checks the version and the resource.
func (w watched) Validate(p plugins.Plugin) error {
	if !slices.Contains(p.Versions, pluginapi.Version) {
		return fmt.Errorf("the plugin supports no version of ours: serve %s", pluginapi.Version)
	}
	return checkResource(p.Name)
}

// Register begins to use a plugin.
func (w watched) Register(ctx context.Context, p plugins.Plugin) error {
	return w.begin(ctx, p.Name, p.Endpoint)
}

// Deregister ends the use of a plugin whose socket is gone.
func (w watched) Deregister(p plugins.Plugin) {
	w.mu.Lock()
	found := w.plugins[p.Name]
	w.mu.Unlock()
	if found != nil && found.path == p.Endpoint {
		found.end(errors.New("its socket is gone"))
	}
}

// maxResourceBytes bounds the name of a resource; the API's name is longer by its prefix for quotas.
const maxResourceBytes = 253

// checkResource returns why a plugin may not offer a resource with this name.
func checkResource(name string) error {
	ok := devices.IsResource(corev1.ResourceName(name)) && len(name) <= maxResourceBytes &&
		len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
	if !ok {
		return fmt.Errorf("the resource name %.64q is none that a plugin may offer; use one such as vendor.com/device", name)
	}
	return nil
}

// begin connects to a plugin and follows it, in place of another one of the same resource.
func (d *Driver) begin(ctx context.Context, resource, path string) error {
	if err := checkResource(resource); err != nil {
		return err
	}
	if !d.registrations.Allow() {
		return errors.New("plugins register too often; this one has to register again later")
	}
	conn, err := plugins.NewConn(path, maxListBytes)
	if err != nil {
		return err
	}
	p := &plugin{
		resource: resource, path: path, conn: conn, client: pluginapi.NewDevicePluginClient(conn),
		slot: make(chan struct{}, 1), done: make(chan struct{}),
	}
	dial, cancel := context.WithTimeout(ctx, d.opts.Timeouts.Dial)
	defer cancel()
	if p.options, err = p.client.GetDevicePluginOptions(dial, &pluginapi.Empty{}, grpc.WaitForReady(true)); err != nil {
		return errors.Join(fmt.Errorf("failed to get device plugin options: %w", err), conn.Close())
	}
	p.ctx, p.end = context.WithCancelCause(d.ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.plugins[resource]
	if d.closed || before == nil && len(d.plugins) >= maxPlugins {
		p.end(nil)
		return errors.Join(fmt.Errorf("there are %d plugins already, or the agent stops", len(d.plugins)), conn.Close())
	}
	d.plugins[resource] = p
	if before != nil {
		before.end(errReplaced)
	}
	d.running.Go(func() { d.follow(p, before) })
	return nil
}

// plugin returns the plugin of a resource; nil for none.
func (d *Driver) plugin(resource string) *plugin {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.plugins[resource]
}
