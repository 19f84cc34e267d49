//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/test/node"
)

// equal compares what was seen in a container, without the spaces around it.
func equal(t *testing.T, what, is, want string) {
	t.Helper()
	if is = strings.TrimSpace(is); is != want {
		t.Errorf("%s is %q, want %q", what, is, want)
	}
}

func TestAContainerSeesWhatItsManifestSays(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("seen", "", func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Command, c.Args = []string{"sh", "-c", "echo \"$0 $1\"; " + idle}, []string{"$(GREETING)", "$$(GREETING)"}
		c.WorkingDir = "/etc"
		c.Env = []corev1.EnvVar{
			{Name: "NAME", Value: "world"},
			{Name: "GREETING", Value: "hello $(NAME)"},
			{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
			{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}},
		}
		c.Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("48Mi")},
		}
		p.Spec.HostAliases = []corev1.HostAlias{{IP: "10.1.2.3", Hostnames: []string{"elsewhere"}}}
	}))
	p := a.pod("seen", "ready", ready)
	id := container(p, "main").ContainerID
	sh := func(script string) string { return setup.Runtime.Exec(t, id, "sh", "-c", script) }

	a.logged(p, "main", "stdout F hello world $(GREETING)")
	equal(t, "the working directory", setup.Runtime.Exec(t, id, "pwd"), "/etc")
	equal(t, "POD", sh("echo $POD"), p.Name)
	equal(t, "IP", sh("echo $IP"), p.Status.PodIP)
	equal(t, "the memory limit by the downward API", sh("echo $CPU"), fmt.Sprint(48<<20))
	equal(t, "the host name", setup.Runtime.Exec(t, id, "hostname"), p.Name)
	hosts := sh("cat /etc/hosts")
	for _, line := range []string{p.Status.PodIP + "\t" + p.Name, "10.1.2.3\telsewhere", "127.0.0.1\tlocalhost"} {
		if !strings.Contains(hosts, line) {
			t.Errorf("/etc/hosts has no line %q:\n%s", line, hosts)
		}
	}
	limits := containerStatus(t, id).GetResources().GetLinux()
	if limits.GetMemoryLimitInBytes() != 48<<20 || limits.GetCpuQuota() != 20000 || limits.GetCpuShares() != 20 {
		t.Errorf("the runtime's limits are %v", limits)
	}
	equal(t, "the memory limit in the cgroup",
		sh("cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"), fmt.Sprint(48<<20))
	equal(t, "the CPU quota in the cgroup",
		sh("cut -d' ' -f1 /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us"), "20000")
}

func TestASecurityContextIsInForce(t *testing.T) {
	t.Parallel()
	user, group, yes, no := int64(1234), int64(2345), true, false
	a := started(t, onePod("locked", idle, func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsGroup: &group, RunAsNonRoot: &yes}
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
			RunAsUser: &user, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
		p.Spec.Containers = append(p.Spec.Containers, shell("open", idle))
		p.Spec.Containers[1].SecurityContext = &corev1.SecurityContext{
			RunAsNonRoot: &no, RunAsUser: new(int64), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
		}
	}))
	p := a.pod("locked", "ready", ready)
	status := func(name, key string) string {
		// Of the container's own process, not of one that was put beside it.
		return setup.Runtime.Exec(t, container(p, name).ContainerID, "sh", "-c", "grep ^"+key+": /proc/1/status | cut -f2")
	}
	id := container(p, "main").ContainerID
	equal(t, "user and group", setup.Runtime.Exec(t, id, "sh", "-c", "echo $(id -u) $(id -g)"), "1234 2345")
	equal(t, "the write to a read-only root", setup.Runtime.Exec(t, id, "sh", "-c", "touch /x 2>/dev/null && echo written || echo refused"), "refused")
	equal(t, "the bounding set of capabilities", status("main", "CapBnd"), "0000000000000000")
	equal(t, "the seccomp mode of RuntimeDefault", status("main", "Seccomp"), "2")
	equal(t, "no new privileges", status("main", "NoNewPrivs"), "1")
	equal(t, "the seccomp mode of Unconfined", status("open", "Seccomp"), "0")
	equal(t, "no new privileges without a word", status("open", "NoNewPrivs"), "0")
	if caps := strings.TrimSpace(status("open", "CapBnd")); caps == "0000000000000000" {
		t.Error("the container beside it has lost its capabilities too")
	}
}

func TestVolumesAreSharedAndOfTheirKind(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	host := filepath.Join(a.Dir, "host")
	if err := os.MkdirAll(filepath.Join(host, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(host, "file"), []byte("from the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	limit := resource.MustParse("1Mi")
	kinds := map[string]corev1.HostPathType{
		"dir": corev1.HostPathDirectory, "file": corev1.HostPathFile,
		"newdir": corev1.HostPathDirectoryOrCreate, "newfile": corev1.HostPathFileOrCreate,
	}
	p := newPod("volumes", idle, func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, shell("other", idle))
		p.Spec.Volumes = []corev1.Volume{
			{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &limit}}},
		}
		for name, kind := range kinds {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
				Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(host, name), Type: &kind}},
			})
		}
		for i := range p.Spec.Containers {
			for _, v := range p.Spec.Volumes {
				p.Spec.Containers[i].VolumeMounts = append(p.Spec.Containers[i].VolumeMounts,
					corev1.VolumeMount{Name: v.Name, MountPath: "/v/" + v.Name, ReadOnly: i == 1})
			}
		}
	})
	a.Put("volumes.yaml", manifest(p))
	wrong := corev1.HostPathDirectory
	a.Put("wrong.yaml", manifest(newPod("wrong", idle, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(host, "file"), Type: &wrong}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	})))
	a.start()
	p = a.pod("volumes", "ready", ready)
	one, other := container(p, "main").ContainerID, container(p, "other").ContainerID

	for _, name := range []string{"disk/a", "memory/a", "dir/a", "newdir/a", "newfile"} {
		setup.Runtime.Exec(t, one, "sh", "-c", "echo told >/v/"+name)
		equal(t, name+" in the other container", setup.Runtime.Exec(t, other, "cat", "/v/"+name), "told")
	}
	equal(t, "a file of the host", setup.Runtime.Exec(t, other, "cat", "/v/file"), "from the host")
	for _, name := range []string{"dir/a", "newdir/a", "newfile"} {
		b, err := os.ReadFile(filepath.Join(host, name))
		equal(t, fmt.Sprint(name, " on the host ", err), string(b), "told")
	}
	equal(t, "the file system of an emptyDir in memory", setup.Runtime.Exec(t, one, "sh", "-c", "grep ' /v/memory ' /proc/mounts | cut -d' ' -f1"), "tmpfs")
	equal(t, "its size in KiB", setup.Runtime.Exec(t, one, "sh", "-c", "df -k /v/memory | tail -1 | awk '{print $2}'"), "1024")
	equal(t, "a write to a read-only mount", setup.Runtime.Exec(t, other, "sh", "-c", "touch /v/disk/b 2>/dev/null && echo written || echo refused"), "refused")

	a.journal.wait(t, 0, settle, "the failed volume of a hostPath of the wrong type", named("call_finished", "CALL_ERROR_VOLUME", "hostPath"))
	if now := a.podNow("wrong"); now.Status.Phase != corev1.PodPending || container(now, "main").State.Waiting == nil {
		t.Errorf("a pod whose volume cannot be set up is:\n%s", describe(map[string]*corev1.Pod{"wrong": now}))
	}
}

func TestLogsLieWhereLogShippersLook(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("talker", "echo first line; "+idle))
	p := a.pod("talker", "ready", ready)
	id := node.BareID(container(p, "main").ContainerID)
	a.logged(p, "main", " stdout F first line\n")
	file := filepath.Join(a.PodLogs, "default_"+p.Name+"_"+string(p.UID), "main", "0.log")
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	link := filepath.Join(a.ContainerLogs, p.Name+"_default_main-"+id+".log")
	if to, err := os.Readlink(link); err != nil || to != file {
		t.Errorf("%s leads to %q, %v; want %s", link, to, err, file)
	}
}

func TestATerminationMessageIsReadFromTheFileAndElseFromTheLog(t *testing.T) {
	t.Parallel()
	fromLog := corev1.TerminationMessageFallbackToLogsOnError
	a := started(t, onePod("last-words", "echo -n goodbye >/dev/termination-log; exit 3", restarts(corev1.RestartPolicyNever), func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, shell("logger", "echo from the log; exit 4"))
		p.Spec.Containers[1].TerminationMessagePolicy = fromLog
	}))
	p := a.pod("last-words", "failed", phase(corev1.PodFailed))
	if end := container(p, "main").State.Terminated; end.Message != "goodbye" || end.ExitCode != 3 || end.Reason != "Error" {
		t.Errorf("main ended as %+v", end)
	}
	if end := container(p, "logger").State.Terminated; strings.TrimSpace(end.Message) != "from the log" || end.ExitCode != 4 {
		t.Errorf("logger ended as %+v", end)
	}
}
