package redact

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pattern"
)

const (
	// Mark stands for what was taken out.
	Mark = "(withheld)"
	// minBytes is the least length of a value that counts as a credential: shorter values, such as true or 8080, would
	// tear words apart.
	minBytes = 6
	// minLineBytes is the same for one line of a value with several, such as a key in PEM.
	minLineBytes = 16
	// maxJSONBytes is Kubernetes' bound of a pod's annotations.
	maxJSONBytes = 256 << 10
)

var (
	userInURL  = pattern.Lazy(`(\w+://)[^/\s"'@]+@`)
	queryOfURL = pattern.Lazy(`(\w+://[^\s"'?]+\?)[^\s"']+`)
)

// URLs takes users, passwords and queries out of the URLs in a text: registries and proxies put tokens there.
func URLs(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	text = userInURL().ReplaceAllString(text, "${1}"+Mark+"@")
	return queryOfURL().ReplaceAllString(text, "${1}"+Mark)
}

// Text is URLs, and takes out what may be a credential in the pod's manifest: values of env, annotations and HTTP
// headers, queries of HTTP paths, and arguments of commands. It also takes out secrets, which the manifest refers to.
// Without a pod it is URLs and the secrets.
func Text(text string, pod *corev1.Pod, secrets ...string) string {
	f := finder{text: URLs(text)}
	if text == "" {
		return ""
	}
	for _, s := range secrets {
		f.secret(s)
		f.leaves(s)
	}
	if pod == nil {
		return f.clean()
	}
	f.public(pod.Namespace, pod.Name, string(pod.UID), pod.Spec.NodeName, pod.Spec.Hostname)
	for _, v := range pod.Spec.Volumes {
		f.public(v.Name)
		if v.HostPath != nil {
			f.public(v.HostPath.Path)
		}
	}
	for key, v := range pod.Annotations {
		if ofKubernetes(key) {
			f.public(v)
		} else {
			f.secret(v)
			f.leaves(v)
		}
	}
	for c := range containers.All(pod) {
		f.container(c)
	}
	return f.clean()
}

// ofKubernetes reports whether an annotation is Kubernetes' or the agent's: those configure and are no credentials. But
// kubectl's hold whole manifests.
func ofKubernetes(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	if domain == "kubectl.kubernetes.io" {
		return false
	}
	for _, suffix := range []string{"kubernetes.io", "k8s.io", "journalet.io"} {
		if domain == suffix || strings.HasSuffix(domain, "."+suffix) {
			return true
		}
	}
	return false
}

// Container is Text with the manifest of one container.
func Container(text string, c *corev1.Container) string {
	if c == nil || text == "" {
		return URLs(text)
	}
	f := finder{text: URLs(text)}
	f.container(c)
	return f.clean()
}

// finder collects what to take out of a text and what to keep.
type finder struct {
	text    string
	secrets []string // the secrets in the text
	keep    strings.Builder
}

// public keeps texts that are no secret, and values that are part of one.
func (f *finder) public(texts ...string) {
	for _, t := range texts {
		f.keep.WriteString(t + "\n")
	}
}

// secret adds a value, as it is and as an error quotes it.
func (f *finder) secret(v string) {
	f.add(v, minBytes)
	if strings.ContainsFunc(v, escaped) {
		quoted := strconv.Quote(v)
		f.add(quoted[1:len(quoted)-1], minBytes)
	}
	if strings.Contains(v, "\n") {
		for line := range strings.Lines(v) {
			f.add(strings.TrimSpace(line), minLineBytes)
		}
	}
}

// leaves adds the texts within a value that is JSON, such as the value of kubectl's annotation.
func (f *finder) leaves(v string) {
	if !strings.HasPrefix(v, "{") && !strings.HasPrefix(v, "[") {
		return
	}
	var all any
	if bounded.JSON([]byte(v), maxJSONBytes, &all) == nil {
		f.walk(all)
	}
}

func (f *finder) walk(v any) {
	switch v := v.(type) {
	case string:
		f.secret(v)
	case []any:
		for _, x := range v {
			f.walk(x)
		}
	case map[string]any:
		for _, x := range v {
			f.walk(x)
		}
	}
}

func (f *finder) add(v string, least int) {
	if len(v) >= least && strings.Contains(f.text, v) {
		f.secrets = append(f.secrets, v)
	}
}

// escaped reports whether a quoted text has another form of a character.
func escaped(r rune) bool { return r == '"' || r == '\\' || !strconv.IsPrint(r) }

// command adds the arguments of a command, and what stands behind a flag's equals sign. The program stays.
func (f *finder) command(argv []string) {
	for i, arg := range argv {
		if i == 0 && !strings.HasPrefix(arg, "-") {
			f.public(arg)
			continue
		}
		f.secret(arg)
		if _, value, ok := strings.Cut(arg, "="); ok {
			f.secret(value)
		}
	}
}

func (f *finder) container(c *corev1.Container) {
	f.public(c.Name, c.Image, c.WorkingDir, c.TerminationMessagePath)
	for _, m := range c.VolumeMounts {
		f.public(m.Name, m.MountPath, m.SubPath)
	}
	for _, p := range c.Ports {
		f.public(p.Name)
	}
	for _, e := range c.Env {
		f.public(e.Name)
		f.secret(e.Value)
	}
	f.command(c.Command)
	args := c.Args
	if len(c.Command) > 0 {
		args = append([]string{""}, args...) // none of them is the program
	}
	f.command(args)
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if p != nil {
			f.handler(p.Exec, p.HTTPGet)
		}
	}
	if c.Lifecycle == nil {
		return
	}
	for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if h != nil {
			f.handler(h.Exec, h.HTTPGet)
		}
	}
}

func (f *finder) handler(exec *corev1.ExecAction, get *corev1.HTTPGetAction) {
	if exec != nil {
		f.command(exec.Command)
	}
	if get == nil {
		return
	}
	for _, h := range get.HTTPHeaders {
		f.secret(h.Value)
	}
	if _, query, ok := strings.Cut(get.Path, "?"); ok {
		f.secret(query)
	}
}

// clean takes the secrets out of the text, the longest first, since one may be a part of another.
func (f *finder) clean() string {
	keep, text := f.keep.String(), f.text
	slices.SortFunc(f.secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	for _, s := range f.secrets {
		if !strings.Contains(keep, s) {
			text = strings.ReplaceAll(text, s, Mark)
		}
	}
	return text
}
