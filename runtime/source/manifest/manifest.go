package manifest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

const (
	// DefaultMaxBytes bounds a manifest. The kubelet reads at most 10 MiB from a file or a URL.
	DefaultMaxBytes int64 = 10 << 20

	// MaxPods bounds the pods of one manifest, valid or not. Each needs about 450 bytes in the fact that names it, and a
	// fact is at most 1 MiB.
	MaxPods = 1024

	// MaxPodBytes bounds one pod as JSON, aliases expanded and defaults applied. It is what an API server stores: etcd
	// takes requests of at most 1.5 MiB by default.
	MaxPodBytes = 3 << 19

	// maxPodValues bounds the values (mappings, lists and scalars, aliases expanded) of one pod. A large pod has about a
	// thousand. A value of three bytes can become a container of 600 bytes in memory.
	maxPodValues = 1 << 16

	// maxFileValues and maxFileBytes bound all documents of a manifest together, aliases expanded, so that a few lines
	// of YAML cannot fill the memory: 256 values for each of 1,024 pods, and twice the bytes of the largest manifest,
	// because JSON has quotes that YAML does not need. A value takes about 400 bytes while it is parsed.
	maxFileValues = 1 << 18
	maxFileBytes  = int(2 * DefaultMaxBytes)

	// maxResolved bounds the different words that a YAML library has to resolve (0777, 1e3, 100m, yes), which takes some
	// ten microseconds each. 1,024 pods have 32 each.
	maxResolved = 1 << 15

	// maxDirectives bounds the lines that begin with %: the parser compares each directive with all before it.
	maxDirectives = 64

	// maxDepth bounds the nesting of one document. The deepest field of a pod is about 12 levels deep.
	maxDepth = 64

	// MaxProblems bounds the problems of one call of Decode; one more reports how many are omitted. A fact names at most
	// so many.
	MaxProblems = 100

	// maxHintBytes bounds how much of a line is searched for a frequent mistake.
	maxHintBytes = 4 << 10

	// maxSuggestBytes bounds the misspelt names that get a search for a similar field. The longest field has 50.
	maxSuggestBytes = 64
)

// Source is the kind of source of a manifest, with the values of the annotation kubernetes.io/config.source.
type Source string

// The kinds of sources.
const (
	SourceFile Source = "file" // a static pod file; its pods tolerate NoExecute taints
	SourceHTTP Source = "http" // a manifest URL; as in the kubelet, its pods get no toleration
)

// Options configure Decode.
type Options struct {
	// NodeName is the node's name in lower case. Required: pods are bound to the node, and their names end in its name.
	NodeName string
	// Source is SourceFile when empty.
	Source Source
	// Classes are what pods may name; nil: nothing.
	Classes *Classes
	// HasToken reports whether the node has a token of a service account, for pods that use one; nil: it has none.
	HasToken func(namespace, account string) bool
	// UID returns the UID of a pod that sets none, by its namespace, its name and the UID that it gets otherwise. May be
	// nil.
	UID func(namespace, name, uid string) string
	// MaxBytes bounds the manifest, in bytes. Zero or less means DefaultMaxBytes.
	MaxBytes int64
}

// Parsed is one pod that is ready to run.
type Parsed struct {
	Pod *corev1.Pod
	// Canonical is the pod in JSON with every default applied. It is stored, and read by Load.
	Canonical []byte
	// Digest names Canonical: "sha256:" and 64 hexadecimal digits.
	Digest string
	// Line is where the pod begins in the manifest, counted from 1.
	Line int
	// Index is the pod's position among all pods of the manifest, including invalid ones, from 0.
	Index int
	// Warnings do not keep the pod from running. They have neither a code nor a remedy.
	Warnings []Problem
}

// Code is the kind of a problem. Codes are stable: events and tests have them.
type Code string

// The kinds of problems.
const (
	CodeOptions        Code = "options"         // the caller's options are wrong, independent of the manifest
	CodeTooLarge       Code = "too-large"       // more bytes, values or nesting than the limits allow
	CodeSyntax         Code = "syntax"          // not YAML and not JSON
	CodeEmpty          Code = "empty"           // no document, as between truncating and writing a file
	CodeUnknownKind    Code = "unknown-kind"    // an object other than a pod or a list of pods
	CodeUnknownField   Code = "unknown-field"   // no such field in the type
	CodeDuplicateField Code = "duplicate-field" // the same key twice in one mapping
	CodeWrongType      Code = "wrong-type"      // a value that does not fit the field's type
	CodeRequired       Code = "required"        // a value is missing
	CodeInvalid        Code = "invalid"         // a value, or two together, break a rule
	CodeDuplicate      Code = "duplicate"       // a value that must be unique is repeated
	CodeUnsupported    Code = "unsupported"     // a value outside an enumeration
	CodeNotFound       Code = "not-found"       // a reference to something the pod does not have
	CodeStaticPod      Code = "static-pod"      // needs the API server, which a pod from a manifest cannot use
	CodeNotYet         Code = "not-yet"         // a valid field that this version does not support
	CodeTooMany        Code = "too-many"        // further problems are omitted
)

// Problem is one reason why a pod, or the whole manifest, is refused.
type Problem struct {
	Path    string // as given to Decode
	Line    int    // of the field or its nearest parent, from 1; 0 for the whole manifest
	Field   string // such as spec.containers[0].image; in a list it begins with items[<n>]; may be empty
	Code    Code
	Pod     string // namespace/name, as the author knows it; empty for another object and for the whole manifest
	Message string // what is wrong, without values of environment variables, commands or annotations
	Remedy  string // what to do next
}

// Error renders the problem as "path:line: field: message; remedy".
func (p Problem) Error() string {
	where := p.Path
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d", p.Path, p.Line)
	}
	text := where + ": "
	if p.Field != "" {
		text += p.Field + ": "
	}
	text += p.Message
	if p.Remedy != "" {
		text += "; " + p.Remedy
	}
	return text
}
