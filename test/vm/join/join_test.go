//go:build vm

package join

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/cluster"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
	"github.com/journalet/journalet/test/vm/machine"
)

const (
	repo = "../../.."
	// soon bounds what takes seconds on a machine that is some five times slower than this one, and shares it.
	soon = 3 * time.Minute
	// kubeadmTimeout bounds one command of kubeadm, which waits for the node itself.
	kubeadmTimeout = 10 * time.Minute
	// kubeletConfig is for all nodes: an image that is collected is gone, for there is no registry.
	kubeletConfig = "imageGCHighThresholdPercent: 100\nmaxPods: 50"
	// changedPods is the maxPods that an upgrade finds.
	changedPods = "70"
)

// lab is a control plane on this machine, and an emulated machine that can reach it.
type lab struct {
	*testing.T
	c    *cluster.Cluster
	node *machine.Machine
	join *cluster.Join
	// address is the emulated machine's, gateway this machine's end of the wire between the two.
	address, gateway string
	pod              core.Pod // of the Deployment
}

func TestKubeadmJoinsTheAgentAsASecondNode(t *testing.T) {
	l := start(t)
	for _, step := range []struct {
		name string
		do   func(*lab)
	}{
		{"join", (*lab).joins},
		{"files of kubeadm are in effect", (*lab).filesCount},
		{"pods run, with logs and exec", (*lab).podRuns},
		{"restarts touch no container", (*lab).restarts},
		{"configuration of an upgrade is in effect", (*lab).upgrades},
		{"reset leaves nothing", (*lab).resets},
		{"join again", (*lab).joinsAgain},
	} {
		done := t.Run(step.name, func(t *testing.T) {
			on := *l
			on.T = t
			step.do(&on)
			l.pod = on.pod
		})
		if !done {
			t.Fatalf("the steps after %q need it", step.name)
		}
	}
}

// start starts both machines, with a first node that runs on this one.
func start(t *testing.T) *lab {
	missing, err := cluster.Missing(t.Context(), append(cluster.Parts(), cluster.Kubectl, cluster.Kubeadm)...)
	must.OK(t, err)
	if len(missing) > 0 {
		t.Fatalf("not built yet: %v; run `go run ./test/cluster/lab programs`, which takes some 20 minutes once", missing)
	}
	l := &lab{T: t, c: cluster.Up(t, cluster.Options{})}
	l.join, err = l.c.PrepareJoin(t.Context(), kubeletConfig)
	must.OK(t, err)
	files := filepath.Join(t.TempDir(), "files")
	must.OK(t, l.bring(files))
	must.OK(t, l.c.StartAgent(t.Context(), filepath.Join(files, "journalet"), cluster.Node{
		Name: "first", Endpoint: "sim://", Config: "cgroupsPerQOS: false",
	}))
	must.OK(t, l.boot(files))
	t.Cleanup(l.node.Stop)
	l.sh(fmt.Sprintf("ADDRESS=%s GATEWAY=%s bash /mnt/install.sh 2>&1", l.address, l.gateway))
	return l
}

// bring collects the files of the machine's second disk.
func (l *lab) bring(files string) error {
	if err := os.Mkdir(files, 0o700); err != nil {
		return err
	}
	from := []string{repo + "/deploy/systemd/kubelet.service", repo + "/deploy/systemd/kubelet.service.d/10-kubeadm.conf",
		"../testdata/containerd.toml", "../testdata/node.conflist", "../testdata/runtime.sh", "testdata/install.sh",
		l.c.Program(cluster.Kubeadm)}
	if out, err := exec.Command("cp", append(from, files)...).CombinedOutput(); err != nil {
		return fmt.Errorf("copy: %w: %s", err, out)
	}
	return machine.Programs(repo, files, map[string]string{"journalet": "/cmd/journalet", "guest": "/test/vm/guest"})
}

// boot boots the machine and gives this end of its wire an address. Both are of the range for tests of network devices
// (RFC 2544), which no network uses.
func (l *lab) boot(files string) error {
	image, err := machine.Image("..")
	if err != nil {
		return err
	}
	subnet := os.Getpid() % 250
	l.gateway, l.address = fmt.Sprintf("198.18.%d.1", subnet), fmt.Sprintf("198.18.%d.2", subnet)
	tap := fmt.Sprintf("jl-vm-%d", subnet)
	if _, err := net.InterfaceByName(tap); err == nil {
		return fmt.Errorf("the interface %s exists: another run of this test has it", tap)
	}
	l.node, err = machine.Boot(machine.Options{
		Image: image, Files: files, Dir: l.TempDir(), MemoryMiB: 2048, Unit: "kubelet", Tap: tap,
	})
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"address", "add", l.gateway + "/30", "dev", tap}, {"link", "set", tap, "up"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			l.node.Stop()
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// sh runs a script on the node, which must succeed.
func (l *lab) sh(script string) string {
	l.Helper()
	return l.node.Must(l, kubeadmTimeout, script)
}

// kubectl returns what kubectl prints, and fails the test if it fails.
func (l *lab) kubectl(args ...string) string {
	l.Helper()
	var out, errs bytes.Buffer
	cmd := l.c.Command(l.Context(), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		l.Fatalf("kubectl %s: %v\n%s\n%s", strings.Join(args, " "), err, &errs, l.node.AgentLog())
	}
	return strings.TrimSpace(out.String())
}

// eventually polls a condition until it holds.
func (l *lab) eventually(what string, holds func() error) {
	l.Helper()
	l.node.Eventually(l, soon, what, holds)
}

func (l *lab) ready(name string) core.Node {
	l.Helper()
	l.eventually("node "+name+" is ready", func() error { return l.c.NodeReady(l.Context(), name) })
	n, err := l.c.MustClient(l).CoreV1().Nodes().Get(l.Context(), name, meta.GetOptions{})
	must.OK(l, err)
	return *n
}

func (l *lab) joins() {
	text, err := os.ReadFile("testdata/join.yaml")
	must.OK(l, err)
	config := strings.NewReplacer("SERVER", l.join.Server, "TOKEN", l.join.Token, "HASH", l.join.CAHash,
		"ADDRESS", l.address).Replace(string(text))
	out := l.sh("cat >/root/join.yaml <<'CONFIG'\n" + config + "\nCONFIG\n/mnt/kubeadm join --config /root/join.yaml 2>&1")
	l.Log(out)
	if !strings.Contains(out, "This node has joined the cluster") {
		l.Error("kubeadm does not say that the node has joined")
	}
	n := l.ready("node")
	if list := l.kubectl("get", "nodes", "-o", "name"); list != "node/first\nnode/node" {
		l.Errorf("the nodes are %s", list)
	}
	if n.Labels["example.com/machine"] != "emulated" || n.Labels["example.com/disk"] != "slow" {
		l.Errorf("the labels are %v", n.Labels)
	}
	if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].ToString() != "example.com/emulated=yes:PreferNoSchedule" {
		l.Errorf("the taints are %v", n.Spec.Taints)
	}
	want := core.NodeAddress{Type: core.NodeInternalIP, Address: l.address}
	if a := n.Status.Addresses; len(a) == 0 || a[0] != want {
		l.Errorf("the addresses are %v", a)
	}
	if v := n.Status.NodeInfo.KubeletVersion; !strings.HasPrefix(v, cluster.Version+"+journalet.") {
		l.Errorf("the version is %s", v)
	}
}

func (l *lab) filesCount() {
	l.Log(l.sh("cd /var/lib/kubelet && ls -lA . pki && tail -n 100 config.yaml instance-config.yaml kubeadm-flags.env " +
		"/etc/kubernetes/kubelet.conf | grep -v certificate-authority-data"))
	l.sh("test ! -e /etc/kubernetes/bootstrap-kubelet.conf && test -S /var/lib/kubelet/kubelet.sock && " +
		"grep -q /var/lib/kubelet/pki/kubelet-client-current.pem /etc/kubernetes/kubelet.conf")
	var in struct {
		KubeletConfig struct {
			MaxPods             int
			ContainerLogMaxSize string
			ClusterDNS          []string
			CgroupDriver        string
		}
	}
	must.OK(l, json.Unmarshal([]byte(l.kubectl("get", "--raw", "/api/v1/nodes/node/proxy/configz")), &in))
	k := in.KubeletConfig
	if k.MaxPods != 50 || k.ContainerLogMaxSize != "3Mi" || strings.Join(k.ClusterDNS, " ") != "10.96.0.10" ||
		k.CgroupDriver != "systemd" {
		l.Errorf("in effect is %+v", k)
	}
	if log := l.sh("journalctl -u kubelet -o cat --no-pager"); strings.Contains(log, "msg=configuration") {
		l.Errorf("the agent remarks on what kubeadm has written:\n%s", log)
	}
}

// webPod returns the pod of the Deployment once it is ready.
func (l *lab) webPod() core.Pod {
	l.Helper()
	var pod core.Pod
	l.eventually("the pod is ready", func() error {
		list, err := l.c.MustClient(l).CoreV1().Pods("default").List(l.Context(), meta.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err
		}
		for _, pod = range list.Items {
			if node.Ready(&pod) && pod.DeletionTimestamp == nil {
				return nil
			}
		}
		return fmt.Errorf("%d pods, status of the last %+v", len(list.Items), pod.Status)
	})
	return pod
}

func (l *lab) podRuns() {
	l.kubectl("apply", "-f", "testdata/pod.yaml")
	l.pod = l.webPod()
	if l.pod.Spec.NodeName != "node" || l.pod.Status.HostIP != l.address {
		l.Errorf("the pod is on %s, %s", l.pod.Spec.NodeName, l.pod.Status.HostIP)
	}
	l.eventually("its log is there", func() error {
		out, err := l.c.Command(l.Context(), "logs", l.pod.Name).CombinedOutput()
		if err == nil && !strings.Contains(string(out), "serving") {
			err = fmt.Errorf("the container printed %q", out)
		}
		return err
	})
	// On an eighth of a core an emulated processor takes 40 to 110 s for it, on less it may take longer than a session
	// waits for its streams: 30 s, a constant of Kubernetes' libraries.
	l.eventually("a command runs in it", func() error {
		out, err := l.c.Command(l.Context(), "exec", l.pod.Name, "--", "hostname").CombinedOutput()
		if err == nil && strings.TrimSpace(string(out)) == l.pod.Name {
			return nil
		}
		l.Logf("kubectl exec: %v, %s", err, out)
		return fmt.Errorf("%w: %s", cmp.Or(err, errors.New("another host name")), out)
	})
	id := strings.TrimPrefix(l.pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	l.sh("test -d /sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/*/cri-containerd-" + id + ".scope")
}

func (l *lab) restarts() {
	for _, how := range []string{"systemctl restart kubelet", "systemctl kill -s KILL kubelet"} {
		before := l.sh("systemctl show kubelet -p MainPID")
		l.sh(how)
		l.eventually("another agent is healthy after "+how, func() error {
			now := l.sh("systemctl show kubelet -p MainPID")
			if out := l.node.Get("10248", "healthz"); now == before || !strings.Contains(out, "200 OK") {
				return fmt.Errorf("%s, was %s; it answers %s", now, before, out)
			}
			return nil
		})
		l.ready("node")
	}
	l.containerRuns()
}

// containerRuns expects the container of podRuns.
func (l *lab) containerRuns() {
	l.Helper()
	was := l.pod.Status.ContainerStatuses[0]
	if now := l.webPod().Status.ContainerStatuses[0]; now.ContainerID != was.ContainerID || now.RestartCount != 0 {
		l.Errorf("the container is %+v, was %+v", now, was)
	}
}

// upgrades does what an upgrade of the cluster has each node do.
func (l *lab) upgrades() {
	text := l.kubectl("-n", "kube-system", "get", "configmap", "kubelet-config", "-o", "jsonpath={.data.kubelet}")
	patch, err := json.Marshal(map[string]any{"data": map[string]string{
		"kubelet": strings.Replace(text, "maxPods: 50", "maxPods: "+changedPods, 1),
	}})
	must.OK(l, err)
	l.kubectl("-n", "kube-system", "patch", "configmap", "kubelet-config", "--type=merge", "-p", string(patch))
	l.Log(l.sh("/mnt/kubeadm upgrade node 2>&1 && systemctl restart kubelet"))
	l.eventually("the Node has the new maxPods", func() error {
		if pods := l.kubectl("get", "node", "node", "-o", "jsonpath={.status.capacity.pods}"); pods != changedPods {
			return errors.New(pods)
		}
		return nil
	})
	l.containerRuns()
}

// resets does what takes a node out of the cluster.
func (l *lab) resets() {
	l.Log(l.kubectl("drain", "node", "--timeout=3m"))
	out := l.sh("/mnt/kubeadm reset --force 2>&1")
	l.Log(out)
	if strings.Contains(out, "could not") || strings.Contains(out, "Failed") {
		l.Error("kubeadm could not do all of it")
	}
	left := l.sh("find /var/lib/kubelet /etc/kubernetes/pki -mindepth 1; ctr -n k8s.io containers ls -q; " +
		"grep kubelet /proc/mounts; systemctl is-active kubelet || true")
	if left != "inactive" {
		l.Errorf("left are\n%s", left)
	}
	l.kubectl("delete", "node", "node")
}

// joinsAgain joins under another name, with the flags that `kubeadm token create --print-join-command` prints.
func (l *lab) joinsAgain() {
	l.Log(l.sh("/mnt/kubeadm " + strings.Join(l.join.Arguments(), " ") + " --node-name second 2>&1"))
	n := l.ready("second")
	if n.Status.Addresses[0].Address != l.address {
		l.Errorf("the addresses are %v", n.Status.Addresses)
	}
	l.kubectl("label", "node", "second", "example.com/machine=emulated") // for the pod that the drain has left pending
	if l.pod = l.webPod(); l.pod.Spec.NodeName != "second" {
		l.Errorf("the pod is on %s", l.pod.Spec.NodeName)
	}
}
