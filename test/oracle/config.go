package oracle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/oracle/agent"
	"github.com/journalet/journalet/test/oracle/fakecri"
	"github.com/journalet/journalet/test/oracle/kubelet"
	"github.com/journalet/journalet/test/oracle/node"
	"github.com/journalet/journalet/test/oracle/pods"
)

// begin is when every case begins.
var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// side is one side's world.
type side struct {
	opts node.Options
	fake *fakecri.Runtime
}

// world is what both sides of a case are given: alike, and apart.
type world struct {
	dir          string
	ours, theirs side
	parsed       manifest.Parsed
}

// scratch is a folder for what a case writes: in memory where that can be had, for the kubelet syncs its files.
func scratch() string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err == nil && info.IsDir() {
		return memory
	}
	return os.TempDir()
}

// newWorld reads the pod of a case and makes a node for each side. It is nil where we refuse the pod: whether rightly so
// is for the comparer of manifests.
func newWorld(text string) (*world, error) {
	parsed, problems := manifest.Decode(manifestPath, []byte(text), manifest.Options{NodeName: nodeName})
	if len(problems) > 0 || len(parsed) != 1 {
		return nil, nil
	}
	return worldOf(parsed[0])
}

// world is a case's world; nil, and counted, where we refuse its pod.
func (c *testCase) world(text string) *world {
	w, err := newWorld(text)
	if err != nil {
		panic(err)
	}
	if w == nil {
		c.count("refused")
	}
	return w
}

// newWorldOfTheirs does the same with a pod that only the kubelet takes.
func newWorldOfTheirs(text string) (*world, error) {
	d := kubelet.Decode(manifestPath, []byte(text), nodeName)
	if d.Pod == nil {
		return nil, nil
	}
	d.Pod.Annotations[manifest.ConfigSourceAnnotation] = string(manifest.SourceFile)
	return worldOf(manifest.Parsed{Pod: d.Pod})
}

func worldOf(parsed manifest.Parsed) (*world, error) {
	dir, err := os.MkdirTemp(scratch(), "oracle")
	if err != nil {
		return nil, fmt.Errorf("make a folder for a case: %w", err)
	}
	resolv := filepath.Join(dir, "resolv.conf")
	if err := os.WriteFile(resolv, []byte("nameserver 192.0.2.1\nsearch host.example corp.example\noptions ndots:1 rotate\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write the host's resolver configuration: %w", err)
	}
	w := &world{dir: dir, parsed: parsed}
	// What the node is like follows from the pod's name, so that a case that shrinks stays on its node.
	r := rand.New(rand.NewPCG(7, uint64(len(parsed.Pod.Name)))) //nolint:gosec // the same node for the same pod
	opts := nodeOptions()
	opts.ResolvConf, opts.SeccompDefault = resolv, r.IntN(2) == 0
	if r.IntN(3) > 0 {
		opts.ClusterDNS = []string{"10.96.0.10"}
	}
	opts.CgroupV2, opts.Swap = r.IntN(2) == 0, r.IntN(2) == 0
	opts.HugePages = kubelet.HugePages()
	w.ours, w.theirs = w.side(opts, "ours"), w.side(opts, "theirs")
	return w, nil
}

// nodeOptions are the node of all cases.
func nodeOptions() node.Options {
	return node.Options{
		NodeName: nodeName, HostIPs: []string{"192.0.2.10"}, ClusterDomain: "cluster.local",
		NodeLabels:     map[string]string{"kubernetes.io/hostname": nodeName, "kubernetes.io/os": "linux", "disk": "ssd", "cores": "8"},
		MemoryCapacity: 8 << 30, Clock: clock.RealClock{},
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("7Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"), corev1.ResourcePods: quantity(110)},
	}
}

func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

func (w *world) side(opts node.Options, name string) side {
	opts.RootDir, opts.PodLogDir = filepath.Join(w.dir, name, "root"), filepath.Join(w.dir, name, "logs")
	fake := fakecri.New(func() time.Time { return begin })
	addImages(fake)
	return side{opts: opts, fake: fake}
}

func (w *world) close() { _ = os.RemoveAll(w.dir) }

// addImages puts the images of the made-up pods on the node.
func addImages(fake *fakecri.Runtime) {
	for i, name := range pods.GoodImages {
		image := &runtimeapi.Image{Id: fmt.Sprintf("sha256:%064d", i), RepoTags: []string{name}, Size: 1}
		switch name {
		case pods.ImageNumeric:
			image.Uid = &runtimeapi.Int64Value{Value: 1234}
		case pods.ImageNamed:
			image.Username = "nobody"
		case pods.ImageZero:
			image.Uid = &runtimeapi.Int64Value{}
		}
		fake.Images[name] = image
		if !strings.Contains(name[strings.LastIndex(name, "/")+1:], ":") && !strings.Contains(name, "@") {
			fake.Images[name+":latest"] = image
		}
	}
}

// makeGood makes up a pod without mistakes.
func makeGood(m *pods.Maker) string { return text(m.Pod()) }

// compareConfigs holds what we ask of the runtime for a new pod to what the kubelet asks.
func compareConfigs(c *testCase) {
	w := c.world(c.text)
	if w == nil {
		return
	}
	defer w.close()
	ctx := context.Background()
	kl, err := kubelet.New(w.theirs.opts, w.theirs.fake)
	if err != nil {
		panic(fmt.Sprintf("no kubelet: %v", err))
	}
	theirs, err := kl.Sync(ctx, w.parsed.Pod.DeepCopy())
	if err != nil {
		panic(fmt.Sprintf("the kubelet cannot sync: %v", err))
	}
	ours, err := agent.NewDriver(w.ours.opts, w.ours.fake, w.parsed).StartAll(ctx)
	if err != nil {
		panic(fmt.Sprintf("our driver: %v", err))
	}
	compareOutcomes(c, ours, theirs)
	ourCalls, theirCalls := configsOf(w.ours), configsOf(w.theirs)
	for _, name := range sortedKeys(ourCalls) {
		if theirCalls[name] == nil {
			continue // told by the outcomes
		}
		what := "container"
		switch {
		case name == "":
			what = "sandbox"
		case strings.HasPrefix(name, copied):
			what = "copied sandbox"
		}
		compareTrees(c, what, ourCalls[name], theirCalls[name])
	}
	for _, o := range theirs {
		if o.Reason != "" {
			return // the kubelet writes the file also for a container that is then not made
		}
	}
	c.differs("hosts file", hostsOf(w.ours, w.parsed.Pod), hostsOf(w.theirs, w.parsed.Pod))
}

// reasons are the kubelet's names for our errors.
var reasons = map[journaletv1.CallError]string{
	journaletv1.CallError_CALL_ERROR_UNSPECIFIED:        "",
	journaletv1.CallError_CALL_ERROR_CONFIG:             "CreateContainerConfigError",
	journaletv1.CallError_CALL_ERROR_CREATE:             "CreateContainerError",
	journaletv1.CallError_CALL_ERROR_VOLUME:             "CreateContainerConfigError",
	journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME: "InvalidImageName",
}

func compareOutcomes(c *testCase, ours map[string]*journaletv1.CallFinished, theirs map[string]kubelet.Outcome) {
	all := map[string]bool{}
	for name := range ours {
		all[name] = true
	}
	for name := range theirs {
		all[name] = true
	}
	for _, name := range sortedKeys(all) {
		what := "container"
		if name == "" {
			what = "sandbox"
		}
		o, t := ours[name], theirs[name]
		reason, known := reasons[o.GetError()]
		if !known {
			reason = o.GetError().String()
		}
		if what == "sandbox" && (reason != "" || t.Reason != "") {
			c.differs("sandbox fails", reason != "", t.Reason != "")
			continue
		}
		c.differs(what+" outcome", reason+" "+o.GetMessage(), t.Reason+" "+t.Message)
	}
}

// copied stands before a container's name for the copy of the sandbox's configuration that goes along with it.
const copied = "sandbox of "

// configsOf are the configurations that the runtime was given, by container name; "" is the sandbox's.
func configsOf(s side) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, call := range s.fake.Calls() {
		switch q := call.(type) {
		case *runtimeapi.RunPodSandboxRequest:
			out[""] = s.plain(q.GetConfig())
		case *runtimeapi.CreateContainerRequest:
			sort.Slice(q.GetConfig().GetEnvs(), func(i, j int) bool { return q.Config.Envs[i].Key < q.Config.Envs[j].Key })
			for _, kv := range q.GetConfig().GetEnvs() {
				kv.Key, kv.Value = kv.GetKey()+"="+string(kv.GetValue()), nil
			}
			delete(q.GetSandboxConfig().GetAnnotations(), "journalet.io/agent")
			out[q.GetConfig().GetMetadata().GetName()] = s.plain(q.GetConfig())
			out[copied+q.GetConfig().GetMetadata().GetName()] = s.plain(q.GetSandboxConfig())
		}
	}
	return out
}

var terminationFile = regexp.MustCompile(`(\$ROOT/pods/[^/]*/containers/[^/]*)/[^/"]*`)

// plain is a configuration without what must differ: our own annotations, folders, names of files.
func (s side) plain(m proto.Message) map[string]any {
	data, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a configuration does not marshal: %v", err))
	}
	text := strings.ReplaceAll(string(data), s.opts.RootDir, "$ROOT")
	text = strings.ReplaceAll(text, s.opts.PodLogDir, "$LOGS")
	text = terminationFile.ReplaceAllString(text, "$1/<file>")
	out := parseTree(text)
	if dns, ok := out["dnsConfig"].(map[string]any); ok {
		if options, ok := dns["options"].([]any); ok {
			// The kubelet's come out of a map, in any order.
			slices.SortFunc(options, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	if annotations, ok := out["annotations"].(map[string]any); ok {
		for key := range annotations {
			if strings.HasPrefix(key, "journalet.io/") {
				delete(annotations, key)
			}
		}
	}
	return out
}

func hostsOf(s side, pod *corev1.Pod) string {
	data, err := os.ReadFile(filepath.Join(s.opts.RootDir, "pods", string(pod.UID), "etc-hosts"))
	if err != nil {
		return "none"
	}
	return string(slices.Concat(data))
}
