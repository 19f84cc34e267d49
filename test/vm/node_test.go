//go:build vm

package vm

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/journalet/journalet/test/must"
	testnode "github.com/journalet/journalet/test/node"
	"github.com/journalet/journalet/test/vm/machine"
)

var full = flag.Bool("vm.full", false, "full length instead of the short form")

const (
	repo = "../.."
	// watchdogLimit is WatchdogSec as install.sh sets it: a machine that is emulated beside others may stand still for the
	// unit's half minute.
	watchdogLimit = 2 * time.Minute
	// fullTrouble is how long trouble lasts at least in the full form.
	fullTrouble = 5 * time.Minute
	// pingsInTrouble is how many pings of the watchdog have to arrive meanwhile: the first may be of a moment before. An
	// agent that sends none is killed.
	pingsInTrouble = 2
	// soon bounds what takes seconds on a machine that is some five times slower than this one, and shares it.
	soon = 3 * time.Minute
	poll = time.Second
	// betweenLists is longer: to start the command takes a second of the processor that starts the pods.
	betweenLists = 4 * time.Second
)

// node is the machine that all tests run on, in their order: each begins with the pods that the tests before have left.
var node *machine.Machine

// listed is when the pods were last listed.
var listed time.Time

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runOnMachine(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm tests:", err)
		code = 1
	}
	os.Exit(code)
}

func runOnMachine(m *testing.M) (int, error) {
	begun := time.Now()
	image, err := machine.Image(".")
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "vm")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	files := filepath.Join(dir, "files")
	if err := bring(files); err != nil {
		return 0, err
	}
	built := time.Now()
	if node, err = machine.Boot(machine.Options{
		Image: image, Files: files, Dir: dir, Unit: "journalet",
	}); err != nil {
		return 0, err
	}
	defer node.Stop()
	fmt.Printf("built in %.0f s, booted in %.0f s\n", built.Sub(begun).Seconds(), time.Since(built).Seconds())
	return m.Run(), nil
}

// bring collects the files of the machine's second disk.
func bring(files string) error {
	if err := os.Mkdir(files, 0o700); err != nil {
		return err
	}
	if err := machine.Programs(repo, files, map[string]string{
		"journalet": "/cmd/journalet", "guest": "/test/vm/guest",
	}); err != nil {
		return err
	}
	if err := bringQuota(files); err != nil {
		return err
	}
	for _, from := range []string{"deploy/systemd/journalet.service", "deploy/pods", "test/vm/testdata"} {
		cmd := exec.Command("cp", "-r", filepath.Join(repo, from)+"/.", files)
		if strings.HasSuffix(from, ".service") {
			cmd = exec.Command("cp", filepath.Join(repo, from), files)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("copy %s: %w: %s", from, err, out)
		}
	}
	return nil
}

// bringQuota adds the tests of project quotas, and the file system that they need.
func bringQuota(files string) error {
	test := exec.Command("go", "test", "-c", "-tags", "vm", "-buildvcs=false", "-o", filepath.Join(files, "quota.test"),
		repo+"/runtime/pod/storage/quota")
	test.Env = append(os.Environ(), "CGO_ENABLED=0")
	disk := exec.Command("mke2fs", "-q", "-t", "ext4", "-O", "quota,project", "-E", "quotatype=prjquota",
		filepath.Join(files, "quota.img"), "32M")
	for _, cmd := range []*exec.Cmd{test, disk} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
		}
	}
	return nil
}

// sh runs a script on the node, which must succeed.
func sh(t *testing.T, script string) string {
	t.Helper()
	return node.Must(t, machine.CommandTimeout, script)
}

// eventually polls a condition until it holds.
func eventually(t *testing.T, limit time.Duration, what string, holds func() error) {
	t.Helper()
	node.Eventually(t, limit, what, holds)
}

// service is what systemd reports about the agent's unit.
type service struct{ pid, restarts, state string }

func unit(t *testing.T) service {
	t.Helper()
	values := map[string]string{}
	for line := range strings.Lines(sh(t, "systemctl show journalet -p MainPID,NRestarts,ActiveState")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = value
	}
	return service{values["MainPID"], values["NRestarts"], values["ActiveState"]}
}

// pinged returns when systemd received the agent's last ping, by the machine's clock.
func pinged(t *testing.T) string {
	t.Helper()
	return sh(t, "systemctl show journalet --value -p WatchdogTimestampMonotonic")
}

// health returns the checks of a health endpoint.
func health(path string) string { return node.Get("10248", path+"?verbose") }

func healthy() error {
	if h := health("readyz"); !strings.Contains(h, "readyz check passed") {
		return errors.New(h)
	}
	return nil
}

// pods lists the pods by the names in their manifests, at most once in betweenLists.
func pods(t *testing.T) (map[string]corev1.Pod, error) {
	t.Helper()
	<-time.After(time.Until(listed.Add(betweenLists)))
	defer func() { listed = time.Now() }()
	out, err := node.Run("journalet pods -o json")
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	must.OK(t, json.Unmarshal([]byte(out), &list))
	all := map[string]corev1.Pod{}
	for _, p := range list.Items {
		all[strings.TrimSuffix(p.Name, "-node")] = p
	}
	return all, nil
}

// await waits until pods of the given names are in a phase, and ready if that is Running.
func await(t *testing.T, phase corev1.PodPhase, names ...string) {
	t.Helper()
	eventually(t, soon, fmt.Sprintf("%v %s", names, phase), func() error {
		all, err := pods(t)
		if err != nil {
			return err
		}
		for _, name := range names {
			p := all[name]
			if p.Status.Phase != phase || phase == corev1.PodRunning && !testnode.Ready(&p) {
				return fmt.Errorf("%s: %+v", name, p.Status)
			}
		}
		return nil
	})
}

// tasks returns the containers that run, with their processes.
func tasks(t *testing.T) string {
	t.Helper()
	return sh(t, "ctr -n k8s.io tasks ls | sort")
}

func TestMachineIsWhatTheOthersNeed(t *testing.T) {
	for script, want := range map[string]string{
		"stat -fc %T /sys/fs/cgroup":                  "cgroup2fs",
		"cat /sys/module/apparmor/parameters/enabled": "Y",
		"systemctl is-active dbus systemd-logind":     "active\nactive",
	} {
		if got := sh(t, script); got != want {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
}

// Few machines have a file system with project quotas: these tests bring one.
func TestProjectQuotas(t *testing.T) {
	t.Log(sh(t, "modprobe loop && cp /mnt/quota.img /root/ && mkdir /quota && "+
		"mount -o loop,prjquota /root/quota.img /quota && JOURNALET_QUOTA_DIR=/quota /mnt/quota.test -test.v 2>&1; "+
		"status=$?; umount /quota; exit $status"))
}

// The agent runs with the flags of its unit: it has to learn the cgroup driver from a containerd that has no
// RuntimeConfig.
func TestExamplePodsRunInSlices(t *testing.T) {
	if out := sh(t, "bash /mnt/install.sh 2>&1"); !regexp.MustCompile(`cgroup-driver +ok +the runtime uses systemd`).
		MatchString(out) {
		t.Errorf("journalet check reports:\n%s", out)
	}
	// Without a deadline: on an emulated machine that shares its cores it passes before the work is done.
	sh(t, "cp /mnt/*.yaml /etc/journalet/pods/ && sed -i /activeDeadlineSeconds/d /etc/journalet/pods/prepared.yaml")
	await(t, corev1.PodRunning, "web", "pair")
	await(t, corev1.PodSucceeded, "job", "prepared")
	eventually(t, soon, "a back-off of the crasher", func() error {
		all, err := pods(t)
		s := all["crasher"].Status
		if err == nil && (len(s.ContainerStatuses) != 1 || s.ContainerStatuses[0].RestartCount == 0) {
			return fmt.Errorf("%+v", s)
		}
		return err
	})
	if page := node.Get("18080", ""); !strings.Contains(page, "Hello from Journalet") {
		t.Errorf("web serves %q", page)
	}
	all, err := pods(t)
	must.OK(t, err)
	web := all["web"]
	id := containerID(web, "httpd")
	want := "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" +
		strings.ReplaceAll(string(web.UID), "-", "_") + ".slice/cri-containerd-" + id + ".scope"
	if group := sh(t, "cat /proc/$("+taskPID(id)+")/cgroup"); group != want {
		t.Errorf("web's container is in %s, want %s", group, want)
	}
}

// On cgroup v2 with systemd: a pod's figures are the figures of its slice, a container's the figures of its scope.
func TestStatisticsAreThoseOfSlicesAndScopes(t *testing.T) {
	all, err := pods(t)
	must.OK(t, err)
	var sum struct{ Pods []api.PodStats }
	must.OK(t, json.Unmarshal([]byte(sh(t, "journalet top web -o json")), &sum))
	slice := "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" +
		strings.ReplaceAll(string(all["web"].UID), "-", "_") + ".slice/"
	scope := slice + "cri-containerd-" + containerID(all["web"], "httpd") + ".scope/"
	if len(sum.Pods) != 1 || len(sum.Pods[0].Containers) == 0 {
		t.Fatalf("%+v", sum)
	}
	pod, c := sum.Pods[0], sum.Pods[0].Containers[0]
	if pod.CPU == nil || c.CPU == nil || pod.Memory == nil || c.Memory == nil || pod.Network == nil {
		t.Fatalf("%+v", pod)
	}
	for _, x := range []struct {
		dir string
		cpu uint64
	}{{slice, *pod.CPU.UsageCoreNanoSeconds}, {scope, *c.CPU.UsageCoreNanoSeconds}} {
		// The counter rises: what was read before is at most what it is now, and not far behind.
		now := uint64(number(t, "awk '/^usage_usec/ { print $2 }' "+x.dir+"cpu.stat")) * 1000
		if x.cpu == 0 || x.cpu > now || now-x.cpu > uint64(10*time.Second) {
			t.Errorf("%s: %d ns of CPU, and %d a moment later", x.dir, x.cpu, now)
		}
	}
	if has := sh(t, "ls "+scope+" | grep -c 'cpu.pressure' || true"); (has == "1") != (c.CPU.PSI != nil) {
		t.Errorf("%s files of pressure, and the figure %v", has, c.CPU.PSI)
	}
	limit := sh(t, "cat "+scope+"memory.max")
	if (limit == "max") != (c.Memory.AvailableBytes == nil) {
		t.Errorf("the limit %s, and available %v", limit, c.Memory.AvailableBytes)
	}
}

func TestAppArmorProfilesOfFieldAndAnnotationConfine(t *testing.T) {
	await(t, corev1.PodRunning, "confined")
	all, err := pods(t)
	must.OK(t, err)
	for container, want := range map[string]struct{ profile, log string }{
		"annotated": {"journalet-test (enforce)", "denied"},
		"field":     {"journalet-test (enforce)", "denied"},
		"default":   {"cri-containerd.apparmor.d (enforce)", "written"},
		"free":      {"unconfined", "written"},
	} {
		profile := sh(t, "cat /proc/$("+taskPID(containerID(all["confined"], container))+")/attr/current")
		if profile != want.profile {
			t.Errorf("%s runs under %s, want %s", container, profile, want.profile)
		}
		eventually(t, soon, container+" logs "+want.log, func() error {
			// A runtime that fails to start a container has left an empty log of that attempt.
			log, err := node.Run("cat /var/log/pods/default_confined-*/" + container + "/*.log")
			if err == nil && !strings.HasSuffix(strings.TrimSpace(log), " "+want.log) {
				err = fmt.Errorf("it logs %q", log)
			}
			return err
		})
	}
}

func containerID(p corev1.Pod, name string) string {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == name {
			return strings.TrimPrefix(c.ContainerID, "containerd://")
		}
	}
	return "none"
}

// taskPID returns a script that prints the process of a container.
func taskPID(id string) string {
	return "ctr -n k8s.io tasks ls | awk '$1 == \"" + id + "\" { print $2 }'"
}

// What comes next compares containers, so the pods with containers that do not end are kept.
func TestRemovedPodsEnd(t *testing.T) {
	sh(t, "cd /etc/journalet/pods && rm crasher.yaml job.yaml prepared.yaml confined.yaml")
	eventually(t, soon, "two pods left", func() error {
		all, err := pods(t)
		if err == nil && len(all) != 2 {
			return fmt.Errorf("%d pods", len(all))
		}
		return err
	})
	eventually(t, soon, "health", healthy)
}

// trouble is something that a restart of the agent does not repair.
type trouble struct {
	name       string
	begin, end string // scripts
	path, sign string // what the health endpoint path shows meanwhile
	provoke    string // a script that makes the agent meet it, repeated while the sign is not there
}

var troubles = []trouble{
	{
		// Broken manifests that come and go are recorded each time, and take no space themselves. Of few of them a record
		// would fit into the last block of the journal's file.
		name: "full disk", path: "healthz", sign: "[-]journal failed",
		begin: "mkdir /etc/journalet/broken && cd /etc/journalet/broken && " +
			"for i in $(seq 40); do echo broken >broken$i.yaml; done && systemd-run -q --unit=fill bash /mnt/fill.sh",
		end:     "systemctl stop fill; rm -rf /fill /etc/journalet/broken /etc/journalet/pods/broken*",
		provoke: "cd /etc/journalet && { mv broken/* pods || mv pods/broken* broken; }",
	},
	{
		// Nobody reads a link to itself, not even root.
		name: "unreadable manifest directory", path: "healthz", sign: "[-]file source failed",
		begin: unseen("mv pods away && ln -s pods pods"),
		end:   unseen("rm pods && mv away pods"),
	},
	{
		name: "dead containerd", path: "readyz", sign: "[-]runtime failed",
		begin: "systemctl stop containerd", end: "systemctl start containerd",
	},
}

// unseen returns a script that changes what is in the directory of the configuration while the agent is stopped: it
// must not see a state in between. If there is no manifest directory, there are no pods.
func unseen(script string) string {
	return "systemctl kill -s STOP journalet && cd /etc/journalet && " + script + "; systemctl kill -s CONT journalet"
}

func TestAgentIsNotRestartedForWhatARestartDoesNotRepair(t *testing.T) {
	// Not all three: with a full disk nothing else is recorded, and so nothing else shows.
	together, hold := [][]trouble{troubles[:1], troubles[1:]}, time.Duration(0)
	if *full {
		together, hold = [][]trouble{troubles[:1], troubles[1:2], troubles[2:]}, fullTrouble
	}
	for _, some := range together {
		var names []string
		for _, x := range some {
			names = append(names, x.name)
		}
		t.Run(strings.Join(names, " and "), func(t *testing.T) {
			before := unit(t)
			t.Cleanup(func() {
				for _, x := range some {
					if t.Failed() {
						_, _ = node.Run(x.end) // the tests that follow need the node
					}
				}
			})
			for _, x := range some {
				sh(t, x.begin)
				eventually(t, soon, x.name, x.shows)
			}
			polls, seen, pings, last := 0, 0, 0, pinged(t)
			for end := time.Now().Add(hold); pings < pingsInTrouble || time.Now().Before(end); <-time.After(poll) {
				if now := unit(t); now != before {
					t.Fatalf("the agent was restarted: %+v, was %+v\n%s", now, before, node.AgentLog())
				}
				if at := pinged(t); at != last {
					pings, last = pings+1, at
				}
				for _, x := range some {
					switch err := x.shows(); {
					case err == nil:
						polls, seen = polls+1, seen+1
					case !errors.Is(err, errNoAnswer):
						polls++
					}
				}
			}
			for _, x := range some {
				eventually(t, soon, x.name+" to be reported still", x.shows)
			}
			// On a full disk some space becomes free at times: removed containers.
			if t.Logf("reported %d of %d times", seen, polls); 2*seen < polls {
				t.Errorf("the trouble was reported %d of %d times", seen, polls)
			}
			for _, x := range some {
				sh(t, x.end)
			}
			eventually(t, soon, "health", healthy)
			await(t, corev1.PodRunning, "web", "pair")
			if now := unit(t); now != before {
				t.Errorf("the agent was restarted: %+v, was %+v\n%s", now, before, node.AgentLog())
			}
		})
	}
}

// errNoAnswer says nothing about the agent's health: the machine was too slow to ask for it.
var errNoAnswer = errors.New("no answer")

// shows returns an error unless the agent reports the trouble.
func (x trouble) shows() error {
	h := health(x.path)
	if h == "" {
		return errNoAnswer
	}
	if strings.Contains(h, x.sign) {
		return nil
	}
	if x.provoke != "" {
		_, _ = node.Run(x.provoke)
	}
	return errors.New(h)
}

// It comes before the agent is killed: the peak covers the tests above.
func TestMemoryStaysFarBelowTheUnitsLimit(t *testing.T) {
	const cgroup = "/sys/fs/cgroup/system.slice/journalet.service/"
	peak, limit := number(t, "cat "+cgroup+"memory.peak"), number(t, "cat "+cgroup+"memory.max")
	resident := number(t, "awk '/VmHWM/ { print $2 * 1024 }' /proc/"+unit(t).pid+"/status")
	t.Logf("peak of the cgroup %d MiB, of resident memory %d MiB, limit %d MiB", peak>>20, resident>>20, limit>>20)
	if resident > limit/4 {
		t.Errorf("the peak of resident memory is %d bytes, the limit %d", resident, limit)
	}
}

func TestKilledAgentIsRestartedAndTouchesNoContainer(t *testing.T) {
	restarted(t, "kill -KILL", "code=killed, status=9/KILL")
}

func TestHungAgentIsRestartedByTheWatchdogAndTouchesNoContainer(t *testing.T) {
	restarted(t, "kill -STOP", "Watchdog timeout")
}

// restarted ends the agent and expects another, with the same containers.
func restarted(t *testing.T, kill, logged string) {
	t.Helper()
	before, running := unit(t), tasks(t)
	sh(t, kill+" "+before.pid)
	eventually(t, 2*watchdogLimit+soon, "another agent", func() error {
		if now := unit(t); now.restarts == before.restarts || now.pid == before.pid || now.state != "active" {
			return fmt.Errorf("%+v, was %+v", now, before)
		}
		return nil
	})
	eventually(t, soon, "health", healthy)
	await(t, corev1.PodRunning, "web", "pair")
	if now := tasks(t); now != running {
		events, _ := node.Run("journalet observe --no-follow --since 5m | tail -n 100")
		t.Errorf("containers\n%s\nwere\n%s\nevents\n%s", now, running, events)
	}
	if log := sh(t, "journalctl -u journalet -o cat --no-pager"); !strings.Contains(log, logged) {
		t.Errorf("systemd did not log %q:\n%s", logged, log)
	}
}

func number(t *testing.T, script string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(sh(t, script), 10, 64)
	must.OK(t, err)
	return n
}
