package manifest

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sjson "sigs.k8s.io/json"

	"github.com/journalet/journalet/runtime/defect"
)

// Object is an object in a file that is no pod, but that pods refer to.
type Object struct {
	// Kind is ConfigMap, Secret, ServiceAccount, ClusterTrustBundle, RuntimeClass or PriorityClass.
	Kind string
	// Namespace is "default" if the author sets none, and empty for kinds without a namespace.
	Namespace, Name string
	// Line is where it begins in the file, counted from 1.
	Line int
	// Value is *corev1.ConfigMap, *corev1.Secret and so on; nil if it has a problem.
	Value metav1.Object
	// Problem is why Value is nil, without any contents.
	Problem string
}

// objectKind is a kind of object that files may hold.
type objectKind struct {
	kind, version string
	namespaced    bool
	// decode returns a valid object, or nil after a problem in the report.
	decode func(r *report, known fieldTypes) metav1.Object
}

var objectKinds = []objectKind{
	{"ConfigMap", "v1", true, decodeAs(validateConfigMap)},
	{"Secret", "v1", true, decodeAs(validateSecret)},
	{"ServiceAccount", "v1", true, decodeAs(validateServiceAccount)},
	{"ClusterTrustBundle", "certificates.k8s.io/v1", false, decodeAs(validateTrustBundle)},
	{"ClusterTrustBundle", "certificates.k8s.io/v1beta1", false, decodeAs(validateTrustBundle)},
	{"ClusterTrustBundle", "certificates.k8s.io/v1alpha1", false, decodeAs(validateTrustBundle)},
	{"RuntimeClass", nodev1.SchemeGroupVersion.String(), false, decodeAs(validateClass)},
	{"PriorityClass", schedulingv1.SchemeGroupVersion.String(), false, decodeAs(validatePriorityClass)},
}

// decodeAs returns a function that decodes a tree into a T and validates it.
func decodeAs[T any, P interface {
	*T
	metav1.Object
}](validate func(*report, P)) func(*report, fieldTypes) metav1.Object {
	return func(r *report, known fieldTypes) metav1.Object {
		s := shape{report: r, known: known}
		s.check(r.root, reflect.TypeFor[T](), "")
		if s.broken {
			return nil
		}
		o := P(new(T))
		if err := k8sjson.UnmarshalCaseSensitivePreserveInts(r.root.appendJSON(nil), o); err != nil {
			// The shape is valid, so the two decoders disagree. The error may quote a value.
			r.addAt("", CodeWrongType, "cannot be decoded", defect.ReportFile)
			return nil
		}
		validate(r, o)
		if len(r.problems) > 0 {
			return nil
		}
		return o
	}
}

// objects decodes the objects of one file that are no pods.
type objects struct {
	path  string
	known fieldTypes
	lines map[string]int // of the first object of a kind, namespace and name
	found []Object
}

// take decodes an object if its kind is in objectKinds, and reports whether it is. prefix is the prefix of a list's
// item.
func (o *objects) take(root *node, prefix string) ([]Problem, bool) {
	kind, version := typeOf(root)
	for _, k := range objectKinds {
		if k.kind == kind && k.version == version {
			r := &report{path: o.path, prefix: prefix, root: root}
			o.add(r, k)
			return r.sorted(), true
		}
	}
	return nil, false
}

func (o *objects) add(r *report, k objectKind) {
	meta := r.root.get("metadata")
	out := Object{Kind: k.kind, Line: r.root.line}
	out.Name, _ = meta.get("name").text()
	if k.namespaced {
		namespace, _ := meta.get("namespace").text()
		out.Namespace = cmp.Or(namespace, metav1.NamespaceDefault)
	}
	var value metav1.Object
	if withinPod(r) {
		value = k.decode(r, o.known)
	}
	key := out.Kind + " " + out.Namespace + "/" + out.Name
	if first, twice := o.lines[key]; twice && out.Name != "" {
		r.addAt("metadata.name", CodeDuplicate, fmt.Sprintf("%s %s is already at line %d of this file", out.Kind, out.Name,
			first), "rename one of the two, or put it into another namespace")
		return
	}
	o.lines[key] = out.Line
	if value != nil {
		value.SetNamespace(out.Namespace)
		out.Value = value
	} else if problems := r.sorted(); len(problems) > 0 {
		out.Problem = problems[0].Error()
	}
	if out.Name != "" {
		o.found = append(o.found, out)
	}
}

// DecodeObjects parses one file: YAML or JSON, one document or several, each an object or a v1 List of objects. Pods
// and other kinds are passed over: Decode reports them. An object with a problem has no value, and no effect on the
// others. ok is false if the file cannot be parsed, so that its objects are unknown.
func DecodeObjects(path string, data []byte) (found []Object, problems []Problem, ok bool) {
	whole := func(line int, code Code, message, remedy string) ([]Object, []Problem, bool) {
		return nil, []Problem{{Path: path, Line: line, Code: code, Message: message, Remedy: remedy}}, false
	}
	if size := int64(len(data)); size > DefaultMaxBytes {
		return whole(0, CodeTooLarge, fmt.Sprintf("%d bytes, and a file may have %d", size, DefaultMaxBytes), splitRemedy)
	}
	docs, bad := parse(data)
	if bad != nil {
		return whole(bad.line, bad.code, bad.message, bad.remedy)
	}
	if len(docs) == 0 {
		return whole(0, CodeEmpty, "has no object", "write an object into it, or remove the file")
	}
	return decodeObjects(path, docs)
}

// document decodes an object, and reports a document whose kind is nearly one of objectKinds.
func (o *objects) document(root *node, prefix string) []Problem {
	problems, taken := o.take(root, prefix)
	if taken {
		return problems
	}
	kind, version := typeOf(root)
	for _, k := range objectKinds {
		if strings.EqualFold(k.kind, kind) {
			r := &report{path: o.path, prefix: prefix, root: root}
			r.addAt("kind", CodeUnknownKind, fmt.Sprintf("found kind %q of apiVersion %q", kind, version),
				fmt.Sprintf("write kind: %s and apiVersion: %s", k.kind, k.version))
			return r.sorted()
		}
	}
	return nil
}

func decodeObjects(path string, docs []document) (_ []Object, _ []Problem, ok bool) {
	o := newObjects(path)
	var all problems
	for _, doc := range docs {
		if f := doc.fault; f != nil {
			all.add(Problem{Path: path, Line: f.line, Code: f.code, Message: f.message, Remedy: f.remedy})
			continue
		}
		all.add(o.document(doc.root, "")...)
		if kind, version := typeOf(doc.root); kind != "List" || version != "v1" {
			continue
		}
		if items := doc.root.get("items"); items != nil && items.kind == listNode {
			for i, item := range items.items {
				all.add(o.document(item, fmt.Sprintf("items[%d]", i))...)
			}
		}
	}
	return o.found, all.limited(path), true
}

func newObjects(path string) *objects {
	return &objects{path: path, known: fieldTypes{}, lines: map[string]int{}}
}
