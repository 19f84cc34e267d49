package fakeapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// object is an object of the API as decoded JSON. It is never changed in place once it is stored.
type object map[string]any

// kind is what the server must know of a resource.
type kind struct {
	apiVersion, kind string
	typed            any // for strategic merges
	clusterScoped    bool
	graceful         bool // it is deleted with a grace period
}

var kinds = map[string]kind{
	"pods":            {apiVersion: "v1", kind: "Pod", typed: corev1.Pod{}, graceful: true},
	"nodes":           {apiVersion: "v1", kind: "Node", typed: corev1.Node{}, clusterScoped: true},
	"namespaces":      {apiVersion: "v1", kind: "Namespace", typed: corev1.Namespace{}, clusterScoped: true},
	"configmaps":      {apiVersion: "v1", kind: "ConfigMap", typed: corev1.ConfigMap{}},
	"secrets":         {apiVersion: "v1", kind: "Secret", typed: corev1.Secret{}},
	"services":        {apiVersion: "v1", kind: "Service", typed: corev1.Service{}},
	"serviceaccounts": {apiVersion: "v1", kind: "ServiceAccount", typed: corev1.ServiceAccount{}},
	"events":          {apiVersion: "v1", kind: "Event", typed: corev1.Event{}},
	"persistentvolumeclaims": {
		apiVersion: "v1", kind: "PersistentVolumeClaim", typed: corev1.PersistentVolumeClaim{}},
	"persistentvolumes": {
		apiVersion: "v1", kind: "PersistentVolume", typed: corev1.PersistentVolume{}, clusterScoped: true},
	"leases.coordination.k8s.io": {
		apiVersion: "coordination.k8s.io/v1", kind: "Lease", typed: coordinationv1.Lease{}},
	"csinodes.storage.k8s.io": {
		apiVersion: "storage.k8s.io/v1", kind: "CSINode", typed: storagev1.CSINode{}, clusterScoped: true},
	"csidrivers.storage.k8s.io": {
		apiVersion: "storage.k8s.io/v1", kind: "CSIDriver", typed: storagev1.CSIDriver{}, clusterScoped: true},
	"volumeattachments.storage.k8s.io": {
		apiVersion: "storage.k8s.io/v1", kind: "VolumeAttachment", typed: storagev1.VolumeAttachment{}, clusterScoped: true},
	"runtimeclasses.node.k8s.io": {
		apiVersion: "node.k8s.io/v1", kind: "RuntimeClass", typed: nodev1.RuntimeClass{}, clusterScoped: true},
	"resourceclaims.resource.k8s.io": {
		apiVersion: "resource.k8s.io/v1", kind: "ResourceClaim", typed: resourcev1.ResourceClaim{}},
	"certificatesigningrequests.certificates.k8s.io": {apiVersion: "certificates.k8s.io/v1",
		kind: "CertificateSigningRequest", typed: certificatesv1.CertificateSigningRequest{}, clusterScoped: true},
	"podcertificaterequests.certificates.k8s.io": {apiVersion: "certificates.k8s.io/v1", kind: "PodCertificateRequest",
		typed: certificatesv1.PodCertificateRequest{}},
	"clustertrustbundles.certificates.k8s.io": {apiVersion: "certificates.k8s.io/v1", kind: "ClusterTrustBundle",
		typed: certificatesv1.ClusterTrustBundle{}, clusterScoped: true},
	"tokenreviews.authentication.k8s.io": {apiVersion: "authentication.k8s.io/v1", kind: "TokenReview",
		typed: authenticationv1.TokenReview{}, clusterScoped: true},
	"subjectaccessreviews.authorization.k8s.io": {apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview",
		typed: authorizationv1.SubjectAccessReview{}, clusterScoped: true},
}

var codecs = func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, storagev1.AddToScheme, certificatesv1.AddToScheme,
		nodev1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	return serializer.NewCodecFactory(scheme)
}()

// decodeBody reads an object that a client has sent as JSON or protobuf.
func decodeBody(body []byte) (object, error) {
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return decodeJSON(body)
	}
	o, gvk, err := codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(*gvk)
	return toObject(o), nil
}

func decodeJSON(text []byte) (object, error) {
	var o object
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&o); err != nil {
		return nil, err
	}
	return o, nil
}

// toObject returns a typed object as the server holds it.
func toObject(typed any) object {
	text, err := json.Marshal(typed)
	if err != nil {
		panic(err) // an object of the API
	}
	o, err := decodeJSON(text)
	if err != nil {
		panic(err)
	}
	return o
}

// into decodes an object of the server into a typed one.
func (o object) into(typed any) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, typed)
}

func (o object) clone() object {
	if o == nil {
		return nil
	}
	return cloneValue(map[string]any(o)).(map[string]any)
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, x := range v {
			c[k] = cloneValue(x)
		}
		return c
	case object:
		return cloneValue(map[string]any(v))
	case []any:
		c := make([]any, len(v))
		for i, x := range v {
			c[i] = cloneValue(x)
		}
		return c
	}
	return v
}

// at returns the map at a path, nil if the path leads to no map.
func (o object) at(path ...string) map[string]any {
	m := map[string]any(o)
	for _, p := range path {
		m, _ = m[p].(map[string]any)
	}
	return m
}

// meta returns the metadata, which is created if o has none.
func (o object) meta() map[string]any {
	if m := o.at("metadata"); m != nil {
		return m
	}
	m := map[string]any{}
	o["metadata"] = m
	return m
}

func (o object) text(path ...string) string {
	v := o.at(path[:len(path)-1]...)[path[len(path)-1]]
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func (o object) number(path ...string) int {
	n, _ := strconv.Atoi(o.text(path...))
	return n
}

// selects reports whether o matches a field selector: terms "path=value", "path==value", "path!=value".
func (o object) selects(selector string) bool {
	for term := range strings.SplitSeq(selector, ",") {
		field, value, ok := strings.Cut(term, "=")
		if !ok {
			continue
		}
		not := strings.HasSuffix(field, "!")
		path := strings.Split(strings.TrimSuffix(field, "!"), ".")
		if (o.text(path...) == strings.TrimPrefix(value, "=")) == not {
			return false
		}
	}
	return true
}

// hasLabels reports whether o matches a label selector of terms "key=value" and "key".
func (o object) hasLabels(selector string) bool {
	labels := o.at("metadata", "labels")
	for term := range strings.SplitSeq(selector, ",") {
		name, value, equal := strings.Cut(term, "=")
		if term == "" {
			continue
		}
		if got, has := labels[name]; !has || equal && got != value {
			return false
		}
	}
	return true
}

// equal reports whether values are the same whose numbers may come from different decoders.
func equal(a, b any) bool {
	switch a := asMap(a).(type) {
	case map[string]any:
		b, ok := asMap(b).(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case string, bool, nil:
		return a == b
	default:
		return b != nil && fmt.Sprint(a) == fmt.Sprint(b)
	}
}

func asMap(v any) any {
	if o, ok := v.(object); ok {
		return map[string]any(o)
	}
	return v
}

// status returns a Status of failure.
func status(code int, reason, message string) object {
	return object{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"code": code, "reason": reason, "message": message,
	}
}
