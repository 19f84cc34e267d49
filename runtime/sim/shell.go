package sim

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Bounds of playing a script: what loops beyond them goes on forever, silently.
const (
	maxShellSteps   = 2_000
	maxShellEffects = 1_000
	maxShellBytes   = 1 << 20  // of all output together; the rest is dropped
	maxWordBytes    = 64 << 10 // of one word after expansion; beyond it the script isn't understood
)

// shell plays a script in no time and notes what would happen when. It understands lists, && and ||, if, while, until,
// for, groups, background jobs with wait, quotes, $NAME, output redirection, and the commands in builtins below. Not
// understood are pipes, substitutions, functions and here-documents; meeting one makes the process run forever.
type shell struct {
	config *cri.ContainerConfig
	files  fileSet
	env    map[string]string
	order  []string // names in env, as they came
	params []string
	dir    string

	now     time.Duration // since the process began
	effects []Effect
	jobs    []time.Duration // when each background job ends, Forever if never
	status  int32
	steps   int
	bytes   int // of effects so far
	trap    *string
	errexit bool
	done    bool // exit was called, or the rest can't be known
	lost    bool // something was not understood, or never ends
	oom     bool

	out      Stream // where stdout of the current command goes
	toFile   string
	toAppend bool
}

func newShell(config *cri.ContainerConfig, files fileSet) *shell {
	sh := &shell{config: config, files: files.clone(), env: map[string]string{}, dir: cmp.Or(config.GetWorkingDir(), "/")}
	for _, kv := range config.GetEnvs() {
		sh.setEnv(kv.GetKey(), string(kv.GetValue()))
	}
	return sh
}

func (sh *shell) setEnv(k, v string) {
	if _, ok := sh.env[k]; !ok {
		sh.order = append(sh.order, k)
	}
	sh.env[k] = v
}

// lose gives up: the process runs forever from here.
func (sh *shell) lose() { sh.lost, sh.done = true, true }

func (sh *shell) runScript(src string) {
	n, err := parse(src)
	if err != nil {
		sh.lose()
		return
	}
	sh.run(n)
}

// run plays one node; sh.status is its exit status afterwards.
func (sh *shell) run(n *node) {
	if sh.done {
		return
	}
	if sh.steps++; sh.steps > maxShellSteps {
		sh.lose()
		return
	}
	switch n.kind {
	case "seq":
		sh.status = 0
		for _, k := range n.kids {
			sh.run(k)
			if sh.errexit && sh.status != 0 && k.kind == "simple" {
				sh.done = true
			}
		}
	case "and", "or":
		sh.run(n.kids[0])
		if (sh.status == 0) == (n.kind == "and") {
			sh.run(n.kids[1])
		}
	case "not":
		sh.run(n.kids[0])
		sh.status = boolStatus(sh.status != 0)
	case "while", "until":
		sh.loop(n)
	case "if":
		sh.runIf(n)
	case "for":
		words := sh.expandAll(n.words)
		for _, w := range words {
			if sh.done {
				return
			}
			sh.setEnv(n.name, w)
			sh.run(n.kids[0])
		}
	case "background":
		sh.background(n.kids[0])
	case "simple":
		sh.runSimple(n)
	}
}

func (sh *shell) loop(n *node) {
	for !sh.done {
		errexit := sh.errexit
		sh.errexit = false
		sh.run(n.kids[0])
		sh.errexit = errexit
		if (sh.status == 0) != (n.kind == "while") {
			sh.status = 0
			return
		}
		sh.run(n.kids[1])
	}
}

func (sh *shell) runIf(n *node) {
	errexit := sh.errexit
	sh.errexit = false
	sh.run(n.kids[0])
	sh.errexit = errexit
	switch {
	case sh.status == 0:
		sh.run(n.kids[1])
	case n.kids[2] != nil:
		sh.run(n.kids[2])
	default:
		sh.status = 0
	}
}

// background plays a job beside the script: its effects are merged, its end is kept for wait.
func (sh *shell) background(n *node) {
	job := *sh
	job.effects, job.jobs, job.trap = nil, nil, nil
	job.run(n)
	end := job.now
	if job.lost {
		end = Forever
	}
	sh.steps, sh.bytes = job.steps, job.bytes
	sh.jobs = append(sh.jobs, end)
	sh.effects = append(sh.effects, job.effects...)
	slices.SortStableFunc(sh.effects, func(a, b Effect) int { return cmp.Compare(a.After, b.After) })
	sh.status = 0
}

func (sh *shell) runSimple(n *node) {
	sh.out, sh.toFile, sh.toAppend = Stdout, "", false
	for _, r := range n.redir {
		sh.redirect(r)
	}
	rest := n.words
	for ; len(rest) > 0 && isAssignment(rest[0]); rest = rest[1:] {
		k, v, _ := strings.Cut(strings.Join(sh.expand(rest[0]), " "), "=")
		sh.setEnv(k, v)
	}
	words := sh.expandAll(rest)
	if sh.done {
		return
	}
	if len(words) == 0 {
		sh.status = 0
		if sh.toFile != "" {
			sh.emit("")
		}
		return
	}
	sh.simple(words)
}

func (sh *shell) redirect(r redirect) {
	switch r.op {
	case ">", ">>":
		sh.toFile, sh.toAppend = sh.abs(strings.Join(sh.expand(r.target), " ")), r.op == ">>"
		switch sh.toFile {
		case "/dev/stderr", "/proc/1/fd/2":
			sh.toFile, sh.out = "", Stderr
		case "/dev/stdout", "/proc/1/fd/1":
			sh.toFile = ""
		}
	case ">&2", "1>&2":
		sh.out, sh.toFile = Stderr, ""
	}
}

// isAssignment knows NAME=value at the front of a command.
func isAssignment(t token) bool {
	name, _, ok := strings.Cut(t.parts[0].text, "=")
	if !ok || name == "" || t.parts[0].quoted || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return strings.Trim(name, nameRunes) == ""
}

const nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// emit is a command's output, to a stream or a file.
func (sh *shell) emit(text string) { sh.emitTo(sh.out, text) }

func (sh *shell) emitTo(stream Stream, text string) {
	if sh.toFile != "" && stream == sh.out {
		sh.change(Effect{File: sh.toFile, Text: text, Append: sh.toAppend})
		return
	}
	if text != "" {
		sh.note(Effect{Stream: stream, Text: text})
	}
}

// change notes a change to a file and makes it visible to the rest of the script.
func (sh *shell) change(e Effect) {
	if e.File == "/dev/null" {
		return
	}
	if e.Append {
		// The file may live behind a mount: keep the view of it whole, whatever the effect will be.
		old, _ := readFile(sh.config, sh.files, e.File)
		sh.files.apply(e.File, Effect{Text: old + e.Text})
	} else {
		sh.files.apply(e.File, e)
	}
	sh.note(e)
}

func (sh *shell) note(e Effect) {
	if len(sh.effects) < maxShellEffects && sh.bytes+len(e.Text) <= maxShellBytes {
		e.After = sh.now
		sh.bytes += len(e.Text)
		sh.effects = append(sh.effects, e)
	}
}

func (sh *shell) abs(name string) string {
	if !path.IsAbs(name) {
		name = path.Join(sh.dir, name)
	}
	return path.Clean(name)
}

func (sh *shell) expandAll(words []token) (out []string) {
	for _, w := range words {
		if sh.done {
			return nil
		}
		out = append(out, sh.expand(w)...)
	}
	return out
}

// expand replaces variables. A word made only of an unquoted variable falls apart at blanks, or away if it is empty.
func (sh *shell) expand(t token) []string {
	var b strings.Builder
	quoted := false
	for _, p := range t.parts {
		quoted = quoted || p.quoted
		if p.expand {
			b.WriteString(sh.substitute(p.text))
		} else {
			b.WriteString(p.text)
		}
	}
	if b.Len() > maxWordBytes {
		sh.lose()
		return nil
	}
	if !quoted && strings.Contains(t.parts[0].text, "$") {
		return strings.Fields(b.String())
	}
	return []string{b.String()}
}

func (sh *shell) substitute(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		rest := s[i+1:]
		switch rest[0] {
		case '{':
			end := strings.IndexByte(rest, '}')
			if end < 0 || strings.Trim(rest[1:end], nameRunes) != "" {
				sh.lose() // ${NAME:-default} and its kin
				return ""
			}
			b.WriteString(sh.variable(rest[1:end]))
			i += end + 1
		case '?', '$', '#':
			b.WriteString(sh.variable(rest[:1]))
			i++
		default:
			n := len(rest) - len(strings.TrimLeft(rest, nameRunes))
			if n == 0 {
				b.WriteByte('$')
				continue
			}
			b.WriteString(sh.variable(rest[:n]))
			i += n
		}
	}
	return b.String()
}

func (sh *shell) variable(name string) string {
	switch name {
	case "?":
		return strconv.Itoa(int(sh.status))
	case "$":
		return "1"
	case "#":
		return strconv.Itoa(max(len(sh.params)-1, 0))
	case "PWD":
		return sh.dir
	}
	if i, err := strconv.Atoi(name); err == nil {
		if i < len(sh.params) {
			return sh.params[i]
		}
		return ""
	}
	return sh.env[name]
}

func boolStatus(ok bool) int32 {
	if ok {
		return 0
	}
	return 1
}

func (sh *shell) fail(code int32, format string, args ...any) {
	sh.emitTo(Stderr, fmt.Sprintf(format, args...)+"\n")
	sh.status = code
}
