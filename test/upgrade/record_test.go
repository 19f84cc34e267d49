package upgrade

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/sim"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// `make histories` makes the recording when JournalFormat is raised, and at no other time: if the agent does not adopt
// it, the code is wrong.
var record = flag.Bool("upgrade.record", false, "record the root directory again, by the agent of this checkout")

// recorded is what the recording holds beside the bus's directory and the manifests: what the runtime showed, what the
// agent reported of its pods, and what its journal folds to.
type recorded struct {
	Views                         map[string]string
	State                         string
	Sandboxes, SandboxStatuses    []json.RawMessage
	Containers, ContainerStatuses []json.RawMessage
}

const (
	recording = "testdata/root.tar.gz"
	stateFile = "state.json"
	// maxUnpacked bounds what is read of one file of the recording.
	maxUnpacked = 64 << 20
	// onceMore is a script that exits in its first run and keeps running in its second; the runtime's behaviour matches
	// its name.
	onceMore = "once-more"
)

// left are the files of the bus's directory that the recording omits: the agent creates them; some are secret.
var left = []string{"LOCK", "RESERVE", "SEEN", "bus.sock", "credentials"}

func (r *recorded) decode(t *testing.T, b json.RawMessage, into proto.Message) {
	t.Helper()
	must.OK(t, (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, into))
}

// running returns the pod names of the running containers, by container id.
func (r *recorded) running(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, raw := range r.Containers {
		c := new(cri.Container)
		r.decode(t, raw, c)
		if c.GetState() == cri.ContainerState_CONTAINER_RUNNING {
			out[c.GetId()] = c.GetLabels()[node.PodNameLabel]
		}
	}
	return out
}

// recordings returns the files of all recordings: the present one, and from 0.1.0 on one of each release.
func recordings(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Dir(recording) + "/*.tar.gz")
	if err != nil || len(all) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	return all
}

// unpack writes a recording's directories into dir.
func unpack(t *testing.T, recording, dir string) *recorded {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(readFile(t, recording)))
	must.OK(t, err)
	r := new(recorded)
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return r
		}
		must.OK(t, err)
		b, err := io.ReadAll(io.LimitReader(archive, maxUnpacked))
		must.OK(t, err)
		if h.Name == stateFile {
			err = json.Unmarshal(b, r)
		} else {
			to := filepath.Join(dir, filepath.Clean(h.Name))
			err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, b, 0o600))
		}
		must.OK(t, err)
	}
}

// recordRoot records two runs of the agent. The first stops cleanly, so that there is a snapshot; the second is
// killed, so that there are records after it.
func recordRoot(t *testing.T, program string) {
	behaviour := func(c *cri.ContainerConfig) (sim.Behaviour, bool) {
		if !slices.Contains(c.GetCommand(), onceMore) {
			return sim.Behaviour{}, false
		}
		if c.GetMetadata().GetAttempt() == 0 {
			return sim.Behaviour{RunFor: 100 * time.Millisecond, ExitCode: 3}, true
		}
		return sim.Behaviour{RunFor: sim.Forever}, true
	}
	rt := sim.New(sim.Options{Seed: 1, Images: []string{node.Image}, Behaviour: behaviour})
	t.Cleanup(rt.Close)
	a := newAgent(t, program, &frozen{})
	a.Endpoint = serveSim(t, rt, a.Dir)
	never := node.Restarts(corev1.RestartPolicyNever)
	for name, p := range map[string]*corev1.Pod{
		"web": node.Pod("web", node.Image, node.Idle, node.Scratch), "changing": node.Pod("changing", node.Image, node.Idle),
		"going": node.Pod("going", node.Image, node.Idle), "again": node.Pod("again", node.Image, onceMore),
		"job": node.Pod("job", node.Image, "exit 0", never), "failure": node.Pod("failure", node.Image, "exit 7", never),
		"pair": node.Pod("pair", node.Image, node.Idle, func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, node.Shell("two", node.Image, node.Idle))
		}),
	} {
		a.Put(name+".yaml", node.Manifest(p))
	}
	a.Start()
	settled(a, 7)
	a.Remove("going.yaml")
	a.Put("changing.yaml", node.Manifest(node.Pod("changing", node.Image, node.Idle, node.Scratch)))
	settled(a, 6)
	a.Stop()
	a.Start()
	a.Put("later.yaml", node.Manifest(node.Pod("later", node.Image, node.Idle)))
	settled(a, 7)
	r := inspect(t, rt)
	var err error
	if r.Views, err = views(a); err != nil {
		t.Fatal(err)
	}
	a.Kill()
	r.State = folded(t, a)
	pack(t, a, r)
}

// settled waits until there are n pods, each is in its final state, and the journal does not grow.
func settled(a *node.Agent, n int) {
	a.T.Helper()
	before := ""
	node.Eventually(a.T, settle, "the pods", func() error {
		pods, err := a.Pods()
		if err != nil || len(pods) != n {
			return fmt.Errorf("%d pods, want %d (%w)", len(pods), n, err)
		}
		for _, p := range pods {
			again := a.ShortName(p.Name) == "again" && node.Container(&p, "main").RestartCount != 1
			ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
			if p.DeletionTimestamp != nil || again || !ended && !node.Ready(&p) {
				return fmt.Errorf("%s is %s", p.Name, view(&p))
			}
		}
		info, err := a.Client.Info(context.Background())
		if now := fmt.Sprint(info.JournalLast); err != nil || now != before {
			before = now
			return fmt.Errorf("the journal still grows, to record %s (%w)", now, err)
		}
		return nil
	})
}

func serveSim(t *testing.T, rt *sim.Runtime, dir string) string {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(dir, "sim.sock"))
	must.OK(t, err)
	go func() { _ = rt.Serve(context.Background(), l) }() // ends with Close
	return "unix://" + l.Addr().String()
}

// inspect records what the runtime shows.
func inspect(t *testing.T, rt *sim.Runtime) *recorded {
	t.Helper()
	conn, err := rt.Dial()
	must.OK(t, err)
	defer conn.Close()
	c, r := cri.NewRuntimeServiceClient(conn), new(recorded)
	add := func(to *[]json.RawMessage, m proto.Message) {
		b, err := protojson.Marshal(m)
		must.OK(t, err)
		*to = append(*to, b)
	}
	boxes, err := c.ListPodSandbox(t.Context(), &cri.ListPodSandboxRequest{})
	must.OK(t, err)
	for _, s := range boxes.GetItems() {
		st, err := c.PodSandboxStatus(t.Context(), &cri.PodSandboxStatusRequest{PodSandboxId: s.GetId()})
		must.OK(t, err)
		add(&r.Sandboxes, s)
		add(&r.SandboxStatuses, st.GetStatus())
	}
	all, err := c.ListContainers(t.Context(), &cri.ListContainersRequest{})
	must.OK(t, err)
	for _, x := range all.GetContainers() {
		st, err := c.ContainerStatus(t.Context(), &cri.ContainerStatusRequest{ContainerId: x.GetId()})
		must.OK(t, err)
		add(&r.Containers, x)
		add(&r.ContainerStatuses, st.GetStatus())
	}
	return r
}

// pack writes the recording, without times and owners: the same content gives the same file.
func pack(t *testing.T, a *node.Agent, r *recorded) {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	must.OK(t, err)
	archive := tar.NewWriter(z)
	put := func(name string, b []byte) error {
		err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(b)), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = archive.Write(b)
		}
		return err
	}
	state, err := json.MarshalIndent(r, "", " ")
	must.OK(t, err)
	// The runtime's objects name directories of the recording's machine.
	state = bytes.ReplaceAll(state, []byte(a.Dir), []byte("/recorded"))
	err = put(stateFile, state)
	for _, dir := range []string{"root/bus", "pods"} {
		err = errors.Join(err, fs.WalkDir(os.DirFS(a.Dir), dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || slices.Contains(left, path.Base(name)) || strings.HasPrefix(path.Base(name), ".") {
				if d != nil && d.IsDir() && err == nil {
					return fs.SkipDir
				}
				return err
			}
			if !d.Type().IsRegular() {
				return nil
			}
			return put(name, readFile(t, filepath.Join(a.Dir, name)))
		}))
	}
	err = errors.Join(err, archive.Close(), z.Close(),
		os.MkdirAll(filepath.Dir(recording), 0o750), os.WriteFile(recording, out.Bytes(), 0o600))
	must.OK(t, err)
	t.Logf("%s has %d bytes", recording, out.Len())
}
