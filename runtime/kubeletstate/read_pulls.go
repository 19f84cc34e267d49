package kubeletstate

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/journalet/journalet/actors/image"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
)

// Bounds of a kubelet's records of image pulls, which has none for its files.
const (
	// maxRecords bounds the files that are read: as many as images are managed (runtime/image).
	maxRecords = 1000
	// maxRecordBytes bounds one of them, with the hundred Secrets that a kubelet keeps for each of a few repositories.
	maxRecordBytes = 64 << 10
	// maxImageBytes bounds what is recorded of who may use the images. Images beyond it are recorded as pulled with
	// unknown credentials: who wants one pulls it once more.
	maxImageBytes = 128 << 10
	// maxIDBytes bounds the runtime's id of an image: a digest has 71. maxRepositoryBytes bounds the name of a repository
	// (runtime/image).
	maxIDBytes, maxRepositoryBytes = 128, 512
)

// images reads which images the kubelet had pulled, and who may use them. An image whose record cannot be read counts
// as preloaded: its file does not name it.
func (s *state) images(dir string) {
	s.out.Images = map[string]*journaletv1.KubeletImage{}
	read := 0
	for entry, err := range bounded.EntriesIn(s.root, PulledDir) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.problem("the kubelet's records in %s: %v; images of which none is read count as preloaded",
				filepath.Join(dir, PulledDir), reason(err))
		}
		if err != nil || !strings.HasPrefix(entry.Name(), recordPrefix) || strings.HasSuffix(entry.Name(), ".tmp") {
			continue
		}
		if read++; read > maxRecords {
			s.problem("there are more than %d records in %s; images of the others count as preloaded", maxRecords,
				filepath.Join(dir, PulledDir))
			break
		}
		name := filepath.Join(PulledDir, entry.Name())
		if err := s.image(name); err != nil {
			s.problem("the kubelet's record %s: %v; its image counts as preloaded", filepath.Join(dir, name), reason(err))
		}
	}
	size := 0
	for _, id := range slices.Sorted(maps.Keys(s.out.Images)) {
		if size += proto.Size(s.out.Images[id]); size > maxImageBytes {
			s.out.Images[id] = new(journaletv1.KubeletImage)
		}
	}
}

// image reads the record of one image.
func (s *state) image(name string) error {
	data, err := bounded.ReadFileIn(s.root, name, maxRecordBytes)
	if err != nil {
		return err
	}
	var record kubeletconfig.ImagePulledRecord
	if err := decode(data, &record); err != nil {
		return err
	}
	switch id := record.ImageRef; {
	case record.Kind != "ImagePulledRecord" || recordName(id) != filepath.Base(name):
		return errors.New("it is damaged: it is of no image, or of another one") // a kubelet leaves it out, too
	case id == "" || len(id) > maxIDBytes:
		return fmt.Errorf("an image whose id has %d bytes: want 1 to %d", len(id), maxIDBytes)
	}
	out := new(journaletv1.KubeletImage)
	for _, repository := range slices.Sorted(maps.Keys(record.CredentialMapping)) {
		if len(repository) > maxRepositoryBytes {
			continue // no pod can name it
		}
		has := record.CredentialMapping[repository]
		pull := &journaletv1.KubeletPull{Repository: repository, NodeAccessible: has.NodePodsAccessible}
		for _, secret := range has.KubernetesSecrets {
			pull.Secrets = append(pull.Secrets, image.ObjectID(secret.Namespace, secret.Name, secret.UID))
		}
		for _, account := range has.KubernetesServiceAccounts {
			pull.ServiceAccounts = append(pull.ServiceAccounts, image.ObjectID(account.Namespace, account.Name, account.UID))
		}
		out.Pulls = append(out.Pulls, pull)
	}
	s.out.Images[record.ImageRef] = out
	return nil
}
