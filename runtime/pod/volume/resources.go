package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
	"github.com/journalet/journalet/runtime/own"
)

// resourcesFile in a pod's directory holds the exclusive resources of its containers: a GivenResources, in protobuf's
// JSON.
const (
	resourcesFile    = "resources"
	newResourcesFile = resourcesFile + durable.PartSuffix
)

const (
	// maxResourcesBytes bounds the file of a pod: 80 containers, or some thousand devices.
	maxResourcesBytes = 128 << 10
	// maxFoundBytes bounds what is recorded of all pods, with the agent's configuration in one record of 1 MiB.
	maxFoundBytes = 256 << 10
)

// WriteResources writes the exclusive resources of the pod's containers into its directory, with the next number, and
// syncs them to disk; nil removes what another incarnation had.
func (d *Driver) WriteResources(uid string, given *journaletv1.GivenResources) error {
	root, err := d.openPod(uid, given != nil)
	if err != nil {
		return err
	}
	defer root.Close()
	if given == nil {
		if err := root.Remove(resourcesFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the pod's exclusive resources: %w", err)
		}
		return nil
	}
	given = proto.CloneOf(given)
	given.Number = d.given.Add(1)
	content, err := protojson.Marshal(given)
	if err != nil {
		return fmt.Errorf("encode the pod's exclusive resources: %w", err)
	}
	if len(content) > maxResourcesBytes {
		return fmt.Errorf("the pod's exclusive resources take %d bytes, and at most %d are kept: use fewer devices",
			len(content), maxResourcesBytes)
	}
	if err := durable.WriteIn(root, resourcesFile, content); err != nil {
		return fmt.Errorf("write the pod's exclusive resources: %w", err)
	}
	return nil
}

// FindResources returns, by UID, the exclusive resources of pods whose directories are on the node and which known does
// not name. Its error has the files that could not be read, or that are the largest where all together are beyond the
// bound: what is in these may be given to another pod. It is called once, before anything is written.
func (d *Driver) FindResources(known func(uid string) bool) (map[string]*journaletv1.GivenResources, error) {
	found := &foundResources{kept: map[string]*journaletv1.GivenResources{}, sizes: map[string]int{}}
	var dropped []string
	failed := eachFile(d.opts.RootDir, resourcesFile, func(pods *os.Root, name string) error {
		given, err := readResources(pods, name)
		if err != nil {
			return err
		}
		d.given.Store(max(d.given.Load(), given.GetNumber()))
		if uid := filepath.Dir(name); !known(uid) {
			dropped = append(dropped, found.add(uid, given)...)
		}
		return nil
	})
	for _, uid := range dropped {
		failed.add(filepath.Join(d.opts.RootDir, own.Pods, uid, resourcesFile),
			fmt.Errorf("all pods together have more than %d bytes, and this one has the most", maxFoundBytes))
	}
	return found.kept, failed.err()
}

// foundResources are the resources of pods by UID, within maxFoundBytes. Beyond it the largest goes, again and again: a
// pod that has much never keeps out one that has little.
type foundResources struct {
	kept  map[string]*journaletv1.GivenResources
	sizes map[string]int // bytes
	bytes int
}

// add adds what a pod has, and returns the UIDs of the pods that are dropped for it, maybe its own.
func (f *foundResources) add(uid string, given *journaletv1.GivenResources) (dropped []string) {
	f.kept[uid], f.sizes[uid] = given, len(uid)+proto.Size(given)
	for f.bytes += f.sizes[uid]; f.bytes > maxFoundBytes; {
		largest := uid
		for other, size := range f.sizes {
			if size > f.sizes[largest] || size == f.sizes[largest] && other > largest {
				largest = other
			}
		}
		f.bytes -= f.sizes[largest]
		delete(f.kept, largest)
		delete(f.sizes, largest)
		dropped = append(dropped, largest)
	}
	return dropped
}

func readResources(root *os.Root, name string) (*journaletv1.GivenResources, error) {
	data, err := bounded.ReadFileIn(root, name, maxResourcesBytes)
	if err != nil {
		return nil, err
	}
	given := &journaletv1.GivenResources{}
	// A later version may have written more.
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: 8}).Unmarshal(data, given); err != nil {
		return nil, fmt.Errorf("it is damaged: %w", err)
	}
	return given, nil
}
