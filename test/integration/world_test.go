//go:build integration

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// ownUsers gives a pod a user namespace of its own.
func ownUsers(p *corev1.Pod) { p.Spec.HostUsers = ptr.To(false) }

// inMain runs a script in the container "main" of a pod and returns its output without white space around it.
func inMain(t *testing.T, p *corev1.Pod, script string) string {
	t.Helper()
	return strings.TrimSpace(setup.Runtime.Exec(t, container(p, "main").ContainerID, "sh", "-c", script))
}

// hostIDs returns the first id on the node of a pod with a user namespace, and how many it has.
func hostIDs(t *testing.T, p *corev1.Pod) string {
	t.Helper()
	fields := strings.Fields(inMain(t, p, "cat /proc/self/uid_map"))
	if len(fields) != 3 || fields[0] != "0" {
		t.Fatalf("pod %s has the ids %v", p.Name, fields)
	}
	equal(t, "the group ids of "+p.Name, strings.Join(strings.Fields(inMain(t, p, "cat /proc/self/gid_map")), " "),
		strings.Join(fields, " "))
	return fields[1] + "+" + fields[2]
}

func TestPodsInUserNamespacesShareNoIDs(t *testing.T) {
	t.Parallel()
	a := started(t, manifests(
		newPod("one", idle, ownUsers, scratch), newPod("two", idle, ownUsers, scratch), newPod("host", idle, scratch),
	))
	one, two := a.pod("one", "ready", ready), a.pod("two", "ready", ready)
	ids := map[string]string{"one": hostIDs(t, one), "two": hostIDs(t, two)}
	if ids["one"] == ids["two"] || !strings.HasSuffix(ids["one"], "+65536") {
		t.Errorf("ids %v", ids)
	}
	host := strings.Fields(inMain(t, a.pod("host", "ready", ready), "cat /proc/self/uid_map"))
	equal(t, "the ids of a pod with the node's users", strings.Join(host, " "), "0 0 4294967295")
	// Files of a volume belong to the pod's ids, inside and on the node.
	equal(t, "the owner inside", inMain(t, one, "touch /v/f && stat -c %u:%g /v/f"), "0:0")
	var st unix.Stat_t
	volumes := filepath.Join(a.Root, "pods", string(one.UID), "volumes")
	must.OK(t, unix.Stat(filepath.Join(volumes, "kubernetes.io~empty-dir", "v", "f"), &st))
	equal(t, "the owner on the node", fmt.Sprint(st.Uid, ":", st.Gid), "0:0")
	if inMain(t, one, "grep one /etc/hosts; echo x >/dev/termination-log && echo written") == "" {
		t.Error("the hosts file has no entry of the pod")
	}

	before := a.fingerprint()
	a.crash()
	a.unchanged(before, "the restart")
	a.loseJournal()
	a.put(newPod("another", idle, ownUsers)) // it is admitted before the others
	a.start()
	another := hostIDs(t, a.pod("another", "ready", ready))
	a.kept(before, "the lost journal")
	for name, was := range ids {
		p := a.pod(name, "ready", ready)
		equal(t, "the ids of "+name+" after the journal was lost", hostIDs(t, p), was)
		if another == was {
			t.Errorf("the other pod has the ids of %s", name)
		}
	}
	// A container that starts again stays in its pod's namespace.
	p := a.podNow("one")
	stopContainer(t, container(p, "main").ContainerID)
	p = a.pod("one", "restarted", func(p *corev1.Pod) bool { return ready(p) && container(p, "main").RestartCount == 1 })
	equal(t, "the ids after a restart", hostIDs(t, p), ids["one"])
}

func TestContainersWorldIsAsTheManifestSays(t *testing.T) {
	t.Parallel()
	named := newPod("named", idle, func(p *corev1.Pod) { p.Spec.HostnameOverride = ptr.To("db-0.prod.example") })
	strict := newPod("strict", idle, func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{
			RunAsUser: ptr.To(int64(1000)), SupplementalGroups: []int64{4242},
			SupplementalGroupsPolicy: ptr.To(corev1.SupplementalGroupsPolicyStrict),
			SELinuxOptions:           &corev1.SELinuxOptions{Level: "s0:c123,c456"},
		}
	})
	unmasked := newPod("unmasked", idle, ownUsers, func(p *corev1.Pod) {
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ProcMount: ptr.To(corev1.UnmaskedProcMount)}
	})
	quiet := newPod("quiet", idle, func(p *corev1.Pod) {
		p.Annotations = map[string]string{"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}
	})
	huge := newPod("huge", idle, func(p *corev1.Pod) {
		limits := corev1.ResourceList{
			"hugepages-2Mi": resource.MustParse("1Ti"), corev1.ResourceMemory: resource.MustParse("16Mi"),
		}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: limits}
	})
	a := started(t, manifests(named, strict, unmasked, quiet, huge, newPod("masked", idle)))

	p := a.pod("named", "ready", ready)
	equal(t, "the host name", inMain(t, p, "hostname"), "db-0.prod.example")
	equal(t, "the name in the hosts file", inMain(t, p, "grep -c 'db-0.prod.example' /etc/hosts"), "1")
	equal(t, "the groups", inMain(t, a.pod("strict", "ready", ready), "id -G"), "0 4242")
	masks := "grep -c ' /proc/sys ' /proc/self/mountinfo || true"
	equal(t, "what is masked", inMain(t, a.pod("masked", "ready", ready), masks), "1")
	equal(t, "what is masked in an unmasked container", inMain(t, a.pod("unmasked", "ready", ready), masks), "0")
	p = a.pod("quiet", "ready", ready)
	equal(t, "the seccomp mode", inMain(t, p, "grep Seccomp: /proc/self/status | cut -f2"), "2")
	p = a.pod("huge", "rejected", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	equal(t, "the reason", p.Status.Reason, "OutOfhugepages-2Mi")
}

func TestLimitNamesCDIDevice(t *testing.T) {
	t.Parallel()
	// containerd reads specifications from here and from /etc/cdi.
	const dir = "/var/run/cdi"
	must.OK(t, os.MkdirAll(dir, 0o755))
	kind := fmt.Sprintf("journalet-test-%d.example/null", os.Getpid())
	spec, err := json.Marshal(map[string]any{
		"cdiVersion": "0.6.0", "kind": kind,
		"devices": []any{map[string]any{"name": "a", "containerEdits": map[string]any{
			"env":         []string{"GIVEN=a"},
			"deviceNodes": []any{map[string]any{"path": "/dev/given", "hostPath": "/dev/null"}},
		}}},
	})
	must.OK(t, err)
	file := filepath.Join(dir, strings.ReplaceAll(kind, "/", "-")+".json")
	t.Cleanup(func() { _ = errors.Join(os.Remove(file), os.Remove(dir)) }) // the directory stays if it has others
	writeFile(t, file, string(spec))
	device := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
				corev1.ResourceName(kind + "=" + name): resource.MustParse("1"),
			}
		}
	}
	a := started(t, manifests(newPod("given", idle, device("a")), newPod("unknown", idle, device("b"))))
	p := a.pod("given", "ready", ready)
	equal(t, "the device", inMain(t, p, "test -c /dev/given && echo $GIVEN"), "a")
	a.pod("unknown", "refused by the runtime", func(p *corev1.Pod) bool {
		w := container(p, "main").State.Waiting
		return w != nil && w.Reason == "CreateContainerError" && strings.Contains(w.Message, kind+"=b")
	})
}

func TestSandboxThatLostItsNetworkIsReplaced(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("web", idle))
	p := a.pod("web", "ready", ready)
	was := a.sandboxes()[0].GetId()
	ctx, stop := node.Bounded()
	defer stop()
	unplug(ctx, t, was)
	if _, err := setup.Runtime.StopContainer(ctx, &cri.StopContainerRequest{
		ContainerId: node.BareID(container(p, "main").ContainerID),
	}); err != nil {
		t.Fatal(err)
	}
	after := a.pod("web", "ready in another sandbox", func(p *corev1.Pod) bool {
		return ready(p) && container(p, "main").RestartCount == 1
	})
	if after.Status.PodIP == "" {
		t.Error("the pod has no address")
	}
	for _, s := range a.sandboxes() {
		if s.GetId() == was && s.GetState() == cri.PodSandboxState_SANDBOX_READY {
			t.Error("the sandbox without a network is still there")
		}
	}
}

// unplug takes a sandbox's network namespace away from the runtime.
func unplug(ctx context.Context, t *testing.T, sandbox string) {
	t.Helper()
	st, err := setup.Runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: sandbox, Verbose: true})
	must.OK(t, err)
	var info struct {
		RuntimeSpec struct {
			Linux struct {
				Namespaces []struct{ Type, Path string }
			}
		}
	}
	must.OK(t, json.Unmarshal([]byte(st.GetInfo()["info"]), &info))
	for _, n := range info.RuntimeSpec.Linux.Namespaces {
		if n.Type == "network" {
			must.OK(t, errors.Join(unix.Unmount(n.Path, unix.MNT_DETACH), os.Remove(n.Path)))
			return
		}
	}
	t.Fatalf("the sandbox has no network namespace: %s", st.GetInfo()["info"])
}

func TestPodOutsideItsCgroupIsStartedAgainInside(t *testing.T) {
	t.Parallel()
	a := started(t, manifests(
		newPod("web", idle), newPod("job", idle, restarts(corev1.RestartPolicyNever)),
	), "--cgroups-per-qos=false")
	a.pod("web", "ready", ready)
	a.pod("job", "ready", ready)
	a.Stop()
	a.Flags = nil
	a.start()
	p := a.pod("web", "restarted", func(p *corev1.Pod) bool { return ready(p) && container(p, "main").RestartCount == 1 })
	if !a.inPod(p, container(p, "main").ContainerID) {
		t.Error("the container runs outside of its pod's cgroup")
	}
	a.pod("job", "ended", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	equal(t, "the pods that lost their cgroups", fmt.Sprint(a.journal.count(func(f messages.Flat) bool {
		return f.Event == "pod_cgroup_lost"
	})), "2")
}
