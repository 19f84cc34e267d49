package describe

import (
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
)

// object names an object as people do: configmap web-config.
func object(r *journaletv1.ObjectRef) string {
	kind := map[journaletv1.ObjectKind]string{
		journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP:            "configmap",
		journaletv1.ObjectKind_OBJECT_KIND_SECRET:                "secret",
		journaletv1.ObjectKind_OBJECT_KIND_SERVICE_ACCOUNT_TOKEN: "token of service account",
		journaletv1.ObjectKind_OBJECT_KIND_CLUSTER_TRUST_BUNDLE:  "cluster trust bundle",
		journaletv1.ObjectKind_OBJECT_KIND_POD_CERTIFICATE:       "certificate for volume",
	}[r.GetKind()]
	if kind == "" {
		kind = "object"
	}
	name := r.GetName()
	if name == "" {
		name = r.GetSelector()
	}
	return kind + " " + name
}

func objectsSet(s *journaletv1.ObjectsSet) string {
	if len(s.GetRefs()) == 0 {
		return "stopped watching objects"
	}
	var names []string
	for _, r := range s.GetRefs() {
		names = append(names, object(r))
	}
	return "watching " + strings.Join(names, ", ")
}

func objectsRead(r *journaletv1.ObjectsRead) string {
	var all []string
	for _, o := range r.GetObjects() {
		text := object(o.GetRef())
		switch o.GetState() {
		case journaletv1.ObjectState_OBJECT_STATE_MISSING:
			text += " (missing)"
		case journaletv1.ObjectState_OBJECT_STATE_UNREADABLE:
			text += " (cannot be read: " + o.GetMessage() + ")"
		}
		all = append(all, text)
	}
	return "read objects: " + strings.Join(all, ", ")
}
