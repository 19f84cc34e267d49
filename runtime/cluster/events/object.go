package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/messages/plain"
)

const (
	// AnnotationRecord is the record that an event follows from, as epoch.record.index.
	AnnotationRecord = "journalet.io/record"
	// component is the source of all events, as the kubelet's.
	component = "kubelet"
	// maxMessage is the API server's bound on an event's message, in bytes.
	maxMessage = 1024
	// maxName bounds the part of an event's name that is the object's, in bytes.
	maxName = 220
)

// object returns the event of a draft. Its name is a function of the record: the same draft has the same name in every
// run, and another journal gives another. Names are in the order of the events, since readers sort by seconds.
func (e draft) object(node string, uid types.UID, d *deriver) *corev1.Event {
	about := corev1.ObjectReference{
		Kind: "Node", Name: node, UID: uid, APIVersion: "v1",
	}
	namespace := metav1.NamespaceDefault
	if e.pod != nil {
		namespace = e.pod.GetNamespace()
		about = corev1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: namespace, Name: e.pod.GetName(), UID: types.UID(e.pod.GetUid()),
			FieldPath: d.fieldPath(e.pod.GetUid(), e.container),
		}
	}
	at := metav1.NewTime(e.at)
	hash := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", node, e.record, e.pod.GetUid()))
	suffix := fmt.Sprintf("%016x%02x%s", e.at.UnixNano(), e.index, hex.EncodeToString(hash[:2]))
	name := about.Name[:min(len(about.Name), maxName)]
	out := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name + "." + suffix},
		InvolvedObject: about, Reason: e.reason,
		Message:        plain.Cut(e.message, maxMessage),
		Source:         corev1.EventSource{Component: component, Host: node},
		FirstTimestamp: at, LastTimestamp: at, Count: 1, Type: e.kind,
		ReportingController: component, ReportingInstance: node,
	}
	if e.record.Seq != 0 {
		out.Annotations = map[string]string{AnnotationRecord: e.record.String()}
	}
	return out
}

// fieldPath returns the path of a container in its pod.
func (d *deriver) fieldPath(uid, container string) string {
	if container == "" {
		return ""
	}
	p := d.podOf(uid)
	for _, c := range p.Spec.InitContainers {
		if c.Name == container {
			return "spec.initContainers{" + container + "}"
		}
	}
	if containers.Ephemeral(p, container) != nil {
		return "spec.ephemeralContainers{" + container + "}"
	}
	return "spec.containers{" + container + "}"
}
