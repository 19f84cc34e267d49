package manifest

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	k8sjson "sigs.k8s.io/json"

	"github.com/journalet/journalet/runtime/defect"
)

// RuntimeHandlerAnnotation has the runtime handler of the sandboxes of a stored manifest.
const RuntimeHandlerAnnotation = "journalet.io/runtime-handler"

// maxClasses bounds the classes of one file; a node has few.
const maxClasses = 256

// Classes are the runtime classes, the priority classes and the service accounts with a token that pods may name. It is
// immutable; nil has none.
type Classes struct {
	byName     map[string]*nodev1.RuntimeClass
	priorities map[string]int32
	tokens     map[string]bool // by namespace/name
}

// NewClasses returns a set, and the names of duplicates: the first one of a name wins. more are objects of any kind.
func NewClasses(all []*nodev1.RuntimeClass, more ...Object) (set *Classes, twice []string) {
	set = &Classes{byName: map[string]*nodev1.RuntimeClass{}, priorities: map[string]int32{}, tokens: map[string]bool{}}
	for _, o := range more {
		switch v := o.Value.(type) {
		case *nodev1.RuntimeClass:
			all = append(all, v)
		case *schedulingv1.PriorityClass:
			if _, has := set.priorities[v.Name]; has {
				twice = append(twice, v.Name)
				continue
			}
			set.priorities[v.Name] = v.Value
		case *corev1.Secret:
			if IsToken(v) {
				set.tokens[v.Namespace+"/"+v.Annotations[corev1.ServiceAccountNameKey]] = true
			}
		}
	}
	for _, c := range all {
		if set.byName[c.Name] != nil {
			twice = append(twice, c.Name)
			continue
		}
		set.byName[c.Name] = c
	}
	return set, twice
}

// IsToken reports whether a Secret holds the token of a service account.
func IsToken(s *corev1.Secret) bool {
	return s.Type == corev1.SecretTypeServiceAccountToken && len(s.Data[corev1.ServiceAccountTokenKey]) > 0
}

// HoldsClasses reports whether a file may hold what Classes are built from, without decoding it.
func HoldsClasses(data []byte) bool {
	for _, word := range []string{"RuntimeClass", "PriorityClass", string(corev1.SecretTypeServiceAccountToken)} {
		if bytes.Contains(data, []byte(word)) {
			return true
		}
	}
	return false
}

// Priorities returns the names of the priority classes, sorted.
func (c *Classes) Priorities() []string {
	if c == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.priorities))
}

// priorityOf returns the priority of a class: one of the set, or one of Kubernetes' own.
func (c *Classes) priorityOf(class string) (int32, bool) {
	if value, known := priorityOf(class); known || c == nil {
		return value, known
	}
	value, known := c.priorities[class]
	return value, known
}

func (c *Classes) hasToken(namespace, account string) bool {
	return c != nil && c.tokens[namespace+"/"+account]
}

// Names returns the names of the runtime classes, sorted.
func (c *Classes) Names() []string {
	if c == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(c.byName))
}

// DecodeRuntimeClasses parses one file: YAML or JSON, one document or several, each a RuntimeClass of node.k8s.io/v1. A
// class with a problem is omitted.
func DecodeRuntimeClasses(path string, data []byte) ([]*nodev1.RuntimeClass, []Problem) {
	if int64(len(data)) > DefaultMaxBytes {
		return nil, []Problem{{
			Path: path, Code: CodeTooLarge, Message: fmt.Sprintf("%d bytes, and a file may have %d", len(data), DefaultMaxBytes),
			Remedy: "is it a file of runtime classes?",
		}}
	}
	docs, bad := parse(data)
	if bad != nil {
		return nil, []Problem{{Path: path, Line: bad.line, Code: bad.code, Message: bad.message, Remedy: bad.remedy}}
	}
	known := fieldTypes{}
	var classes []*nodev1.RuntimeClass
	var found problems
	for i, doc := range docs {
		switch {
		case i == maxClasses:
			return classes, append(found.kept, Problem{
				Path: path, Code: CodeTooMany, Message: fmt.Sprintf("more than %d documents", maxClasses), Remedy: "split it",
			})
		case doc.fault != nil:
			f := doc.fault
			found.add(Problem{Path: path, Line: f.line, Code: f.code, Message: f.message, Remedy: f.remedy})
			continue
		}
		r := &report{path: path, root: doc.root}
		if c := decodeClass(r, known); c != nil {
			classes = append(classes, c)
		}
		found.add(r.sorted()...)
	}
	return classes, found.limited(path)
}

func decodeClass(r *report, known fieldTypes) *nodev1.RuntimeClass {
	if !withinPod(r) {
		return nil
	}
	kind, version := typeOf(r.root)
	if kind != "RuntimeClass" || version != nodev1.SchemeGroupVersion.String() {
		r.addAt("kind", CodeUnknownKind, fmt.Sprintf("found kind %q of apiVersion %q; accepted is a RuntimeClass of %s",
			kind, version, nodev1.SchemeGroupVersion), "move the object elsewhere")
		return nil
	}
	s := shape{report: r, known: known}
	s.check(r.root, reflect.TypeFor[nodev1.RuntimeClass](), "")
	if s.broken {
		return nil
	}
	c := &nodev1.RuntimeClass{}
	if err := k8sjson.UnmarshalCaseSensitivePreserveInts(r.root.appendJSON(nil), c); err != nil {
		r.addAt("", CodeWrongType, "cannot be decoded as a runtime class", defect.ReportFile)
		return nil
	}
	validateClass(r, c)
	if len(r.problems) > 0 {
		return nil
	}
	return c
}

// validateClass checks the API's rules for the fields of a class that the agent uses.
func validateClass(r *report, c *nodev1.RuntimeClass) {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), ""))
	}
	for _, why := range utilvalidation.IsDNS1123Subdomain(c.Name) {
		if c.Name != "" {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, why))
		}
	}
	if c.Handler == "" {
		errs = append(errs, field.Required(field.NewPath("handler"), ""))
	} else {
		for _, why := range utilvalidation.IsDNS1123Label(c.Handler) {
			errs = append(errs, field.Invalid(field.NewPath("handler"), c.Handler, why))
		}
	}
	if c.Overhead != nil {
		at := field.NewPath("overhead", "podFixed")
		for name, q := range c.Overhead.PodFixed {
			if name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage {
				r.notYet(at.Key(string(name)).String(), "another overhead than cpu, memory and ephemeral-storage")
			}
			errs = append(errs, validateQuantity(name, q, at.Key(string(name)))...)
		}
	}
	if c.Scheduling != nil {
		at := field.NewPath("scheduling", "nodeSelector")
		errs = append(errs, validation.ValidateLabels(c.Scheduling.NodeSelector, at)...)
	}
	r.invalid(errs)
}

// applyRuntimeClass changes a pod as the API server's admission does when a pod is created, and adds the handler's
// annotation.
func applyRuntimeClass(r *report, pod *corev1.Pod, classes *Classes) {
	if _, set := pod.Annotations[RuntimeHandlerAnnotation]; set {
		r.addAt("metadata.annotations["+RuntimeHandlerAnnotation+"]", CodeInvalid, "is reserved for the agent",
			"remove it, and name a class in spec.runtimeClassName")
	}
	var class *nodev1.RuntimeClass
	if name := pod.Spec.RuntimeClassName; name != nil {
		if classes != nil {
			class = classes.byName[*name]
		}
		if class == nil {
			r.addAt("spec.runtimeClassName", CodeNotFound, fmt.Sprintf("there is no RuntimeClass %q on this node", *name),
				"write it beside the pod or into --runtime-class-path, or remove the field")
			return
		}
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, RuntimeHandlerAnnotation, class.Handler)
	}
	applyOverhead(r, pod, class)
	if class == nil || class.Scheduling == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		want := class.Scheduling.NodeSelector[key]
		if have, set := pod.Spec.NodeSelector[key]; set && have != want {
			r.addAt("spec.nodeSelector["+key+"]", CodeInvalid,
				fmt.Sprintf("is %q, and pods of RuntimeClass %q need %q", have, class.Name, want), "make the two agree")
			continue
		}
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[key] = want
	}
	for _, t := range class.Scheduling.Tolerations {
		same := func(have corev1.Toleration) bool { return equality.Semantic.DeepEqual(have, t) }
		if !slices.ContainsFunc(pod.Spec.Tolerations, same) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, t)
		}
	}
}

func applyOverhead(r *report, pod *corev1.Pod, class *nodev1.RuntimeClass) {
	const remedy = "remove it: the class sets it"
	switch {
	case class == nil || class.Overhead == nil:
		if pod.Spec.Overhead != nil {
			r.addAt("spec.overhead", CodeInvalid, "is set, and the pod has no RuntimeClass with an overhead", remedy)
		}
	case len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(pod.Spec.Overhead, class.Overhead.PodFixed):
		r.addAt("spec.overhead", CodeInvalid, fmt.Sprintf("is not the one of RuntimeClass %q", class.Name), remedy)
	default:
		pod.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
}
