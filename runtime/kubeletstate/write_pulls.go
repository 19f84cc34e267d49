package kubeletstate

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/journalet/journalet/actors/image"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/durable"
)

// The directories of a kubelet's records of image pulls, below the root directory (KEP-2535), with one file an image.
// PulledDir has the images that were pulled, and who may use them: an image without a record counts as preloaded, which
// by default every pod may use. PullingDir has the images whose pull has begun: a kubelet that starts and finds such an
// image on the node lets no pod use it without credentials.
const (
	PulledDir  = "image_manager/pulled"
	PullingDir = "image_manager/pulling"
)

// pulls returns the content of the files of image pulls, by path below the root directory.
func (g *Given) pulls() (map[string][]byte, error) {
	files := map[string][]byte{}
	add := func(dir, image string, record any) error {
		data, err := json.Marshal(record)
		files[filepath.Join(dir, recordName(image))] = data
		return err
	}
	var errs error
	for id, p := range g.Pulled {
		errs = errors.Join(errs, add(PulledDir, id, pulledRecord(id, p)))
	}
	for _, name := range g.Pulling {
		errs = errors.Join(errs, add(PullingDir, name, kubeletconfig.ImagePullIntent{
			TypeMeta: recordType("ImagePullIntent"), Image: name,
		}))
	}
	return files, errs
}

// recordPrefix begins the name of each such file.
const recordPrefix = "sha256-"

// recordName returns the name of the file of an image.
func recordName(image string) string {
	return fmt.Sprintf("%s%x", recordPrefix, sha256.Sum256([]byte(image)))
}

func recordType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: kubeletconfig.SchemeGroupVersion.String()}
}

// pulledRecord returns a kubelet's record of an image. The digest of a credential is ours, with a key, so the record
// has the Secret alone: a pod with that Secret may use the image, and one with the same credential in another Secret
// pulls once more.
func pulledRecord(id string, p *journaletv1.PulledImage) kubeletconfig.ImagePulledRecord {
	out := kubeletconfig.ImagePulledRecord{
		TypeMeta: recordType("ImagePulledRecord"), LastUpdatedTime: metav1.NewTime(p.GetPulledAt().AsTime()), ImageRef: id,
		CredentialMapping: map[string]kubeletconfig.ImagePullCredentials{},
	}
	for _, c := range p.GetCredentials() {
		has := kubeletconfig.ImagePullCredentials{NodePodsAccessible: c.GetNodeAccessible()}
		if !has.NodePodsAccessible { // which a kubelet has alone
			for _, s := range c.GetSecrets() {
				has.KubernetesSecrets = append(has.KubernetesSecrets,
					kubeletconfig.ImagePullSecret{UID: s.GetUid(), Namespace: s.GetNamespace(), Name: s.GetName()})
			}
			for _, account := range c.GetServiceAccounts() {
				if namespace, name, uid, ok := image.ParseObjectID(account); ok {
					has.KubernetesServiceAccounts = append(has.KubernetesServiceAccounts,
						kubeletconfig.ImagePullServiceAccount{Namespace: namespace, Name: name, UID: uid})
				}
			}
		}
		out.CredentialMapping[c.GetRepository()] = has
	}
	return out
}

// writePulls writes the files of image pulls. The kubelet's records of other images stay.
func writePulls(root *os.Root, files map[string][]byte) error {
	for _, dir := range []string{filepath.Dir(PulledDir), PulledDir, PullingDir} {
		if err := root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	for name, data := range files {
		if err := durable.WriteIn(root, name, data); err != nil {
			return err
		}
	}
	return nil
}
