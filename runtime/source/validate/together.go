package validate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// key names an object.
type key struct{ kind, namespace, name string }

// object is where an object is first, and its keys.
type object struct {
	path string
	line int
	keys map[string]bool // nil: not known, because the object has a problem
}

// have notes the objects of a file. As in the agent, the first one of a name wins.
func (c *checker) have(path string, found []manifest.Object) {
	c.result.Objects += len(found)
	for _, o := range found {
		k := key{o.Kind, o.Namespace, o.Name}
		if first, twice := c.objects[k]; twice {
			c.add(Finding{Path: path, Line: o.Line, Field: "metadata.name", Level: Warning, Code: CodeSameName,
				Message: fmt.Sprintf("%s %s is already at %s:%d: the first one is used", o.Kind, o.Name, first.path, first.line),
				Remedy:  "remove one of the two, or rename it"})
			continue
		}
		c.objects[k] = object{path, o.Line, keysOf(o)}
	}
}

func keysOf(o manifest.Object) map[string]bool {
	keys := map[string]bool{}
	switch v := o.Value.(type) {
	case *corev1.ConfigMap:
		for k := range v.Data {
			keys[k] = true
		}
		for k := range v.BinaryData {
			keys[k] = true
		}
	case *corev1.Secret:
		for k := range v.Data {
			keys[k] = true
		}
		for k := range v.StringData {
			keys[k] = true
		}
	default:
		return nil
	}
	return keys
}

// together compares the pods of all files with each other and with the objects.
func (c *checker) together() {
	type name struct{ namespace, name string }
	first := map[name]int{}
	for i := range c.pods {
		p := c.pods[i].Pod
		n := name{p.Namespace, p.Name}
		if at, twice := first[n]; twice {
			c.add(Finding{Path: c.paths[i], Line: c.pods[i].Line, Field: "metadata.name", Level: Warning, Code: CodeSameName,
				Message: fmt.Sprintf("pod %s/%s is already at %s:%d: one of them runs, the one that the node has, else the first",
					p.Namespace, c.short(p.Name), c.paths[at], c.pods[at].Line),
				Remedy: "rename one of the two, or put it into another namespace"})
		} else {
			first[n] = i
		}
		if c.opts.KnowsObjects || c.result.Objects > 0 {
			c.references(c.paths[i], &c.pods[i])
		}
	}
}

// references notes what a pod needs and no file has.
func (c *checker) references(path string, p *manifest.Parsed) {
	var uses []references.Use
	for i := range p.Pod.Spec.Volumes {
		uses = append(uses, references.OfVolume(p.Pod, &p.Pod.Spec.Volumes[i])...)
	}
	all := append(append([]corev1.Container{}, p.Pod.Spec.InitContainers...), p.Pod.Spec.Containers...)
	for i := range all {
		uses = append(uses, references.OfContainer(&all[i])...)
	}
	noted := map[key]bool{}
	for _, u := range uses {
		k := key{kindOf(u.Ref), p.Pod.Namespace, u.Ref.GetName()}
		if k.kind == "" || u.Optional || noted[k] {
			continue
		}
		if _, has := c.objects[k]; !has {
			noted[k] = true
			c.add(Finding{Path: path, Line: p.Line, Level: Note, Code: CodeMissing,
				Message: fmt.Sprintf("no file has the %s %s/%s that pod %s refers to: it waits until there is one", k.kind,
					k.namespace, k.name, c.short(p.Pod.Name)),
				Remedy: "add it to --objects-path, or mark the reference as optional"})
		}
	}
	for i := range all {
		c.keys(path, p, &all[i])
	}
}

// keys notes the keys that the environment of a container needs and an object does not have.
func (c *checker) keys(path string, p *manifest.Parsed, container *corev1.Container) {
	for i := range container.Env {
		from := container.Env[i].ValueFrom
		var k key
		var field string
		var optional *bool
		switch {
		case from == nil:
			continue
		case from.ConfigMapKeyRef != nil:
			ref := from.ConfigMapKeyRef
			k, field, optional = key{"ConfigMap", p.Pod.Namespace, ref.Name}, ref.Key, ref.Optional
		case from.SecretKeyRef != nil:
			ref := from.SecretKeyRef
			k, field, optional = key{"Secret", p.Pod.Namespace, ref.Name}, ref.Key, ref.Optional
		default:
			continue
		}
		o, has := c.objects[k]
		if !has || o.keys == nil || o.keys[field] || optional != nil && *optional {
			continue
		}
		c.add(Finding{Path: path, Line: p.Line, Level: Note, Code: CodeMissing,
			Message: fmt.Sprintf("the %s at %s:%d has no key %q, which variable %s of container %s of pod %s needs", k.kind,
				o.path, o.line, field, container.Env[i].Name, container.Name, c.short(p.Pod.Name)),
			Remedy: "add the key, or mark the reference as optional"})
	}
}

// kindOf returns the kind of a reference by name, empty for what is no file's, such as a token.
func kindOf(r *journaletv1.ObjectRef) string {
	switch r.GetKind() {
	case journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP:
		return "ConfigMap"
	case journaletv1.ObjectKind_OBJECT_KIND_SECRET:
		return "Secret"
	}
	return ""
}
