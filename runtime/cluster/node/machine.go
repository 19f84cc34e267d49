package node

import (
	"path/filepath"
	"strings"

	"github.com/moby/sys/userns"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
)

// maxMachineFile bounds a file that describes the machine.
const maxMachineFile = 64 << 10

// ReadMachine reads what identifies the machine with its file system at root. What is not found is empty.
func ReadMachine(root string) Machine {
	line := func(names ...string) string {
		for _, name := range names {
			data, err := bounded.ReadFile(filepath.Join(root, name), maxMachineFile)
			if text := strings.TrimSpace(string(data)); err == nil && text != "" {
				return text
			}
		}
		return ""
	}
	m := Machine{
		MachineID:  line("etc/machine-id", "var/lib/dbus/machine-id"),
		SystemUUID: line("sys/class/dmi/id/product_uuid", "proc/device-tree/system-id", "etc/machine-id"),
		BootID:     line("proc/sys/kernel/random/boot_id"),
		OSImage:    osImage(line("etc/os-release", "usr/lib/os-release")),

		InUserNamespace: userns.RunningInUserNS(),
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.KernelVersion = unix.ByteSliceToString(name.Release[:])
	}
	return m
}

// osImage returns PRETTY_NAME of os-release.
func osImage(release string) string {
	for _, line := range strings.Split(release, "\n") {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); found {
			return strings.Trim(value, `"'`)
		}
	}
	return "Unknown"
}
