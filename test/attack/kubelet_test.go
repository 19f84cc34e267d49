//go:build attack

package attack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/test/must"
)

// The agent starts for the first time where a kubelet was, with state files that are none.
func TestStateFilesOfAKubelet(t *testing.T) {
	const mi = 1 << 20
	for name, plant := range map[string]func(cpus, memory, devices string) error{
		"no-files": func(cpus, memory, devices string) error {
			return errors.Join(unix.Mkfifo(cpus, 0o600), os.Symlink("/dev/zero", memory),
				os.WriteFile(devices, nil, 0o600), os.Truncate(devices, 1<<40))
		},
		"huge": func(cpus, memory, devices string) error {
			deep, wide := `{"data":`+strings.Repeat("[", 4*mi-100), `{"Data":{"PodDeviceEntries":[`+strings.Repeat("{},", mi)
			return errors.Join(os.WriteFile(cpus, []byte(deep), 0o600),
				os.WriteFile(memory, []byte(`{"policyName":"`+strings.Repeat("x", 5*mi)), 0o600),
				os.WriteFile(devices, []byte(wide+`{}]},"Checksum":1}`), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			attack{
				prepare: func(g *target) {
					at := func(name string) string { return filepath.Join(g.Root, name) }
					must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(at(kubeletstate.DeviceFile)), 0o700), os.Chmod(g.Root, 0o700),
						plant(at(kubeletstate.CPUFile), at(kubeletstate.MemoryFile), at(kubeletstate.DeviceFile))))
				},
				check: func(g *target) {
					for _, file := range []string{kubeletstate.CPUFile, kubeletstate.MemoryFile, kubeletstate.DeviceFile} {
						if len(g.linesWith("the kubelet's state file "+filepath.Join(g.Root, file))) == 0 {
							g.Errorf("the log does not name %s", file)
						}
					}
					if peak := peakOf(t, g.Process.Cmd.Process.Pid); peak > maxMemory {
						g.Errorf("the start took %d MiB", peak>>20)
					}
				},
			}.run(t)
		})
	}
}

// peakOf returns the peak of a process's resident memory, in bytes.
func peakOf(t *testing.T, pid int) (bytes int) {
	t.Helper()
	status, err := bounded.ReadFile(fmt.Sprintf("/proc/%d/status", pid), 64<<10)
	must.OK(t, err)
	_, text, _ := strings.Cut(string(status), "VmHWM:")
	if n, err := fmt.Sscanf(text, "%d", &bytes); n != 1 {
		t.Fatalf("%v in %q", err, status)
	}
	return bytes << 10
}
