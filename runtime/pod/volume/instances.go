package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/own"
)

// logExt is the extension of the log of one attempt, <attempt>.log. A rotated one has more behind it.
const logExt = ".log"

// RemoveInstances removes what instances of a container have left on the disk: termination messages, logs with those
// rotated from them, and the links to them. gone reports whether an attempt's instance is gone for good; it is called
// for attempts that have left something only. Links go first: a removal that is interrupted and repeated finds the
// attempts by their files.
func (d *Driver) RemoveInstances(
	namespace, name, uid, container string, gone func(attempt uint32) (bool, error),
) error {
	pod := own.PodLogs(namespace, name, uid)
	if err := checkNames(pod, uid, container); err != nil {
		return err
	}
	files := instanceFiles{gone: gone, known: map[uint32]bool{}}
	messages, err := d.openPod(uid, false)
	if err == nil {
		defer messages.Close()
		err = files.add(messages, filepath.Join(containersDir, container))
	}
	if err != nil && !errors.Is(err, errNoPod) {
		return err
	}
	logs, err := os.OpenRoot(d.opts.PodLogDir)
	if err == nil {
		defer logs.Close()
		err = files.add(logs, filepath.Join(pod, container))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(files.found) == 0 {
		return err
	}
	targets := map[string]bool{}
	for _, f := range files.found {
		targets[filepath.Join(d.opts.PodLogDir, pod, container, fmt.Sprint(f.attempt)+logExt)] = true
	}
	err = d.removeLinksTo(name+"_"+namespace+"_"+container+"-", func(target string) bool { return targets[target] })
	if err != nil {
		return err
	}
	return files.remove()
}

// instanceFiles are the files of a container's instances that are gone.
type instanceFiles struct {
	// gone reports whether an attempt's instance is gone; known are its answers.
	gone  func(attempt uint32) (bool, error)
	known map[uint32]bool
	found []instanceFile
}

type instanceFile struct {
	root    *os.Root
	path    string
	attempt uint32
}

// add finds the files in a directory whose instance is gone. root stays open until they are removed.
func (i *instanceFiles) add(root *os.Root, dir string) error {
	for e, err := range bounded.EntriesIn(root, dir) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the files of a container's instances: %w", err)
		}
		attempt, ok := attemptOf(e.Name())
		if !ok || e.IsDir() {
			continue
		}
		gone, ok := i.known[attempt]
		if !ok {
			if gone, err = i.gone(attempt); err != nil {
				return err
			}
			i.known[attempt] = gone
		}
		if gone {
			i.found = append(i.found, instanceFile{root, filepath.Join(dir, e.Name()), attempt})
		}
	}
	return nil
}

func (i *instanceFiles) remove() error {
	for _, f := range i.found {
		err := f.root.Remove(f.path)
		if errors.Is(err, unix.EBUSY) {
			continue // in a volume that propagates its mounts, the next instance has a mount on it: it goes with the pod
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a file of a container's instance: %w", err)
		}
	}
	return nil
}

// attemptOf returns the attempt whose file has this name: <attempt> of a termination message, or <attempt>.log, with
// more behind it in a rotated log.
func attemptOf(name string) (attempt uint32, ok bool) {
	number, rest, _ := strings.Cut(name, logExt)
	n, err := strconv.ParseUint(number, 10, 32)
	return uint32(n), err == nil && (rest == "" || rest[0] == '.')
}

// maxLinkBytes is the length of the longest name of a link without its extension: 255 bytes are the longest file name.
const maxLinkBytes = 255 - len(logExt)

// removeLinksTo removes the links in the container log directory whose name begins with prefix, as far as a name can be
// so long, and whose target matches.
func (d *Driver) removeLinksTo(prefix string, match func(target string) bool) error {
	prefix = prefix[:min(len(prefix), maxLinkBytes)]
	for e, err := range bounded.Entries(d.opts.ContainerLogDir) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the directory of container log links: %w", err)
		}
		if e.Type()&fs.ModeSymlink == 0 || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		link := filepath.Join(d.opts.ContainerLogDir, e.Name())
		if to, err := os.Readlink(link); err != nil || !match(to) {
			continue
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a container log link: %w", err)
		}
	}
	return nil
}
