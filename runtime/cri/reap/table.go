package reap

// Process is a process as the kernel reports it.
type Process struct {
	PID, Parent int
	// Session is the process whose setsid this one or an ancestor has called. The kernel reuses no number that is one.
	Session int
	// Start is when it started, in clock ticks (10 ms) since the machine booted. With PID it is one process for ever.
	Start uint64
	// Dead means that it has ended and waits for its parent.
	Dead bool
}

// same reports whether both are one process.
func (p Process) same(q Process) bool { return p.PID == q.PID && p.Start == q.Start }

// Table is the processes and cgroups of a machine. A directory is a cgroup's in the hierarchy that the table uses. Its
// methods may be called concurrently.
type Table interface {
	// Now is the present in clock ticks since the machine booted.
	Now() uint64
	// Process fails for a process that does not exist.
	Process(pid int) (Process, error)
	// Namespace names the PID namespace of a process.
	Namespace(pid int) (string, error)
	// Command returns the beginning of a process's arguments.
	Command(pid int) ([]string, error)
	// Group returns the directory of a process's cgroup. It fails for the topmost one.
	Group(pid int) (string, error)
	// Members returns the processes of a cgroup, and of those below it on request.
	Members(dir string, below bool) ([]int, error)
	// Stop and Kill send SIGSTOP and SIGKILL to this process, never to another with its number.
	Stop(Process) error
	Kill(Process) error
	// Create creates a cgroup, Enter moves a process into one, KillGroup kills all in one and below, Remove removes an
	// empty one.
	Create(dir string) error
	Enter(dir string, pid int) error
	KillGroup(dir string) error
	Remove(dir string) error
	// Groups returns all cgroups whose own name begins with a prefix.
	Groups(prefix string) []string
}
