package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
)

// usernsFile in a pod's directory holds the ids of its user namespace, in the kubelet's format.
const (
	usernsFile    = "userns"
	newUsernsFile = usernsFile + durable.PartSuffix
)

// maxUsernsBytes bounds what is read of it: it has two mappings.
const maxUsernsBytes = 4 << 10

type idMapping struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

type idMappings struct {
	UIDs []idMapping `json:"uidMappings"`
	GIDs []idMapping `json:"gidMappings"`
}

// WriteUserNamespace writes the ids of the pod's user namespace into its directory, where they outlive the journal, and
// syncs them to disk. An equal file stays.
func (d *Driver) WriteUserNamespace(uid string, ids *journaletv1.UserNamespace) error {
	root, err := d.openPod(uid, true)
	if err != nil {
		return err
	}
	defer root.Close()
	if old, err := readUserNamespace(root, usernsFile); err == nil &&
		old.GetHostId() == ids.GetHostId() && old.GetLength() == ids.GetLength() {
		return nil
	}
	all := []idMapping{{HostID: ids.GetHostId(), Length: ids.GetLength()}}
	content, err := json.Marshal(idMappings{UIDs: all, GIDs: all})
	if err != nil {
		return fmt.Errorf("encode the pod's ids: %w", err)
	}
	if err := durable.WriteIn(root, usernsFile, content); err != nil {
		return fmt.Errorf("write the ids of the pod's user namespace: %w", err)
	}
	return nil
}

// FindUserNamespaces returns the ids of the pods whose directories are below a root directory, by UID, and which files
// it could not read: the ids in these may be given to another pod.
func FindUserNamespaces(rootDir string) (map[string]*journaletv1.UserNamespace, error) {
	found := map[string]*journaletv1.UserNamespace{}
	failed := eachFile(rootDir, usernsFile, func(pods *os.Root, name string) error {
		ids, err := readUserNamespace(pods, name)
		if err == nil {
			found[filepath.Dir(name)] = ids
		}
		return err
	})
	return found, failed.err()
}

func readUserNamespace(root *os.Root, name string) (*journaletv1.UserNamespace, error) {
	data, err := bounded.ReadFileIn(root, name, maxUsernsBytes)
	if err != nil {
		return nil, err
	}
	var m idMappings
	if err := bounded.JSON(data, maxUsernsBytes, &m); err != nil {
		return nil, err
	}
	if len(m.UIDs) != 1 || len(m.GIDs) != 1 || m.UIDs[0] != m.GIDs[0] || m.UIDs[0].ContainerID != 0 ||
		m.UIDs[0].Length == 0 {
		return nil, errors.New("wants one mapping, equal for users and groups, that begins at the pod's id 0")
	}
	return &journaletv1.UserNamespace{HostId: m.UIDs[0].HostID, Length: m.UIDs[0].Length}, nil
}
