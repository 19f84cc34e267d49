//go:build reports

package reports

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"

	"github.com/journalet/journalet/test/cluster"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

const (
	// nodeName is the name of the one node. The control plane's address is the machine's, too.
	nodeName = "reports"
	// begin bounds the start of the control plane and of the node.
	begin = 5 * time.Minute
	// atOnce bounds the tests that run in parallel: most of a test's time is waiting for pods.
	atOnce = "4"
)

// agentName says what runs the node.
var agentName = flag.String("agent", "journalet", "what runs the node: journalet or kubelet")

// machine is the cluster with its one node.
type machine struct {
	*cluster.Cluster
	client  *kubernetes.Clientset
	runtime *node.Runtime
	program string // of our agent; empty: the kubelet runs the node
	node    cluster.Node

	restarting sync.Mutex
}

// it is the machine that all tests share.
var it machine

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "reports:", err)
		code = 1
	}
	os.Exit(code)
}

func prepare(m *testing.M) (code int, err error) {
	endpoint := os.Getenv("JOURNALET_TEST_CRI_ENDPOINT")
	if endpoint == "" {
		return 0, errors.New("JOURNALET_TEST_CRI_ENDPOINT is empty: run `make reports`")
	}
	if err := flag.Set("test.parallel", atOnce); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "jl-reports-")
	if err != nil {
		return 0, err
	}
	// As the root directory is where systemd is process 1: volumes can propagate their mounts to the node.
	err = errors.Join(unix.Mount(dir, dir, "", unix.MS_BIND, ""), unix.Mount("", dir, "", unix.MS_SHARED, ""))
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), begin)
	defer cancel()
	if it.Cluster, err = cluster.Start(ctx, cluster.Options{Dir: filepath.Join(dir, "cluster")}); err != nil {
		return 0, err
	}
	defer func() {
		err = errors.Join(err, it.Stop())
		if code != 0 || err != nil {
			fmt.Fprintln(os.Stderr, "reports: the cluster's files are kept in", dir)
			return
		}
		err = cluster.Remove(filepath.Join(dir, "cluster"))
		err = errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH), os.RemoveAll(dir))
	}()
	if err := it.join(ctx, dir, endpoint); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// join starts the node.
func (it *machine) join(ctx context.Context, dir, endpoint string) (err error) {
	if it.runtime, err = node.Dial(endpoint); err != nil {
		return err
	}
	if it.client, err = it.Client(); err != nil {
		return err
	}
	static := filepath.Join(dir, "static")
	if err := os.Mkdir(static, 0o700); err != nil {
		return err
	}
	it.node = cluster.Node{Name: nodeName, Endpoint: endpoint, Config: "fileCheckFrequency: 1s\nstaticPodPath: " + static}
	switch *agentName {
	case "kubelet":
	case "journalet":
		if it.program, err = node.Build(dir); err != nil {
			return err
		}
	default:
		return fmt.Errorf("-agent=%s: it is journalet or kubelet", *agentName)
	}
	return it.startAgent(ctx)
}

func (it *machine) startAgent(ctx context.Context) error {
	if it.program == "" {
		return it.StartKubelet(ctx, it.node)
	}
	return it.StartAgent(ctx, it.program, it.node)
}

// down ends the node agent by SIGKILL, does something while it is away, and starts it again.
func (it *machine) down(t *testing.T, do func()) {
	t.Helper()
	it.restarting.Lock()
	defer it.restarting.Unlock()
	must.OK(t, it.KillNode(nodeName))
	do()
	ctx, cancel := context.WithTimeout(context.Background(), begin)
	defer cancel()
	must.OK(t, it.startAgent(ctx))
}

// manifests is the directory of static pods.
func (it *machine) manifests() string {
	_, dir, _ := strings.Cut(it.node.Config, "staticPodPath: ")
	return dir
}

// root is the agent's root directory.
func (it *machine) root() string { return filepath.Join(it.NodeDir(nodeName), "root") }
