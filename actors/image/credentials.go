package image

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// maxSources bounds the Secrets, and the service accounts, that are kept for one repository of an image. Beyond
	// that the oldest is dropped: pods that use it pull once more.
	maxSources = 100
	// keepPulled is for how long after its pull an image stays among the pulled ones, whatever is observed: the
	// observation may have begun before the pull ended. An image that is missing here would count as preloaded.
	keepPulled = time.Hour
)

// references are the image of a pull and the credentials that it may use, by name, with the pod that it carries:
// PullImage, ImagePullRequested, ImageWait and Pull.
type references interface {
	GetImage() string
	GetNamespace() string
	GetPullSecrets() []string
	GetServiceAccount() string
	GetApi() bool
	GetIfNotPresent() bool
	GetPod() *journaletv1.PodOfPull
}

// apiPrefix distinguishes, in a key, namespaces of the API server from namespaces of static pods. No namespace has a
// colon.
const apiPrefix = "api:"

// presentPrefix begins the key of a pull with if_not_present. No image's name begins with a space.
const presentPrefix = " "

// pullKey returns the key of a pull. Pods share one if they have the same credentials, if what is on the node is enough
// for all or for none of them, and if no runtime distinguishes their sandboxes (ADR 100).
func pullKey(r references) string {
	key := sandboxKey(r.GetPod()) + credentialsKey(r)
	if r.GetIfNotPresent() {
		return presentPrefix + key
	}
	return key
}

// sandboxKey is the part of a key for the pod that a pull carries: a list in JSON, which needs no separator from what
// follows. It is empty for a pull that carries none.
func sandboxKey(p *journaletv1.PodOfPull) string {
	if p == nil {
		return ""
	}
	uid := ""
	if p.GetAlone() {
		uid = p.GetUid()
	}
	return listKey(p.GetNamespace(), p.GetRuntimeClass(), uid)
}

// credentialsKey is the image where there are no credentials, and else a list in JSON, which no image's name is.
func credentialsKey(r references) string {
	image := r.GetImage()
	if len(r.GetPullSecrets()) == 0 && r.GetServiceAccount() == "" && !strings.HasPrefix(image, "[") {
		return image
	}
	namespace := r.GetNamespace()
	if r.GetApi() {
		namespace = apiPrefix + namespace
	}
	return listKey(append([]string{image, namespace, r.GetServiceAccount()}, r.GetPullSecrets()...)...)
}

func listKey(parts ...string) string {
	key, err := json.Marshal(parts)
	if err != nil {
		panic(fmt.Sprintf("image: a list of strings did not marshal: %v", err))
	}
	return string(key)
}

// RecordPull adds the outcome of a pull to the images that were pulled, by their id. A pull that failed adds nothing.
// It is exported because the driver that verifies credentials has the same view of them.
func RecordPull(pulled map[string]*journaletv1.PulledImage, f *journaletv1.CallFinished, at time.Time) {
	c := f.GetPullCredentials()
	if f.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED || c == nil || f.GetImageRef() == "" {
		return
	}
	p := pulled[f.GetImageRef()]
	if p == nil {
		p = new(journaletv1.PulledImage)
		pulled[f.GetImageRef()] = p
	}
	p.PulledAt = timestamppb.New(at)
	i := slices.IndexFunc(p.GetCredentials(), func(o *journaletv1.PullCredentials) bool {
		return o.GetRepository() == c.GetRepository()
	})
	if i < 0 {
		p.Credentials = append(p.GetCredentials(), proto.CloneOf(c))
		return
	}
	merge(p.GetCredentials()[i], c)
}

// RecordKubelet adds the images that a kubelet had pulled, by their id. It is exported as RecordPull is.
func RecordKubelet(pulled map[string]*journaletv1.PulledImage, left *journaletv1.KubeletState) {
	for _, id := range slices.Sorted(maps.Keys(left.GetImages())) {
		p := new(journaletv1.PulledImage)
		for _, pull := range left.GetImages()[id].GetPulls() {
			c := &journaletv1.PullCredentials{
				Repository: pull.GetRepository(), NodeAccessible: pull.GetNodeAccessible(),
				ServiceAccounts: slices.Clone(pull.GetServiceAccounts()),
			}
			for _, secret := range pull.GetSecrets() {
				if namespace, name, uid, ok := ParseObjectID(secret); ok {
					c.Secrets = append(c.Secrets, &journaletv1.PullSecret{Namespace: namespace, Name: name, Uid: uid})
				}
			}
			p.Credentials = append(p.Credentials, c)
		}
		pulled[id] = p
	}
}

// ObjectID returns an object of the API server as PullCredentials.service_accounts and KubeletPull have it. Neither of
// the names has a slash; uid may be empty.
func ObjectID(namespace, name, uid string) string { return namespace + "/" + name + "/" + uid }

// ParseObjectID returns what ObjectID was given; ok is false for another text.
func ParseObjectID(id string) (namespace, name, uid string, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}

// merge adds the credentials of one more pull. Once every pod may use an image, that stays so.
func merge(all, c *journaletv1.PullCredentials) {
	if all.GetNodeAccessible() || c.GetNodeAccessible() {
		all.NodeAccessible, all.Secrets, all.ServiceAccounts = true, nil, nil
		return
	}
	for _, s := range c.GetSecrets() {
		all.Secrets = slices.DeleteFunc(all.Secrets, func(o *journaletv1.PullSecret) bool { return SameSecret(o, s) })
		all.Secrets = append(all.Secrets, proto.CloneOf(s))
	}
	for _, account := range c.GetServiceAccounts() {
		all.ServiceAccounts = slices.DeleteFunc(all.ServiceAccounts, func(o string) bool { return o == account })
		all.ServiceAccounts = append(all.ServiceAccounts, account)
	}
	all.Secrets = all.Secrets[max(0, len(all.Secrets)-maxSources):]
	all.ServiceAccounts = all.ServiceAccounts[max(0, len(all.ServiceAccounts)-maxSources):]
}

// SameSecret reports whether two are one Secret, whatever it holds.
func SameSecret(a, b *journaletv1.PullSecret) bool {
	return a.GetNamespace() == b.GetNamespace() && a.GetName() == b.GetName() && a.GetUid() == b.GetUid()
}

// ForgetImages removes from the pulled images those gone from the node.
func ForgetImages(pulled map[string]*journaletv1.PulledImage, o *journaletv1.ImagesObserved, at time.Time) {
	gone := func(id string) bool {
		return slices.Contains(o.GetRemoved(), id) ||
			o.GetComplete() && !slices.ContainsFunc(o.GetPresent(), func(i *journaletv1.ImageObservation) bool {
				return i.GetId() == id
			})
	}
	if len(o.GetRemoved()) == 0 && !o.GetComplete() {
		return
	}
	maps.DeleteFunc(pulled, func(id string, p *journaletv1.PulledImage) bool {
		return gone(id) && at.Sub(p.GetPulledAt().AsTime()) >= keepPulled
	})
}
