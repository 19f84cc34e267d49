package files

import (
	"fmt"
	"log/slog"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/journalet/journalet/runtime/defect"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/watch"
)

// maxTokenBytes bounds the file of a token. A token of Kubernetes has about one KiB.
const maxTokenBytes = 64 << 10

// content is what one file holds. It is not changed. Its methods take nil for a file without content.
type content struct {
	// objects are the objects of the file by kind and name, the broken ones too.
	objects map[id]object
	token   []byte // of the file of a token
	// fault is why nothing of the file can be read now. objects and token are those from before.
	fault string
}

// id names an object of a file.
type id struct{ kind, namespace, name string }

// object is an object with the newest contents that could be read.
type object struct {
	manifest.Object
	path string // of its file
	// problem is why its newest contents cannot be read; the contents of Object, if it has any, are from before.
	problem string
}

func (c *content) empty() bool {
	return c == nil || len(c.objects) == 0 && c.token == nil && c.fault == ""
}

func (c *content) problem() string {
	if c == nil {
		return ""
	}
	return c.fault
}

// broken returns the content with a fault: what was read before stays.
func (c *content) broken(fault string) *content {
	now := &content{fault: fault}
	if c != nil {
		now.objects, now.token = c.objects, c.token
	}
	return now
}

// decoder decodes files with objects.
type decoder struct {
	log *slog.Logger
	// quiet leaves problems to the reader of the manifests in the same file.
	quiet  bool
	warned sets.Set[string] // paths that others than the owner may read
}

func (d *decoder) decode(path string, data []byte, st watch.Stamp, before *content) (out *content) {
	defer defect.Recover(func(string) { // other files go on
		out = before.broken(path + ": the decoder failed on it; " + defect.ReportFile)
	})
	found, problems, parsed := manifest.DecodeObjects(path, data)
	if !parsed {
		if d.quiet && before.empty() {
			return &content{} // a file of pods: its reader reports it
		}
		return before.broken(problems[0].Error())
	}
	now := &content{objects: map[id]object{}}
	secrets := false
	for _, o := range found {
		key := id{o.Kind, o.Namespace, o.Name}
		all := object{Object: o, problem: o.Problem}
		if o.Value == nil && before != nil {
			all.Value = before.objects[key].Value
		}
		now.objects[key] = all
		secrets = secrets || o.Kind == "Secret"
	}
	for _, p := range problems {
		if !d.quiet {
			d.log.Warn("object problem", "problem", p.Error())
		}
	}
	d.warnShared(path, st, secrets)
	return now
}

// warnShared warns once of a file with Secrets that others than its owner may read.
func (d *decoder) warnShared(path string, st watch.Stamp, secrets bool) {
	switch {
	case !secrets || !st.Shared():
		d.warned.Delete(path)
	case !d.warned.Has(path) && len(d.warned) < maxWarned:
		d.warned.Insert(path)
		d.log.Warn("others than its owner may read a file with Secrets; run chmod 0600 on it", "file", path)
	}
}

// decodeToken decodes the file of a token.
func (d *decoder) decodeToken(path string, data []byte, st watch.Stamp, before *content) *content {
	text := strings.TrimSpace(string(data))
	switch {
	case text == "":
		return before.broken(path + ": has no token")
	case strings.ContainsAny(text, " \t\r\n\x00"):
		return before.broken(path + ": holds more than one token; write the token and nothing else")
	}
	d.warnShared(path, st, true)
	return &content{token: []byte(text)}
}

func (k id) String() string {
	if k.namespace == "" {
		return fmt.Sprintf("%s %s", k.kind, k.name)
	}
	return fmt.Sprintf("%s %s/%s", k.kind, k.namespace, k.name)
}
