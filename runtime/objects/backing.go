package objects

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// The kinds and states of objects, short.
const (
	configMap   = journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP
	secret      = journaletv1.ObjectKind_OBJECT_KIND_SECRET
	token       = journaletv1.ObjectKind_OBJECT_KIND_SERVICE_ACCOUNT_TOKEN
	trustBundle = journaletv1.ObjectKind_OBJECT_KIND_CLUSTER_TRUST_BUNDLE
	certificate = journaletv1.ObjectKind_OBJECT_KIND_POD_CERTIFICATE

	present    = journaletv1.ObjectState_OBJECT_STATE_PRESENT
	missing    = journaletv1.ObjectState_OBJECT_STATE_MISSING
	unreadable = journaletv1.ObjectState_OBJECT_STATE_UNREADABLE
)

// Key names an object.
type Key struct {
	Kind journaletv1.ObjectKind
	// Namespace is empty for trust bundles.
	Namespace string
	Name      string
	// Selector is the selector of journaletv1.ObjectRef.
	Selector string
	// API means that the object is one of the API server, and otherwise of this node.
	API bool
	// Pod is whom a token or a certificate of the API server is for; empty for all else.
	Pod PodID
	// UID makes it one immutable object, whatever else has its name later. Empty: whichever object has the name.
	UID string `json:",omitempty"` // the key of a copy on disk is JSON (package kept)
}

// named returns the key of whichever object has the name.
func (k Key) named() Key {
	k.UID = ""
	return k
}

// PodID is the name and the UID of a pod of the API server.
type PodID struct{ Name, UID string }

// Owner is the pod, or the pods, that an object is read for.
type Owner struct {
	Namespace string
	// UID is the pod's. Empty: no certain pod; API says where its objects are then.
	UID string
	// API means that its objects come from the API server.
	API bool
}

// OwnerOf returns the owner that a pod is.
func OwnerOf(pod *corev1.Pod) Owner {
	return Owner{Namespace: pod.Namespace, UID: string(pod.UID), API: pod.UID != ""}
}

// keyOf returns the key of a reference of a pod.
func (p *pod) keyOf(r *journaletv1.ObjectRef) Key {
	k := Key{Kind: r.GetKind(), Namespace: p.namespace, Name: r.GetName(), Selector: r.GetSelector(), API: p.api}
	switch {
	case k.Kind == trustBundle:
		k.Namespace = ""
	case (k.Kind == token || k.Kind == certificate) && p.api:
		k.Pod = PodID{Name: p.name, UID: p.uid}
	}
	return k
}

// Object is what a backing has read of an object. Contents are set at most once, and not changed after: ConfigMap,
// Secret, Certificate, or Data of a token or of trust bundles.
type Object struct {
	State journaletv1.ObjectState
	// UID is metadata.uid at the API server; empty for an object of a file, which is known by its digest.
	UID string
	// Version is metadata.resourceVersion at the API server.
	Version string
	// Immutable means that the object never changes. Another one may have its name later.
	Immutable bool
	// Requested is when the backing requested it, on the clock of this process: it had its name then, or has got it since.
	// Zero: it is a copy.
	Requested time.Time
	// File is the path of the file that has it, empty for an object of several files and for an object of the API server.
	File string
	// Message is why it is unreadable, or what to do if it is missing, without contents.
	Message string

	ConfigMap *corev1.ConfigMap
	Secret    *corev1.Secret
	Data      []byte
	// Certificate is in memory and in files of its pod, and nowhere else.
	Certificate *Certificate

	// Away means that the API server does not answer, and that there are no contents from before. Nothing is reported of
	// such an object: what the journal has of it stays.
	Away bool
}

// lasts reports whether the object stays as it is for as long as it exists.
func (o *Object) lasts() bool { return o.Immutable && o.State == present }

// hasContents reports whether there is something to give to a pod. An unreadable object keeps the contents that were
// read before.
func (o *Object) hasContents() bool {
	return o.ConfigMap != nil || o.Secret != nil || o.Data != nil || o.Certificate != nil
}

// Backing is where objects come from: files, or an API server. A backing may follow single objects (a watch by field
// selector) or read all and report some of them.
type Backing interface {
	// Watch begins to follow an object, and Unwatch ends it. They are called in turn for one key, never wait, and may be
	// called before Run. What is read of an object was requested after its Watch. A key with a UID is of that object only:
	// if another one has the name, it is missing, unless the backing has a copy. file is Object.File of the object that
	// pods have: while that file has an object of this name, it counts, and no other file's. Empty: no pod has any.
	Watch(k Key, file string)
	// WatchLater is Watch for an object that a pod was given before the agent started: it may be read after everything
	// that something waits for. Something does once Watch follows for the same key. Before Run it may be called again,
	// with another file.
	WatchLater(k Key, file string)
	Unwatch(Key)
	// Run follows the objects until ctx ends. It passes what it has read of watched objects: each once it is known,
	// also if it does not exist, and again after each change. A temporary failure (an authorizer that does not know yet
	// that a pod is bound) is retried, not reported. Objects that are read together are reported together. read may be
	// called concurrently, but not for one key.
	Run(ctx context.Context, read func(map[Key]Object)) error
}

// notFound is ErrNotFound in the words of a backing.
type notFound struct{ text string }

func (e *notFound) Error() string { return e.text }

func (e *notFound) Is(target error) bool { return target == ErrNotFound }

// Missing returns the kubelet's words for an object that does not exist.
func (k Key) Missing() string {
	switch k.Kind {
	case configMap:
		return fmt.Sprintf("configmap %q not found", k.Name)
	case secret:
		return fmt.Sprintf("secret %q not found", k.Name)
	case token:
		return fmt.Sprintf("no token of service account %s/%s", k.Namespace, k.Name)
	case trustBundle:
		if k.Name == "" {
			return "combination of signerName and labelSelector matched zero ClusterTrustBundles"
		}
		return fmt.Sprintf("while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io %q not found", k.Name)
	case certificate:
		return fmt.Sprintf("no certificate for volume %q", k.Name)
	}
	return "object not found"
}
