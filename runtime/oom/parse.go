package oom

import (
	"strconv"
	"strings"
)

// kernelFacility is the first priority that is not the kernel's own: a priority is facility * 8 + level (syslog(2)),
// the kernel's facility is 0, and what a process writes to /dev/kmsg gets another one.
const kernelFacility = 8

// maxComm bounds the name of a process in bytes (the kernel has 16 bytes with its end).
const maxComm = 15

// maxCommText bounds the same in /dev/kmsg, which writes some bytes as \xNN.
const maxCommText = 4 * maxComm

// kill is a process that the kernel has killed.
type kill struct {
	// limit is the cgroup whose memory ran out, as a path; "" if it was the machine's.
	limit string
	// cgroup is the cgroup of the process. Below limit, a container can choose it.
	cgroup  string
	process string
	pid     int32
}

// parse reads a line such as (kernel 5.0 and newer)
//
//	oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=ID,mems_allowed=0,oom_memcg=/kubepods/pod1/ID,
//	task_memcg=/kubepods/pod1/ID,task=stress,pid=4711,uid=0
//
// without the break. oom_memcg=PATH is global_oom if the machine lacked memory. A container chooses the name of its
// process, and may choose the names of cgroups below its own. So the constraint, which comes first, decides what is
// read. parse searches a path by its mark and its /, which the name of a cpuset before it cannot contain, and the
// number from the end.
func parse(line string) (kill, bool) {
	line, _, _ = strings.Cut(line, "\n") // the rest are fields of the device
	rest, ok := strings.CutPrefix(line, "oom-kill:constraint=")
	if !ok {
		return kill{}, false
	}
	constraint, rest, _ := strings.Cut(rest, ",")
	k := kill{}
	if constraint == "CONSTRAINT_MEMCG" {
		if _, rest, ok = strings.Cut(rest, ",oom_memcg=/"); !ok {
			return kill{}, false
		}
		k.limit, rest, ok = strings.Cut(rest, ",task_memcg=/")
		k.limit = "/" + k.limit
	} else {
		_, rest, ok = strings.Cut(rest, ",task_memcg=/")
	}
	if !ok {
		return kill{}, false
	}
	at := strings.LastIndex(rest, ",pid=")
	if at < 0 {
		return kill{}, false
	}
	number, _, _ := strings.Cut(rest[at+len(",pid="):], ",")
	pid, err := strconv.ParseInt(number, 10, 32)
	if err != nil || pid <= 0 {
		return kill{}, false
	}
	k.pid, rest = int32(pid), rest[:at]
	k.cgroup, k.process, ok = cutProcess("/" + rest)
	return k, ok
}

// cutProcess splits "PATH,task=NAME" at the first mark behind which no more than a name is left.
func cutProcess(rest string) (path, name string, ok bool) {
	const mark = ",task="
	for from := max(0, len(rest)-maxCommText-len(mark)); ; {
		i := strings.Index(rest[from:], mark)
		if i < 0 {
			return "", "", false
		}
		at := from + i
		if name := rest[at+len(mark):]; len(unescaped(name)) <= maxComm {
			return rest[:at], name, true
		}
		from = at + 1
	}
}

// unescaped returns a text of /dev/kmsg as it was logged, to count its bytes.
func unescaped(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if i+3 < len(s) && s[i] == '\\' && s[i+1] == 'x' {
			if n, err := strconv.ParseUint(s[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
