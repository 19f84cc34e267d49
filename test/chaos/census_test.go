//go:build chaos

package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/services/leases/v1"
	"github.com/containerd/containerd/api/services/sandbox/v1"
	"github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/moby/sys/mountinfo"
	"google.golang.org/grpc/metadata"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

const (
	// snapshotter is the lab's snapshotter.
	snapshotter = "overlayfs"
	// lostShims are shims of sandboxes that containerd gave up because their caller was killed. containerd does not
	// know these shims any more, and so the agent does not either (docs/SCOPE.md).
	lostShims = "shims that containerd has lost"
)

// labPlaces are the places of the lab outside the agent's own directories, as `lab.sh env` prints them.
type labPlaces struct{ state, home, bridge, network, log string }

func placesOfLab(t *testing.T) labPlaces {
	t.Helper()
	text, err := node.Lab("env")
	must.OK(t, err)
	env := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "="); ok {
			env[name] = value
		}
	}
	l := labPlaces{state: env["LAB_STATE"], home: env["LAB_HOME"], bridge: env["LAB_BRIDGE"], log: env["LAB_LOG"]}
	conf, err := filepath.Glob(filepath.Join(env["LAB_CNI_CONF_DIR"], "*.conflist"))
	if err != nil || len(conf) != 1 {
		t.Fatalf("the lab's CNI configuration: %v, %v; want one file", conf, err)
	}
	b, err := os.ReadFile(conf[0])
	must.OK(t, err)
	var list struct{ Name string }
	must.OK(t, json.Unmarshal(b, &list))
	l.network = list.Name
	return l
}

// census is what exists, by kind.
type census map[string][]string

func (c census) add(kind, name string) { c[kind] = append(c[kind], name) }

// beyond returns what c has and before does not.
func (c census) beyond(before census) error {
	var left []error
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		var names []string
		for _, n := range c[kind] {
			if !slices.Contains(before[kind], n) {
				names = append(names, n)
			}
		}
		if len(names) > 0 {
			left = append(left, fmt.Errorf("%d %s are left, such as %s", len(names), kind, names[0]))
		}
	}
	return errors.Join(left...)
}

func (c census) String() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%s: %d  ", kind, len(c[kind]))
	}
	return b.String()
}

// count returns everything that pods can leave: on the runtime, on the host and on the disk.
func (a *agent) count(l labPlaces) (census, error) {
	c := census{}
	err := errors.Join(c.ofCRI(), c.ofContainerd(), c.ofHost(l), c.ofAgent(a))
	return c, err
}

func (c census) ofCRI() error {
	ctx, cancel := node.Bounded()
	defer cancel()
	boxes, err := setup.Runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	all, failed := setup.Runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	for _, s := range boxes.GetItems() {
		c.add("CRI sandboxes", s.GetId())
	}
	for _, x := range all.GetContainers() {
		c.add("CRI containers", x.GetId())
	}
	return errors.Join(err, failed)
}

// ofContainerd counts what containerd keeps behind CRI.
func (c census) ofContainerd() error {
	ctx, cancel := node.Bounded()
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	conn := setup.Runtime.Conn()
	list, err := containers.NewContainersClient(conn).List(ctx, &containers.ListContainersRequest{})
	for _, x := range list.GetContainers() {
		c.add("containerd containers", x.GetID())
	}
	running, failed := tasks.NewTasksClient(conn).List(ctx, &tasks.ListTasksRequest{})
	err = errors.Join(err, failed)
	for _, x := range running.GetTasks() {
		c.add("containerd tasks", x.GetID())
	}
	held, failed := leases.NewLeasesClient(conn).List(ctx, &leases.ListRequest{})
	err = errors.Join(err, failed)
	for _, x := range held.GetLeases() {
		c.add("containerd leases", x.GetID())
	}
	boxes, failed := sandbox.NewStoreClient(conn).List(ctx, &sandbox.StoreListRequest{})
	err = errors.Join(err, failed)
	for _, x := range boxes.GetList() {
		c.add("containerd sandboxes", x.GetSandboxID())
	}
	return errors.Join(err, c.ofSnapshots(ctx))
}

// collectGarbage has containerd remove at once what it collects. By itself it pauses for fifty times as long as the
// last collections took, which are minutes on a busy machine.
func collectGarbage() error {
	ctx, cancel := node.Bounded()
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	client := leases.NewLeasesClient(setup.Runtime.Conn())
	lease, err := client.Create(ctx, &leases.CreateRequest{ID: "collect-garbage"})
	if err != nil {
		return err
	}
	_, err = client.Delete(ctx, &leases.DeleteRequest{ID: lease.GetLease().GetID(), Sync: true})
	return err
}

func (c census) ofSnapshots(ctx context.Context) error {
	stream, err := snapshots.NewSnapshotsClient(setup.Runtime.Conn()).List(ctx,
		&snapshots.ListSnapshotsRequest{Snapshotter: snapshotter})
	for err == nil {
		var some *snapshots.ListSnapshotsResponse
		if some, err = stream.Recv(); err != nil {
			break
		}
		for _, x := range some.GetInfo() {
			c.add("containerd snapshots", x.GetName())
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// ofHost counts shims, mounts, and what the lab's CNI plugins keep.
func (c census) ofHost(l labPlaces) error {
	c.names("CNI addresses", filepath.Join("/var/lib/cni/networks", l.network), "10.")
	c.names("CNI results", "/var/lib/cni/results", l.network)
	c.names("interfaces", filepath.Join("/sys/class/net", l.bridge, "brif"), "")
	for _, at := range []string{
		"state/netns", runcStates, "state/io.containerd.runtime.v2.task/k8s.io",
		"state/io.containerd.grpc.v1.cri/sandboxes",
		"state/io.containerd.grpc.v1.cri/containers", "state/io.containerd.mount-manager.v1.bolt/t",
		"state/io.containerd.sandbox.controller.v1.shim/k8s.io", "root/io.containerd.runtime.v2.task/k8s.io",
		"root/io.containerd.grpc.v1.cri/sandboxes", "root/io.containerd.grpc.v1.cri/containers",
		"root/io.containerd.snapshotter.v1.overlayfs/snapshots",
	} {
		dir := filepath.Join(l.home, at)
		if rest, ok := strings.CutPrefix(at, "state/"); ok {
			dir = filepath.Join(l.state, rest)
		}
		c.names(at, dir, "")
	}
	shims, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, f := range shims {
		line, _ := os.ReadFile(f) // it may have ended
		if !strings.Contains(string(line), "containerd-shim") || !strings.Contains(string(line), l.state+"/") {
			continue
		}
		kind := "shims"
		dir, _ := os.Readlink(filepath.Join(filepath.Dir(f), "cwd"))
		if strings.HasSuffix(dir, " (deleted)") {
			kind = lostShims
		}
		c.add(kind, filepath.Base(filepath.Dir(f)))
	}
	rules, err := exec.Command("iptables-save", "-t", "nat").Output()
	for line := range strings.Lines(string(rules)) {
		if strings.Contains(line, l.network) {
			c.add("iptables rules", line)
		}
	}
	return err
}

// names adds the entries of a directory that begin so; none if there is no such directory.
func (c census) names(kind, dir, prefix string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			c.add(kind, e.Name())
		}
	}
}

// ofAgent counts files, mounts and cgroups of the agent, but for its bus.
func (c census) ofAgent(a *agent) error {
	var err error
	for kind, dir := range map[string]string{
		"files in the root directory": a.Root, "files of logs": a.PodLogs, "links to logs": a.ContainerLogs,
	} {
		err = errors.Join(err, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case path == filepath.Join(a.Root, "bus"):
				return fs.SkipDir
			case path == dir:
				return nil
			}
			c.add(kind, path)
			return nil
		}))
	}
	for _, dir := range a.PodCgroups(true) {
		if !slices.Contains([]string{"kubepods", "burstable", "besteffort"}, filepath.Base(dir)) { // of no pod
			c.add("cgroups", dir)
		}
	}
	mounts, failed := mountinfo.GetMounts(mountinfo.PrefixFilter(a.Dir))
	for _, m := range mounts {
		c.add("mounts", m.Mountpoint)
	}
	return errors.Join(err, failed)
}

// perContainer returns an error that names the container with the most files of a kind, if it has more than most.
func (c census) perContainer(kind string, key func(string) string, most int) error {
	n := map[string]int{}
	for _, name := range c[kind] {
		if k := key(name); k != "" {
			n[k]++
		}
	}
	names := append(slices.Collect(maps.Keys(n)), "")
	top := slices.MaxFunc(names, func(x, y string) int { return cmp.Compare(n[x], n[y]) })
	if n[top] > most {
		return fmt.Errorf("%s: %s has %d, want %d at most", kind, top, n[top], most)
	}
	return nil
}
