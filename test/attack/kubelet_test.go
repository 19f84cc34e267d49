//go:build attack

package attack

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/test/must"
)

// The agent starts for the first time where a kubelet was, and the kubelet's state files are invalid.
func TestStateFilesOfAKubelet(t *testing.T) {
	const mi = 1 << 20
	record := filepath.Join(kubeletstate.PulledDir, "sha256-0")
	plants := map[string]func(cpus, memory, devices, allocated, pulled string) error{
		"no-files": func(cpus, memory, devices, _, pulled string) error {
			return errors.Join(unix.Mkfifo(cpus, 0o600), os.Symlink("/dev/zero", memory),
				os.WriteFile(devices, nil, 0o600), os.Truncate(devices, 1<<40), unix.Mkfifo(pulled, 0o600))
		},
		"huge": func(cpus, memory, devices, allocated, pulled string) error {
			deep, wide := `{"data":`+strings.Repeat("[", 4*mi-100), `{"Data":{"PodDeviceEntries":[`+strings.Repeat("{},", mi)
			return errors.Join(os.WriteFile(cpus, []byte(deep), 0o600),
				os.WriteFile(memory, []byte(`{"policyName":"`+strings.Repeat("x", 5*mi)), 0o600),
				os.WriteFile(devices, []byte(wide+`{}]},"Checksum":1}`), 0o600),
				os.WriteFile(allocated, []byte(deep), 0o600), manyRecords(filepath.Dir(pulled)),
				os.WriteFile(pulled, []byte(deep), 0o600))
		},
	}
	for _, name := range slices.Sorted(maps.Keys(plants)) {
		plant := plants[name]
		t.Run(name, func(t *testing.T) {
			attack{
				cluster: true,
				prepare: func(g *target) {
					at := func(name string) string { return filepath.Join(g.Root, name) }
					must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(at(kubeletstate.DeviceFile)), 0o700), os.Chmod(g.Root, 0o700),
						os.MkdirAll(at(kubeletstate.PulledDir), 0o700),
						plant(at(kubeletstate.CPUFile), at(kubeletstate.MemoryFile), at(kubeletstate.DeviceFile),
							at(kubeletstate.AllocatedFile), at(record))))
				},
				check: func(g *target) {
					runsPodsOfTheAPI(g)
					files := []string{kubeletstate.CPUFile, kubeletstate.MemoryFile, kubeletstate.DeviceFile}
					if kubeletstate.In(g.Root) {
						files = append(files, kubeletstate.AllocatedFile) // read with the first pod
					}
					for _, file := range files {
						if len(g.linesWith("the kubelet's state file "+filepath.Join(g.Root, file))) == 0 {
							g.Errorf("the log does not name %s", file)
						}
					}
					if len(g.linesWith("the kubelet's record "+filepath.Join(g.Root, kubeletstate.PulledDir))) == 0 {
						g.Errorf("the log names no record of an image pull")
					}
					if most := peak(g.Process); most == 0 || most > maxMemory {
						g.Errorf("the start took %d MiB", most>>20)
					}
				},
			}.run(t)
		})
	}
}

// manyRecords writes more records of image pulls than are read, each as large as can be.
func manyRecords(dir string) (errs error) {
	long := `{"kind":"ImagePulledRecord","credentialMapping":{` + strings.Repeat(" ", 60<<10) + `}}`
	for i := range 2000 {
		errs = errors.Join(errs, os.WriteFile(filepath.Join(dir, fmt.Sprint("sha256-many-", i)), []byte(long), 0o600))
	}
	return errs
}

// The journal is lost, and the directories of pods have too many, and invalid, records of exclusive resources.
func TestFilesOfWhatPodsHaveAlone(t *testing.T) {
	const pods = 1000
	attack{
		prepare: func(g *target) {
			all := filepath.Join(g.Root, "pods")
			must.OK(t, errors.Join(os.MkdirAll(all, 0o700), os.Chmod(g.Root, 0o700)))
			long := `{"devices":[{"container":"main","ids":["` + strings.Repeat("x", 100<<10) + `"]}]}`
			write := func(text string) func(string) error {
				return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
			}
			plant := map[string]func(path string) error{
				"fifo": func(path string) error { return unix.Mkfifo(path, 0o600) },
				"link": func(path string) error { return os.Symlink("/dev/zero", path) },
				"huge": func(path string) error { return errors.Join(write("")(path), os.Truncate(path, 1<<40)) },
				"deep": write(strings.Repeat(`{"exclusive":[`, 8<<10)),
			}
			for i := range pods {
				plant[fmt.Sprint("many-", i)] = write(long)
			}
			for uid, file := range plant {
				must.OK(t, errors.Join(os.Mkdir(filepath.Join(all, uid), 0o700), file(filepath.Join(all, uid, "resources"))))
			}
		},
		check: func(g *target) {
			if len(g.linesWith("cannot read the exclusive resources of some pods")) == 0 {
				g.Errorf("the log does not say that files could not be read")
			}
			if most := peak(g.Process); most == 0 || most > maxMemory {
				g.Errorf("the start took %d MiB", most>>20)
			}
		},
	}.run(t)
}
