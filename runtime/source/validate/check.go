package validate

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/journalet/journalet/runtime/defect"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// Level is how bad a finding is.
type Level string

// The levels, the worst first.
const (
	Error   Level = "error"   // a pod, or a whole file, is refused
	Warning Level = "warning" // it is taken, and probably not as it is meant
	Note    Level = "note"    // it depends on what only a node has
)

// Codes of findings that package manifest does not have.
const (
	CodeUnreadable = "unreadable" // the file cannot be read
	CodeWarning    = "warning"    // a warning about one pod
	CodeSameName   = "same-name"  // two pods or objects of one name in different files
	CodeMissing    = "missing"    // an object that no file has
	CodeNode       = "node"       // it depends on the name of the node
	CodeDefect     = "defect"     // the decoder failed
)

// placeholder is the name of a node that is not known.
const placeholder = "node"

// Finding is one thing that the agent would say.
type Finding struct {
	Path    string `json:"path"`
	Line    int    `json:"line,omitempty"` // from 1; 0: the whole file
	Field   string `json:"field,omitempty"`
	Level   Level  `json:"level"`
	Code    string `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// Pod is a pod that the agent would take.
type Pod struct {
	Path      string `json:"path"`
	Line      int    `json:"line"`
	Namespace string `json:"namespace"`
	// Name is without the name of the node.
	Name string `json:"name"`
}

// Result is what Check found.
type Result struct {
	Files    int       `json:"files"`
	Objects  int       `json:"objects"`
	Accepted []Pod     `json:"accepted"`
	Findings []Finding `json:"findings"`
}

// Count returns the number of findings of a level.
func (r *Result) Count(l Level) int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].Level == l {
			n++
		}
	}
	return n
}

// Options configure Check.
type Options struct {
	// Manifest is as the agent has it. Without a NodeName, what depends on it is a note.
	Manifest manifest.Options
	// Objects are the files beside the manifests that pods may refer to; KnowsObjects means that there are no others, so
	// that a missing object is worth a note.
	Objects      []File
	KnowsObjects bool
	// Progress is called after each file; it may be nil.
	Progress func(done, total uint64)
}

// File is one file and its content.
type File struct {
	// Path is as its author knows it.
	Path string
	Data []byte
	// Err is why it cannot be read.
	Err error
}

// checker gathers what several files have.
type checker struct {
	opts      Options
	nodeKnown bool
	result    Result
	pods      []manifest.Parsed
	paths     []string // of pods
	objects   map[key]object
}

// Check decodes files as the agent would, and compares them. It ends early with ctx, with what it has by then.
func Check(ctx context.Context, files []File, opts Options) *Result {
	c := &checker{opts: opts, nodeKnown: opts.Manifest.NodeName != "", objects: map[key]object{}}
	c.opts.Manifest.NodeName = cmp.Or(opts.Manifest.NodeName, placeholder)
	total := uint64(len(files) + len(opts.Objects))
	c.result = Result{Files: int(total), Accepted: []Pod{}, Findings: []Finding{}}
	for i, f := range slices.Concat(files, opts.Objects) {
		if ctx.Err() != nil {
			break
		}
		switch {
		case f.Err != nil:
			c.add(Finding{Path: f.Path, Level: Error, Code: CodeUnreadable, Message: "cannot be read: " + f.Err.Error(),
				Remedy: "check the path and its permissions"})
		case i < len(files):
			c.manifests(f)
		default:
			c.objectsOnly(f)
		}
		if opts.Progress != nil {
			opts.Progress(uint64(i+1), total)
		}
	}
	c.together()
	slices.SortStableFunc(c.result.Findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return &c.result
}

func (c *checker) add(f ...Finding) { c.result.Findings = append(c.result.Findings, f...) }

// manifests decodes one file of pods, and the objects beside them.
func (c *checker) manifests(f File) {
	defer defect.Recover(c.failed(f))
	pods, problems := manifest.Decode(f.Path, f.Data, c.opts.Manifest)
	for i := range problems {
		c.problem(&problems[i])
	}
	for i := range pods {
		p := &pods[i]
		c.result.Accepted = append(c.result.Accepted, Pod{f.Path, p.Line, p.Pod.Namespace, c.short(p.Pod.Name)})
		for _, w := range p.Warnings {
			c.add(Finding{w.Path, w.Line, w.Field, Warning, CodeWarning, w.Message, w.Remedy})
		}
		c.pods, c.paths = append(c.pods, *p), append(c.paths, f.Path)
	}
	// Decode has reported the problems of the objects.
	found, _, _ := manifest.DecodeObjects(f.Path, f.Data)
	c.have(f.Path, found)
}

// objectsOnly decodes one file of objects.
func (c *checker) objectsOnly(f File) {
	defer defect.Recover(c.failed(f))
	found, problems, _ := manifest.DecodeObjects(f.Path, f.Data)
	for i := range problems {
		c.problem(&problems[i])
	}
	c.have(f.Path, found)
}

// failed returns a function that adds a panic of the decoder as a finding about a file, as the sources do.
func (c *checker) failed(f File) func(stack string) {
	return func(string) {
		c.add(Finding{Path: f.Path, Level: Error, Code: CodeDefect, Message: "the decoder failed on it",
			Remedy: defect.ReportManifest})
	}
}

func (c *checker) problem(p *manifest.Problem) {
	f := Finding{p.Path, p.Line, p.Field, Error, string(p.Code), p.Message, p.Remedy}
	if !c.nodeKnown && strings.HasSuffix("."+p.Field, ".spec.nodeName") && p.Code == manifest.CodeInvalid {
		f.Level, f.Code = Note, CodeNode
		f.Message, f.Remedy = "only the node of this name takes the pod", "give the node's name with --hostname-override"
	}
	c.add(f)
}

// short returns a pod's name as in its manifest.
func (c *checker) short(name string) string {
	return strings.TrimSuffix(name, "-"+c.opts.Manifest.NodeName)
}
