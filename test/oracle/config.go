package oracle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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

// begin is the time at which every case begins.
var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// side is one side's node.
type side struct {
	opts node.Options
	fake *fakecri.Runtime
}

// world holds the nodes of both sides, which are alike.
type world struct {
	dir          string
	ours, theirs side
	parsed       manifest.Parsed
}

// scratch returns a directory for the files of cases: in memory if possible, because the kubelet syncs its files.
func scratch() string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err == nil && info.IsDir() {
		return memory
	}
	return os.TempDir()
}

// newWorld returns the nodes of both sides for the pod of a case. It is nil if we reject the pod, which compareDecode
// checks.
func newWorld(text string) *world {
	parsed, problems := manifest.Decode(manifestPath, []byte(text), manifest.Options{
		NodeName: nodeName, HasToken: func(_, _ string) bool { return true },
	})
	if len(problems) > 0 || len(parsed) != 1 {
		return nil
	}
	return worldOf(parsed[0])
}

// world is newWorld that counts rejected pods.
func (c *testCase) world(text string) *world {
	w := newWorld(text)
	if w == nil {
		c.count("rejected")
	}
	return w
}

// newWorldOfTheirs is newWorld for a pod that only the kubelet accepts.
func newWorldOfTheirs(text string) *world {
	d := kubelet.Decode(manifestPath, []byte(text), nodeName)
	if d.Pod == nil {
		return nil
	}
	d.Pod.Annotations[manifest.ConfigSourceAnnotation] = string(manifest.SourceFile)
	return worldOf(manifest.Parsed{Pod: d.Pod})
}

func worldOf(parsed manifest.Parsed) *world {
	dir, err := os.MkdirTemp(scratch(), "oracle")
	check("create a directory for a case", err)
	resolv := filepath.Join(dir, "resolv.conf")
	put(resolv, "nameserver 192.0.2.1\nsearch host.example corp.example\noptions ndots:1 rotate\n")
	w := &world{dir: dir, parsed: parsed}
	// The node depends on the pod's name, so that it stays the same while a case shrinks.
	r := rand.New(rand.NewPCG(7, uint64(len(parsed.Pod.Name)))) //nolint:gosec // the same node for the same pod
	opts := nodeOptions()
	opts.ResolvConf, opts.SeccompDefault = resolv, r.IntN(2) == 0
	if r.IntN(3) > 0 {
		opts.ClusterDNS = []string{"10.96.0.10"}
	}
	opts.CgroupV2, opts.Swap = r.IntN(2) == 0, r.IntN(2) == 0
	opts.HugePages = kubelet.HugePages()
	opts.HostIPs = pick(r, []string{"192.0.2.10"}, []string{"192.0.2.10", "2001:db8::10"}, []string{"2001:db8::10"})
	w.ours, w.theirs = w.side(opts, "ours"), w.side(opts, "theirs")
	w.ours.fake.IPs = pick(r, []string{"10.88.0.7"}, []string{"fd00:88::7", "10.88.0.7"},
		[]string{"10.88.0.7", "fd00:88:0::7"})
	w.theirs.fake.IPs = w.ours.fake.IPs
	return w
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// newKubelet returns the kubelet of the kubelet's node.
func (w *world) newKubelet() *kubelet.Kubelet {
	kl, err := kubelet.New(w.theirs.opts, w.theirs.fake)
	check("no kubelet", err)
	return kl
}

// newDecider returns our decider of the pod, after its first observation.
func (w *world) newDecider(probes agent.Probes) *agent.Pod {
	decider, err := agent.NewPod(context.Background(), w.ours.opts, w.ours.fake, w.parsed, probes)
	check("our decider", err)
	return decider
}

// nodeOptions returns the node of all cases.
func nodeOptions() node.Options {
	return node.Options{
		NodeName: nodeName, HostIPs: []string{"192.0.2.10"}, ClusterDomain: "cluster.local",
		NodeLabels: map[string]string{
			"kubernetes.io/hostname": nodeName, "kubernetes.io/os": "linux", "disk": "ssd", "cores": "8",
		},
		MemoryCapacity: 8 << 30, Clock: clock.RealClock{},
		AllowedUnsafeSysctls: []string{"kernel.msg*", "user.*", "net/core/*"},
		Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("7Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"), corev1.ResourcePods: quantity(110),
		},
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

// addImages adds the images of the generated pods to the node.
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

// generatePod returns a pod without mistakes.
func generatePod(m *pods.Generator) string { return text(m.Pod()) }

// generateWithInit returns a pod without mistakes that may have init containers and sidecars without probes and hooks.
func generateWithInit(m *pods.Generator) string {
	p := m.Pod()
	if m.Chance(40) {
		m.AddLifecycle(p)
		p.Spec.ActiveDeadlineSeconds = nil
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				c := &list[i]
				c.Lifecycle, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil, nil
			}
		}
		for i := range p.Spec.InitContainers {
			if c := &p.Spec.InitContainers[i]; isSidecar(c) {
				c.Ports = []corev1.ContainerPort{{ContainerPort: sidecarPort + int32(i)}} // the list is short
			}
		}
	}
	if m.Chance(50) {
		m.AddWorld(p)
		m.AddLabels(p)
	}
	return text(p)
}

// compareConfigs compares the requests to the runtime for a new pod.
func compareConfigs(c *testCase) {
	w := c.world(c.text)
	if w == nil {
		return
	}
	defer w.close()
	compareStarts(c, w)
}

// compareStarts compares the requests to the runtime for the new pod of a world.
func compareStarts(c *testCase, w *world) {
	ctx := context.Background()
	kl := w.newKubelet()
	theirs, err := w.startTheirs(ctx, kl)
	check("the kubelet cannot sync", err)
	ours, err := agent.NewDriver(w.ours.opts, w.ours.fake, w.parsed).StartAll(ctx)
	check("our driver", err)
	compareOutcomes(c, w, ours, theirs)
	ourCalls, theirCalls := configsOf(w.ours), configsOf(w.theirs)
	for _, config := range ourCalls {
		if withoutSidecars(config) {
			c.differs("port mappings of sidecars", "mapped", "not mapped")
		}
	}
	for _, name := range sortedKeys(ourCalls) {
		if theirCalls[name] == nil {
			continue // compareOutcomes reports it
		}
		what := "container"
		switch {
		case name == "":
			what = "sandbox"
		case strings.HasPrefix(name, copied):
			what = "copied sandbox"
		}
		compareTrees(c.differs, what, ourCalls[name], theirCalls[name])
	}
	for _, o := range theirs {
		if o.Reason != "" {
			return // the kubelet writes the file even if it then does not create the container
		}
	}
	for _, o := range ours {
		if strings.Contains(o.GetMessage(), noText) {
			return
		}
	}
	ourHosts, theirHosts := hostsOf(w.ours, w.parsed.Pod), hostsOf(w.theirs, w.parsed.Pod)
	key := "hosts file"
	if slices.Equal(unordered(ourHosts), unordered(theirHosts)) {
		key = "hosts file: order of addresses"
	}
	c.differs(key, ourHosts, theirHosts)
}

// unordered returns the lines of a hosts file with equal addresses written alike, sorted.
func unordered(hosts string) []string {
	var out []string
	for line := range strings.Lines(hosts) {
		at, names, _ := strings.Cut(line, "\t")
		if ip, err := netip.ParseAddr(at); err == nil {
			at = ip.String()
		}
		out = append(out, at+" "+names)
	}
	slices.Sort(out)
	return out
}

// sidecarPort is the first of a hundred ports that only generated sidecars have.
const sidecarPort = 45000

// withoutSidecars removes the port mappings of sidecars from the configuration of a sandbox, and reports whether there
// are any.
func withoutSidecars(config map[string]any) bool {
	mapped, _ := config["portMappings"].([]any)
	left := slices.DeleteFunc(slices.Clone(mapped), func(m any) bool {
		have, _ := m.(map[string]any)
		port, _ := have["containerPort"].(float64)
		return port >= sidecarPort && port < sidecarPort+100
	})
	config["portMappings"] = left
	return len(left) < len(mapped)
}

// startTheirs has the kubelet start all containers: every ordinary init container ends with 0 once it runs.
func (w *world) startTheirs(ctx context.Context, kl *kubelet.Kubelet) (map[string]kubelet.Outcome, error) {
	all := map[string]kubelet.Outcome{}
	pod := w.parsed.Pod.DeepCopy() // one for all syncs: the first one changes it
	for range len(w.parsed.Pod.Spec.InitContainers) + 1 {
		found, err := kl.Sync(ctx, pod)
		if err != nil {
			return nil, err
		}
		for name, o := range found {
			if all[name].Reason == "" {
				all[name] = o
			}
		}
		for _, c := range w.parsed.Pod.Spec.InitContainers {
			if !isSidecar(&c) {
				w.theirs.fake.Exit(c.Name, 0)
			}
		}
	}
	return all, nil
}

// reasons maps our errors to the kubelet's.
var reasons = map[journaletv1.CallError]string{
	journaletv1.CallError_CALL_ERROR_UNSPECIFIED:        "",
	journaletv1.CallError_CALL_ERROR_CONFIG:             "CreateContainerConfigError",
	journaletv1.CallError_CALL_ERROR_CREATE:             "CreateContainerError",
	journaletv1.CallError_CALL_ERROR_VOLUME:             "CreateContainerConfigError",
	journaletv1.CallError_CALL_ERROR_INVALID_IMAGE_NAME: "InvalidImageName",
}

func compareOutcomes(
	c *testCase, w *world, ours map[string]*journaletv1.CallFinished, theirs map[string]kubelet.Outcome,
) {
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
		if t.Reason != "" {
			c.count(t.Reason)
		}
		if spec := specOf(w.parsed.Pod, name); t.Message == badEnvFile && spec != nil && o.GetMessage() != badEnvFile {
			if readsMissingFile(spec, w.ours.opts.Objects) {
				what += " with an optional file that is missing,"
			}
		}
		if strings.Contains(o.GetMessage(), noText) && t.Message == "" {
			what += " with a variable that is no text,"
		}
		c.differs(what+" outcome", reason+" "+plainMessage(o.GetMessage()), t.Reason+" "+plainMessage(t.Message))
	}
}

// noText is in our error for a variable of bytes that no runtime passes on. A start that is refused for it writes no
// hosts file.
const noText = "has bytes that are not UTF-8"

// badEnvFile is the kubelet's error for every mistake in a file of variables.
const badEnvFile = "couldn't parse env file"

var envFilePath = regexp.MustCompile(`( not found in file )".*"`)

// plainMessage returns an error without what has to differ: what is wrong with a file of variables, which only we say,
// and its path, whose links only the kubelet follows.
func plainMessage(text string) string {
	if strings.HasPrefix(text, badEnvFile+":") {
		return badEnvFile
	}
	return envFilePath.ReplaceAllString(text, "$1")
}

// copied begins the key of a sandbox's configuration in a container's request; the container's name follows.
const copied = "sandbox of "

// configsOf returns the configurations of the requests, by container name; "" is the sandbox's.
func configsOf(s side) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, call := range s.fake.Calls() {
		switch q := call.(type) {
		case *runtimeapi.RunPodSandboxRequest:
			out[""] = s.plain(q.GetConfig())
		case *runtimeapi.CreateContainerRequest:
			sort.Slice(q.GetConfig().GetEnvs(), func(i, j int) bool { return q.Config.Envs[i].Key < q.Config.Envs[j].Key })
			for _, kv := range q.GetConfig().GetEnvs() {
				kv.Key, kv.Value = printable(kv.GetKey()+"="+string(kv.GetValue())), nil
			}
			for _, list := range [][]string{q.GetConfig().GetCommand(), q.GetConfig().GetArgs()} {
				for i := range list {
					list[i] = printable(list[i]) // it may refer to a variable
				}
			}
			for _, m := range q.GetConfig().GetMounts() {
				if m.GetImage() == nil {
					// In a pod with an image volume, the kubelet sets it for the other mounts, too. CRI ignores it there.
					m.ImageSubPath = ""
				}
			}
			delete(q.GetSandboxConfig().GetAnnotations(), "journalet.io/agent")
			out[q.GetConfig().GetMetadata().GetName()] = s.plain(q.GetConfig())
			out[copied+q.GetConfig().GetMetadata().GetName()] = s.plain(q.GetSandboxConfig())
		}
	}
	return out
}

// printable returns a text as JSON can hold it.
func printable(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strconv.QuoteToASCII(text)
}

var terminationFile = regexp.MustCompile(`(\$ROOT/pods/[^/]*/containers/[^/]*)/[^/"]*`)

// plain returns a configuration without what has to differ: our annotations, directories, names of files.
func (s side) plain(m proto.Message) map[string]any {
	data, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	check("marshal a configuration", err)
	text := strings.ReplaceAll(string(data), s.opts.RootDir, "$ROOT")
	text = strings.ReplaceAll(text, s.opts.PodLogDir, "$LOGS")
	text = terminationFile.ReplaceAllString(text, "$1/<file>")
	out := parseTree(text)
	if dns, ok := out["dnsConfig"].(map[string]any); ok {
		if options, ok := dns["options"].([]any); ok {
			// The kubelet's order is the order of a map.
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
