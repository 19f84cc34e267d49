package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// readyTimeout bounds the start of one part: under 5 s on an idle machine.
	readyTimeout = 2 * time.Minute
	// Ports of clusters are below the range that outgoing connections take theirs from (32768 on Linux).
	firstPort, lastPort = 20000, 30000
)

// parts are the programs of a control plane, in the order of their start.
var parts = []Program{Etcd, APIServer, ControllerManager, Scheduler}

// Parts returns the programs of a control plane, in the order of their start.
func Parts() []Program { return slices.Clone(parts) }

// Options are how a control plane is started. The zero value, with a Dir, is fine.
type Options struct {
	// Dir holds everything of the cluster: data, keys, kubeconfigs, logs. It is created; it must not hold another one.
	Dir string
	// Address is an address of this machine that pods and nodes reach. Empty: the address of the route to the internet.
	Address string
	// Detach lets the programs outlast this process; Open finds them again.
	Detach bool
	// Audit has the API server record each request in AuditLog: who, what, when.
	Audit bool
	// VerifyNodes has the API server verify the serving certificates of nodes: the cluster signs those, once somebody has
	// approved the request.
	VerifyNodes bool
	// SignFor is how long certificates are valid that the cluster signs; 0: a year. They begin five minutes ago.
	SignFor time.Duration
	// APIServerFlags are appended to the API server's.
	APIServerFlags []string
}

// Cluster is a control plane on this machine. Its methods may be called by one goroutine at a time.
type Cluster struct {
	Options
	APIPort, EtcdPort, EtcdPeerPort      int
	ControllerManagerPort, SchedulerPort int

	programs string
	client   *kubernetes.Clientset
}

func (c *Cluster) file(name string) string { return filepath.Join(c.Dir, name) }

func (c *Cluster) pki() pki { return pki{c.file("pki")} }

// AuditLog returns the path of the API server's record of requests, a JSON object a line (audit.k8s.io/v1 Event).
func (c *Cluster) AuditLog() string { return c.file("audit.log") }

// Start starts a control plane and returns when it serves and every controller runs. After an error nothing runs.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	programs, err := Provide(ctx, append([]Program{Kubectl}, parts...)...)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Options: o, programs: programs}
	if c.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if c.Address == "" {
		if c.Address, err = routed(); err != nil {
			return nil, err
		}
	}
	if err := c.prepare(); err != nil {
		return nil, err
	}
	for _, p := range parts {
		if err := c.Launch(ctx, p); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	if err := c.grant(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// prepare writes everything that the programs read.
func (c *Cluster) prepare() error {
	if err := os.MkdirAll(c.file("logs"), 0o700); err != nil {
		return err
	}
	if _, err := os.Stat(c.file("cluster.json")); err == nil {
		return fmt.Errorf("%s holds a cluster already: stop that one, or name another directory", c.Dir)
	}
	err := freePorts(c.Dir, &c.APIPort, &c.EtcdPort, &c.EtcdPeerPort, &c.ControllerManagerPort, &c.SchedulerPort)
	if err != nil {
		return err
	}
	if err := errors.Join(c.writeIdentities(), c.writeConfigs()); err != nil {
		return err
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(c.file("cluster.json"), b, 0o600)
}

// Open returns the cluster of a directory, which Start of another process has started, detached.
func Open(ctx context.Context, dir string) (*Cluster, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cluster.json"))
	if err != nil {
		return nil, fmt.Errorf("there is no cluster in %s: %w", dir, err)
	}
	c := &Cluster{}
	if err := json.Unmarshal(b, c); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	c.programs, err = Provide(ctx)
	return c, err
}

// Program returns the path of a program of the control plane, or of kubectl.
func (c *Cluster) Program(p Program) string { return filepath.Join(c.programs, string(p)) }

// Launch starts a part of the control plane that does not run, and returns when it is ready.
func (c *Cluster) Launch(ctx context.Context, p Program) error {
	if err := c.Spawn(p); err != nil {
		return err
	}
	return c.Ready(ctx, p)
}

// Spawn starts a part of the control plane that does not run, and waits for nothing: what it needs may be away.
func (c *Cluster) Spawn(p Program) error {
	pid, err := c.Running(p)
	if err != nil {
		return err
	}
	if pid != 0 {
		return fmt.Errorf("%s runs already, pid %d", p, pid)
	}
	return c.spawn(string(p), c.Program(p), c.flags(p)...)
}

// Ready waits until a part of the control plane is ready.
func (c *Cluster) Ready(ctx context.Context, p Program) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var ended error
	err := Until(ctx, func() error {
		var pid int
		if pid, ended = c.Running(p); pid == 0 {
			ended = cmp.Or(ended, errors.New("it has ended"))
			return nil
		}
		return c.Healthy(ctx, p)
	})
	if err = errors.Join(err, ended); err != nil {
		return fmt.Errorf("%s is not ready: %w; the end of its log:\n%s", p, err, c.Tail(p))
	}
	return nil
}

// Healthy returns an error unless a part of the control plane reports that it is ready.
func (c *Cluster) Healthy(ctx context.Context, p Program) error {
	if p == APIServer {
		client, err := c.Client()
		if err != nil {
			return err
		}
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
	url := map[Program]string{
		Etcd:              "http://" + loopback(c.EtcdPort) + "/health",
		ControllerManager: "https://" + loopback(c.ControllerManagerPort) + "/healthz",
		Scheduler:         "https://" + loopback(c.SchedulerPort) + "/readyz",
	}[p]
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// Their certificates are their own.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // on loopback
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: time.Second}).Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// Stop ends every program of the cluster. Its directory stays.
func (c *Cluster) Stop() error {
	var errs error
	others, err := filepath.Glob(c.pidFile("node-*"))
	for _, file := range others {
		errs = errors.Join(errs, c.stop(filepath.Base(file[:len(file)-len(".process")])))
	}
	for _, p := range slices.Backward(parts) {
		errs = errors.Join(errs, c.stop(string(p)))
	}
	return errors.Join(err, errs)
}

// Remove removes the directory of a cluster that is stopped, with the volumes that pods of its nodes have left mounted.
func Remove(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(mounts) { // the later ones are above the earlier
		if err := unix.Unmount(m.Mountpoint, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", m.Mountpoint, err)
		}
	}
	return os.RemoveAll(dir)
}

// Config returns the settings of a client that may do everything, without a limit of requests.
func (c *Cluster) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Admin())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// Client returns a client that may do everything.
func (c *Cluster) Client() (*kubernetes.Clientset, error) {
	if c.client != nil {
		return c.client, nil
	}
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	c.client, err = kubernetes.NewForConfig(config)
	return c.client, err
}

// routed returns the address of this machine that a packet to the internet would carry; none is sent.
func routed() (string, error) {
	conn, err := net.Dial("udp4", "198.51.100.1:9")
	if err != nil {
		return "", fmt.Errorf("find an address of this machine: %w; give one", err)
	}
	defer func() { _ = conn.Close() }()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}

// freePorts finds a free TCP port for each, from a place that follows from the name on: clusters that start at the
// same time then seldom meet.
func freePorts(name string, ports ...*int) error {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	const all = lastPort - firstPort
	at := int(h.Sum32() % all)
	for tried := 0; len(ports) > 0; tried++ {
		if tried == all {
			return fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
		}
		port := firstPort + (at+tried)%all
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return err
		}
		*ports[0], ports = port, ports[1:]
	}
	return nil
}
