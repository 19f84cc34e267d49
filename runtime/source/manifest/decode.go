package manifest

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sjson "sigs.k8s.io/json"

	"github.com/journalet/journalet/runtime/defect"
)

const accepted = "accepted are a v1 Pod, a v1 PodList and a v1 List of Pods"

// Decode parses one manifest: YAML or JSON, one document or several, each a v1 Pod, a v1 PodList or a v1 List of pods.
// Objects that pods refer to (DecodeObjects) may be beside them: only their problems are returned.
// path is the file's path or the URL, as the author knows it; messages have it and, like the node's name, it determines
// the UIDs of pods that set none. Pods and problems are in the order of the manifest. A pod with a problem is omitted,
// without an effect on the others. A syntax error fails the whole manifest, because its end is unknown.
func Decode(path string, data []byte, opts Options) ([]Parsed, []Problem) {
	whole := func(line int, code Code, message, remedy string) []Problem {
		return []Problem{{Path: path, Line: line, Code: code, Message: message, Remedy: remedy}}
	}
	if opts.Source == "" {
		opts.Source = SourceFile
	}
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	if opts.NodeName == "" || opts.NodeName != strings.ToLower(opts.NodeName) {
		return nil, whole(0, CodeOptions, fmt.Sprintf("the node name %q is empty or not in lower case", opts.NodeName),
			"give the node a name in lower case")
	}
	if size := int64(len(data)); size > opts.MaxBytes {
		return nil, whole(0, CodeTooLarge, fmt.Sprintf("%d bytes, and a manifest may have %d", size, opts.MaxBytes),
			"split it into several files")
	}
	docs, bad := parse(data)
	if bad != nil {
		return nil, whole(bad.line, bad.code, bad.message, bad.remedy)
	}
	if len(docs) == 0 {
		return nil, whole(0, CodeEmpty, "has no object", "write a v1 Pod into it, or remove the file")
	}
	d := decoding{path: path, opts: opts, names: map[string]int{}, known: fieldTypes{}, objects: newObjects(path)}
	for _, doc := range docs {
		if doc.fault != nil {
			d.problems.add(whole(doc.fault.line, doc.fault.code, doc.fault.message, doc.fault.remedy)...)
			continue
		}
		d.document(doc.root)
	}
	switch {
	case d.index > MaxPods:
		return nil, whole(0, CodeTooLarge, fmt.Sprintf("more than %d pods", MaxPods), splitRemedy)
	case d.bytes > maxFileBytes:
		return nil, whole(0, CodeTooLarge, fmt.Sprintf("more than %d bytes of JSON with defaults applied", maxFileBytes),
			splitRemedy)
	}
	return d.pods, d.problems.limited(path)
}

// decoding is the state of decoding one manifest.
type decoding struct {
	path     string
	opts     Options
	index    int            // of the next pod
	names    map[string]int // full name of a pod to the line of the first such pod
	known    fieldTypes
	objects  *objects // validated and reported here, read by the store of objects
	pods     []Parsed
	bytes    int // of the canonical pods
	problems problems
}

// full reports whether the manifest has more than it may have, so that nothing more of it counts.
func (d *decoding) full() bool { return d.index > MaxPods || d.bytes > maxFileBytes }

// document decodes one document, by its kind.
func (d *decoding) document(root *node) {
	if d.full() || d.object(root, "") {
		return
	}
	r := &report{path: d.path, root: root}
	kind, version := typeOf(root)
	switch {
	case version == "v1" && kind == "Pod":
		d.pod(root, "", false)
		return
	case version == "v1" && kind == "PodList":
		d.list(r, reflect.TypeFor[corev1.PodList](), true)
	case version == "v1" && kind == "List":
		d.list(r, reflect.TypeFor[metav1.List](), false)
	default:
		d.unknownKind(r, kind, version)
	}
	d.problems.add(r.sorted()...)
}

// object reports the problems of an object that is no pod and that pods may refer to, and whether it is one. Such
// objects are read from files only: at a URL they would have no effect.
func (d *decoding) object(root *node, prefix string) bool {
	if d.opts.Source != SourceFile {
		return false
	}
	problems, taken := d.objects.take(root, prefix)
	d.problems.add(problems...)
	return taken
}

func typeOf(n *node) (kind, version string) {
	if n.kind != mapNode {
		return "", ""
	}
	kind, _ = n.get("kind").text()
	version, _ = n.get("apiVersion").text()
	return kind, version
}

func (d *decoding) unknownKind(r *report, kind, version string) {
	switch {
	case r.root.kind != mapNode:
		r.addAt("", CodeUnknownKind, "found "+r.root.typeName()+" where an object begins; "+accepted, "write an object")
	case kind == "" && version == "":
		r.addAt("", CodeUnknownKind, "no kind and no apiVersion; "+accepted, "begin with apiVersion: v1 and kind: Pod")
	default:
		r.addAt("kind", CodeUnknownKind, fmt.Sprintf("found kind %q of apiVersion %q; %s", kind, version, accepted),
			"move the object elsewhere, or write its pod")
	}
}

// list decodes the pods of a PodList, whose items may omit their kind, or of a List, whose items must have it.
func (d *decoding) list(r *report, t reflect.Type, kindImplied bool) {
	items := r.root.get("items")
	// The items are checked one by one below, so that an invalid one does not affect the others.
	frame := &node{kind: mapNode, line: r.root.line, dups: r.root.dups}
	for _, e := range r.root.entries {
		if e.key != "items" {
			frame.entries = append(frame.entries, e)
		}
	}
	(&shape{report: r, known: d.known}).check(frame, t, "")
	if items == nil || items.isNull() {
		return
	}
	if items.kind != listNode {
		r.addAt("items", CodeWrongType, "wants a list, found "+items.typeName(), "write the pods as a list")
		return
	}
	for i, item := range items.items {
		if d.full() {
			return
		}
		d.item(item, fmt.Sprintf("items[%d]", i), kindImplied)
	}
}

func (d *decoding) item(item *node, prefix string, kindImplied bool) {
	if d.object(item, prefix) {
		return
	}
	kind, version := typeOf(item)
	implied := kindImplied && item.kind == mapNode && item.get("kind") == nil && item.get("apiVersion") == nil
	if implied || kind == "Pod" && version == "v1" {
		d.pod(item, prefix, implied)
		return
	}
	r := &report{path: d.path, prefix: prefix, root: item}
	d.unknownKind(r, kind, version)
	d.problems.add(r.sorted()...)
	d.index++
}

// pod runs all steps for one pod. A problem in one step does not skip the later ones.
func (d *decoding) pod(root *node, prefix string, kindImplied bool) {
	r := &report{path: d.path, prefix: prefix, root: root}
	index := d.index
	d.index++
	defer func() { d.problems.add(ofPod(root, r.sorted())...) }()

	if d.full() || !withinPod(r) {
		return
	}
	s := shape{report: r, known: d.known}
	s.check(root, reflect.TypeFor[corev1.Pod](), "")
	if s.broken {
		meta := root.get("metadata")
		name, _ := meta.get("name").text()
		namespace, _ := meta.get("namespace").text()
		d.checkDuplicate(r, namespace, name)
		return
	}
	pod := &corev1.Pod{}
	if err := k8sjson.UnmarshalCaseSensitivePreserveInts(root.appendJSON(nil), pod); err != nil {
		// The shape is valid, so the two decoders disagree. The error may quote a value.
		r.addAt("", CodeWrongType, "cannot be decoded as a pod", defect.ReportManifest)
		return
	}
	if kindImplied {
		pod.Kind, pod.APIVersion = "Pod", "v1"
	}
	d.finish(r, pod, index)
}

// ofPod names the pod in its problems.
func ofPod(root *node, all []Problem) []Problem {
	meta := root.get("metadata")
	name, _ := meta.get("name").text()
	if name == "" {
		return all
	}
	namespace, _ := meta.get("namespace").text()
	for i := range all {
		all[i].Pod = cmp.Or(namespace, metav1.NamespaceDefault) + "/" + name
	}
	return all
}

// withinPod refuses a pod that is too large, before its aliases are expanded.
func withinPod(r *report) bool {
	switch {
	case r.root.size > maxPodValues:
		r.addAt("", CodeTooLarge, fmt.Sprintf("more than %d values in one object when aliases are expanded", maxPodValues),
			"shorten its lists")
	case r.root.bytes > MaxPodBytes:
		r.addAt("", CodeTooLarge, fmt.Sprintf("more than %d bytes of JSON in one object when aliases are expanded",
			MaxPodBytes), "shorten its values")
	default:
		return true
	}
	return false
}

func (d *decoding) hasToken(namespace, account string) bool {
	return d.opts.HasToken != nil && d.opts.HasToken(namespace, account) || d.opts.Classes.hasToken(namespace, account)
}

func (d *decoding) finish(r *report, pod *corev1.Pod, index int) {
	d.checkDuplicate(r, pod.Namespace, pod.Name)
	checkStatic(r, pod)
	checkToken(r, pod, d.hasToken)
	checkSupported(r, pod)
	checkNodeName(r, pod, d.opts.NodeName)
	checkAnnotations(r, pod)
	if pod.Name != "" {
		applyStatic(r, pod, d.path, d.opts)
	}
	applyServiceAccount(pod)
	applyRuntimeClass(r, pod, d.opts.Classes)
	applyPriorityClass(r, &pod.Spec, d.opts.Classes)
	applyDefaults(pod)
	validatePod(r, pod)
	if len(r.problems) > 0 {
		return
	}
	data, digest, err := canonical(pod)
	if err != nil {
		r.addAt("", CodeInvalid, "cannot be written as JSON", defect.ReportManifest)
		return
	}
	if len(data) > MaxPodBytes {
		r.addAt("", CodeTooLarge, fmt.Sprintf("%d bytes of JSON with defaults applied, and a pod may have %d", len(data),
			MaxPodBytes), "shorten its values")
		return
	}
	d.bytes += len(data)
	warn(r, pod)
	d.pods = append(d.pods, Parsed{Pod: pod, Canonical: data, Digest: digest, Line: r.root.line, Index: index,
		Warnings: r.warnings})
}

// checkDuplicate refuses a pod whose full name an earlier pod has. An invalid pod keeps its name too: fixing it must
// not stop the other pod.
func (d *decoding) checkDuplicate(r *report, namespace, name string) {
	if name == "" {
		return
	}
	full := cmp.Or(namespace, metav1.NamespaceDefault) + "/" + name + "-" + d.opts.NodeName
	if first, taken := d.names[full]; taken {
		r.addAt("metadata.name", CodeDuplicate, fmt.Sprintf("pod %s is already at line %d of this file", full, first),
			"rename one of the two, or put it into another namespace")
		return
	}
	d.names[full] = r.root.line
}
