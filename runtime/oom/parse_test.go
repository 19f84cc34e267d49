package oom

import (
	"strings"
	"testing"
)

const (
	id = "3f4d3c6b0a1e4d0f9b2a7c5e8d1f6a9b0c3e5d7f9a1b2c4d6e8f0a2b4c6d8e0f"
	// atLimit is a line of kernel 6.18, with the cgroup of a container.
	atLimit = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=" + id + ",mems_allowed=0," +
		"oom_memcg=/kubepods/burstable/pod1/" + id + ",task_memcg=/kubepods/burstable/pod1/" + id +
		",task=python3,pid=15647,uid=0\n SUBSYSTEM=x"
	global = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom," +
		"task_memcg=/system.slice/x.service,task=worker,pid=77,uid=1000"
)

func TestLineOfTheKernelIsRead(t *testing.T) {
	container := "/kubepods/burstable/pod1/" + id
	for name, c := range map[string]struct {
		line string
		want kill
	}{
		"container": {atLimit, kill{limit: container, cgroup: container, process: "python3", pid: 15647}},
		"machine":   {global, kill{cgroup: "/system.slice/x.service", process: "worker", pid: 77}},
		"bound by a policy of memory": {strings.Replace(global, "_NONE,", "_MEMORY_POLICY,", 1),
			kill{cgroup: "/system.slice/x.service", process: "worker", pid: 77}},
		"process named as the line ends": {strings.Replace(atLimit, "task=python3", "task=a,pid=1,uid=0", 1),
			kill{limit: container, cgroup: container, process: "a,pid=1,uid=0", pid: 15647}},
		"process named as a mark": {strings.Replace(atLimit, "task=python3", "task=a,task=b", 1),
			kill{limit: container, cgroup: container, process: "a,task=b", pid: 15647}},
		"process with bytes that are escaped": {strings.Replace(atLimit, "python3", strings.Repeat(`\xff`, 15), 1),
			kill{limit: container, cgroup: container, process: strings.Repeat(`\xff`, 15), pid: 15647}},
		"cgroup named as a mark": {strings.Replace(atLimit, ",task=python3", "/x,task=fake,pid=9,uid=0,task=python3", 1),
			kill{limit: container, cgroup: container + "/x,task=fake,pid=9,uid=0", process: "python3", pid: 15647}},
		"cpuset that passes for the machine": {
			strings.Replace(atLimit, "cpuset="+id, "cpuset=x,mems_allowed=0,global_oom,task_memcg=y", 1),
			kill{limit: container, cgroup: container, process: "python3", pid: 15647}},
	} {
		if got, ok := parse(c.line); !ok || got != c.want {
			t.Errorf("%s: %+v %v, want %+v", name, got, ok, c.want)
		}
	}
}

func TestOtherLinesAreNoKill(t *testing.T) {
	for _, line := range []string{
		"", "oom-kill:", "Memory cgroup out of memory: Killed process 15647 (python3) total-vm:75160kB",
		"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)", strings.Replace(atLimit, "pid=15647", "pid=x", 1),
		strings.Replace(atLimit, "pid=15647", "pid=-1", 1), strings.Replace(atLimit, "pid=15647", "pid=99999999999", 1),
		strings.Replace(atLimit, "task=python3", "task="+strings.Repeat("x", 16), 1),
		strings.Replace(atLimit, ",oom_memcg=/", ",oom_memcg=", 1), "x" + atLimit,
	} {
		if got, ok := parse(line); ok {
			t.Errorf("%q is read as %+v", line, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(atLimit)
	f.Add(global)
	f.Fuzz(func(t *testing.T, line string) {
		k, ok := parse(line)
		if ok && (k.pid <= 0 || len(unescaped(k.process)) > maxComm || !strings.HasPrefix(k.cgroup, "/")) {
			t.Errorf("%q is read as %+v", line, k)
		}
	})
}
