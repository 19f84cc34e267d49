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

// equal compares output of a container, without the spaces around it.
func equal(t *testing.T, what, is, want string) {
	t.Helper()
	if is = strings.TrimSpace(is); is != want {
		t.Errorf("%s is %q, want %q", what, is, want)
	}
}

func TestContainerHasTheEnvironmentAndLimitsOfItsManifest(t *testing.T) {
	t.Parallel()
	a := started(t, onePod("seen", "", func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Command = []string{"sh", "-c", "echo \"$0 $1\"; " + idle}
		c.Args = []string{"$(GREETING)", "$$(GREETING)"}
		c.WorkingDir = "/etc"
		field := func(path string) *corev1.EnvVarSource {
			return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
		}
		memory := &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}
		c.Env = []corev1.EnvVar{
			{Name: "NAME", Value: "world"},
			{Name: "GREETING", Value: "hello $(NAME)"},
			{Name: "POD", ValueFrom: field("metadata.name")},
			{Name: "IP", ValueFrom: field("status.podIP")},
			{Name: "MEMORY", ValueFrom: memory},
		}
		c.Resources = size("20m/16Mi", "200m/48Mi")
		p.Spec.HostAliases = []corev1.HostAlias{{IP: "10.1.2.3", Hostnames: []string{"elsewhere"}}}
		p.Spec.DNSPolicy = corev1.DNSNone
		p.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.53"}, Searches: []string{"lab.example"}}
	}))
	p := a.pod("seen", "ready", ready)
	id := container(p, "main").ContainerID
	sh := func(script string) string { return setup.Runtime.Exec(t, id, "sh", "-c", script) }

	a.logged(p, "main", "stdout F hello world $(GREETING)")
	equal(t, "the working directory", setup.Runtime.Exec(t, id, "pwd"), "/etc")
	equal(t, "POD", sh("echo $POD"), p.Name)
	equal(t, "IP", sh("echo $IP"), p.Status.PodIP)
	equal(t, "the memory limit by the downward API", sh("echo $MEMORY"), fmt.Sprint(48<<20))
	equal(t, "the host name", setup.Runtime.Exec(t, id, "hostname"), p.Name)
	hosts := sh("cat /etc/hosts")
	for _, line := range []string{p.Status.PodIP + "\t" + p.Name, "10.1.2.3\telsewhere", "127.0.0.1\tlocalhost"} {
		if !strings.Contains(hosts, line) {
			t.Errorf("/etc/hosts has no line %q:\n%s", line, hosts)
		}
	}
	equal(t, "the resolver's configuration", sh("cat /etc/resolv.conf"), "search lab.example\nnameserver 192.0.2.53")
	limits := containerStatus(t, id).GetResources().GetLinux()
	if limits.GetMemoryLimitInBytes() != 48<<20 || limits.GetCpuQuota() != 20000 || limits.GetCpuShares() != 20 {
		t.Errorf("the runtime's limits are %v", limits)
	}
	equal(t, "the memory limit in the cgroup",
		sh("cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"),
		fmt.Sprint(48<<20))
	equal(t, "the CPU quota in the cgroup",
		sh("cut -d' ' -f1 /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us"), "20000")
}

func TestSecurityContextIsApplied(t *testing.T) {
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
			RunAsNonRoot: &no, RunAsUser: new(int64),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
		}
	}))
	p := a.pod("locked", "ready", ready)
	sh := func(name, script string) string {
		return setup.Runtime.Exec(t, container(p, name).ContainerID, "sh", "-c", script)
	}
	status := func(name, key string) string {
		// Of the container's own process, not of the process that runs the command.
		return sh(name, "grep ^"+key+": /proc/1/status | cut -f2")
	}
	equal(t, "user and group", sh("main", "echo $(id -u) $(id -g)"), "1234 2345")
	if u := container(p, "main").User; u == nil || u.Linux == nil || u.Linux.UID != user || u.Linux.GID != group {
		t.Errorf("the user in the status is %v", u)
	}
	equal(t, "the write to a read-only root", sh("main", "touch /x 2>/dev/null && echo written || echo refused"),
		"refused")
	equal(t, "the bounding set of capabilities", status("main", "CapBnd"), "0000000000000000")
	equal(t, "the seccomp mode of RuntimeDefault", status("main", "Seccomp"), "2")
	equal(t, "no new privileges", status("main", "NoNewPrivs"), "1")
	equal(t, "the seccomp mode of Unconfined", status("open", "Seccomp"), "0")
	equal(t, "no new privileges by default", status("open", "NoNewPrivs"), "0")
	if caps := strings.TrimSpace(status("open", "CapBnd")); caps == "0000000000000000" {
		t.Error("the other container has lost its capabilities too")
	}
}

func TestVolumesAreOfTheirTypeAndShared(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	host := filepath.Join(a.Dir, "host")
	if err := os.MkdirAll(filepath.Join(host, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(host, "file"), "from the host")
	limit := resource.MustParse("1Mi")
	kinds := map[string]corev1.HostPathType{
		"dir": corev1.HostPathDirectory, "file": corev1.HostPathFile,
		"newdir": corev1.HostPathDirectoryOrCreate, "newfile": corev1.HostPathFileOrCreate,
	}
	hostPath := func(name string, kind corev1.HostPathType) corev1.VolumeSource {
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(host, name), Type: &kind}}
	}
	a.put(newPod("volumes", idle, with(shell("other", idle)), func(p *corev1.Pod) {
		memory := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &limit}
		p.Spec.Volumes = []corev1.Volume{
			{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: memory}},
		}
		for name, kind := range kinds {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: hostPath(name, kind)})
		}
		for i := range p.Spec.Containers {
			for _, v := range p.Spec.Volumes {
				p.Spec.Containers[i].VolumeMounts = append(p.Spec.Containers[i].VolumeMounts,
					corev1.VolumeMount{Name: v.Name, MountPath: "/v/" + v.Name, ReadOnly: i == 1})
			}
		}
	}))
	a.put(newPod("wrong", idle, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: hostPath("file", corev1.HostPathDirectory)}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}))
	a.start()
	p := a.pod("volumes", "ready", ready)
	sh := func(name, script string) string {
		return setup.Runtime.Exec(t, container(p, name).ContainerID, "sh", "-c", script)
	}

	for _, name := range []string{"disk/a", "memory/a", "dir/a", "newdir/a", "newfile"} {
		sh("main", "echo shared >/v/"+name)
		equal(t, name+" in the other container", sh("other", "cat /v/"+name), "shared")
	}
	equal(t, "a file of the host", sh("other", "cat /v/file"), "from the host")
	for _, name := range []string{"dir/a", "newdir/a", "newfile"} {
		equal(t, name+" on the host", readFile(t, host, name), "shared")
	}
	equal(t, "the file system of an emptyDir in memory", sh("main", "grep ' /v/memory ' /proc/mounts | cut -d' ' -f1"),
		"tmpfs")
	equal(t, "its size in KiB", sh("main", "df -k /v/memory | tail -1 | awk '{print $2}'"), "1024")
	equal(t, "a write to a read-only mount", sh("other", "touch /v/disk/b 2>/dev/null && echo written || echo refused"),
		"refused")

	a.journal.wait(t, 0, settle, "the failed volume of a hostPath of the wrong type",
		named("call_finished", "CALL_ERROR_VOLUME", "hostPath"))
	if now := a.podNow("wrong"); now.Status.Phase != corev1.PodPending || container(now, "main").State.Waiting == nil {
		t.Errorf("the pod whose volume cannot be set up is:\n%s", describe(map[string]*corev1.Pod{"wrong": now}))
	}
}

func TestLogsAreWhereLogShippersReadThem(t *testing.T) {
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

func TestTerminationMessageComesFromTheFileOrTheLog(t *testing.T) {
	t.Parallel()
	logger := shell("logger", "echo from the log; exit 4")
	logger.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	const script = "echo -n goodbye >/dev/termination-log; exit 3"
	a := started(t, onePod("message", script, restarts(corev1.RestartPolicyNever), with(logger)))
	p := a.pod("message", "failed", phase(corev1.PodFailed))
	if end := container(p, "main").State.Terminated; end.Message != "goodbye" || end.ExitCode != 3 ||
		end.Reason != "Error" {
		t.Errorf("main ended as %+v", end)
	}
	if end := container(p, "logger").State.Terminated; strings.TrimSpace(end.Message) != "from the log" ||
		end.ExitCode != 4 {
		t.Errorf("logger ended as %+v", end)
	}
}
