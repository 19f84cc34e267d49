//go:build vm

package vm

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/must"
)

// The file's name has it run after node_test.go: the machine boots again.
func TestShutdownEndsPodsByPriorityAndTheyRunAfterTheBoot(t *testing.T) {
	sh(t, "systemctl is-active -q journalet || bash /mnt/install.sh 2>&1")
	sh(t, "rm -f /etc/journalet/pods/*; bash /mnt/shutdown.sh 2>&1")
	await(t, corev1.PodRunning, "low", "dns")
	memoryIsReserved(t)
	const property = "busctl get-property org.freedesktop.login1 /org/freedesktop/login1 " +
		"org.freedesktop.login1.Manager InhibitDelayMaxUSec"
	if delay := sh(t, property); delay != "t 90000000" {
		t.Errorf("logind delays a shutdown by %s, want 90 s", delay)
	}
	if locks := sh(t, "systemd-inhibit --list --no-pager"); !strings.Contains(locks, "journalet") {
		t.Errorf("the agent holds no lock:\n%s", locks)
	}
	boot := sh(t, "cat /proc/sys/kernel/random/boot_id")
	if err := node.Reboot(); err != nil {
		t.Fatal(err)
	}
	if now := sh(t, "cat /proc/sys/kernel/random/boot_id"); now == boot {
		t.Fatal("the machine has not booted again")
	}
	await(t, corev1.PodRunning, "low", "dns")
	if hooks := sh(t, "cat /var/lib/hooks/ran"); hooks != "low\ndns" {
		t.Errorf("preStop hooks ran to their ends in the order %q, want low, dns", hooks)
	}
	var order []string
	for line := range strings.Lines(sh(t, "journalet observe --no-follow --from 1 "+
		"--event shutdown_signaled,pod_terminated,drain_progressed,pod_readmitted,agent_stopped,agent_started")) {
		order = append(order, strings.Join(strings.Fields(line)[1:], " "))
	}
	events := strings.Join(order, "\n")
	t.Logf("the journal has\n%s", events)
	at := 0
	for _, want := range []string{
		"the machine is shutting down", "pod low-node terminated", "pod dns-node terminated", "shutdown complete",
		"pod dns-node is to be admitted again",
	} {
		i := strings.Index(events[at:], want)
		if i < 0 {
			t.Fatalf("%q is not in the journal after what precedes it", want)
		}
		at += i
	}
}

// memoryIsReserved checks what the kernel does not reclaim: what the Guaranteed pod dns requests, what the Burstable
// pod low does only if there is nothing else, and both above them. Huge pages are bounded by what the pods request:
// containerd, as it is configured by default, does not bound the huge pages of containers.
func memoryIsReserved(t *testing.T) {
	t.Helper()
	all, err := pods(t)
	must.OK(t, err)
	const top, burstable = "/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice"
	slice := func(above, pod string) string {
		return above + strings.ReplaceAll(above[strings.LastIndexByte(above, '/'):], ".slice", "") + "-pod" +
			strings.ReplaceAll(string(all[pod].UID), "-", "_") + ".slice"
	}
	scope := func(pod string) string { return "/cri-containerd-" + containerID(all[pod], "main") + ".scope" }
	dns, low := slice(top, "dns"), slice(burstable, "low")
	const mi = 1 << 20
	eventually(t, soon, "memory to be reserved", func() error {
		for _, c := range []struct {
			dir, file string
			want      int
		}{
			{top, "memory.min", 24 * mi}, {top, "memory.low", 8 * mi},
			{burstable, "memory.low", 8 * mi}, {burstable, "memory.min", 0},
			{dns, "memory.min", 16 * mi}, {dns + scope("dns"), "memory.min", 16 * mi}, {dns, "memory.low", 0},
			{low, "memory.low", 8 * mi}, {low + scope("low"), "memory.low", 8 * mi}, {low, "memory.min", 0},
			{low, "hugetlb.2MB.max", 2 * mi}, {dns, "hugetlb.2MB.max", 0},
		} {
			file := "/sys/fs/cgroup" + c.dir + "/" + c.file
			if got := sh(t, "cat "+file); got != strconv.Itoa(c.want) {
				return fmt.Errorf("%s is %s, want %d", file, got, c.want)
			}
		}
		return nil
	})
}
