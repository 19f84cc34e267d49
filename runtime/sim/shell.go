package sim

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// Bounds of a script. One that loops beyond them runs forever, silently.
const (
	maxScriptBytes  = 16 << 10
	maxShellSteps   = 2_000
	maxShellEffects = 1_000
	maxShellBytes   = 1 << 20  // of all output together; the rest is dropped
	maxValueBytes   = 64 << 10 // of all variables in one expansion; a script beyond it is not understood
)

// shell runs a script in no time and records what would happen when. Package syntax parses it, package expand expands
// its words, and this evaluates the rest. The library's interpreter is not used: it runs background jobs and pipes in
// goroutines that no virtual clock orders, some of its builtins and variables reach the host, and it bounds neither
// loops nor strings. Not understood are pipes, command substitutions, functions, case, here-documents, brace expansion
// and input redirection: from there on the process runs forever.
type shell struct {
	config   *cri.ContainerConfig
	files    fileSet
	vars     map[string]string
	params   []string // $0, $1, ...
	dir      string
	out, err sink   // of the current command
	program  string // the container's own, without env and busybox before it
	inScript bool
	trap     *string // the handler of TERM

	now       time.Duration   // since the process began
	effects   []Effect        // in the script's order, which is not the order of time beside background jobs
	jobs      []time.Duration // when each background job ends, Forever if never
	status    int32
	errexit   bool
	condition bool // a failure is an outcome here: errexit does not apply
	done      bool // exit was called, or the rest is unknown
	lost      bool // something is not understood, or never ends
	endless   bool // it never ends: it was understood
	oom       bool

	steps    int
	bytes    int // of effects so far
	expanded int // bytes of variables in the current expansion
}

// sink is a stream, or a file if file is set.
type sink struct {
	stream Stream
	file   string
}

func newShell(config *cri.ContainerConfig, files fileSet) *shell {
	sh := &shell{
		config: config, files: maps.Clone(files), vars: map[string]string{}, dir: cmp.Or(config.GetWorkingDir(), "/"),
		out: sink{stream: Stdout}, err: sink{stream: Stderr},
	}
	for _, kv := range config.GetEnvs() {
		sh.vars[kv.GetKey()] = string(kv.GetValue())
	}
	return sh
}

// lose gives up: the process runs forever from here.
func (sh *shell) lose() int32 {
	sh.lost, sh.done = true, true
	return 0
}

// never is lose for what was understood.
func (sh *shell) never() int32 {
	sh.endless = true
	return sh.lose()
}

// interpret runs a script; sh.status is its exit status afterwards.
func (sh *shell) interpret(src string) {
	sh.inScript = true
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(src), "")
	if err != nil || len(src) > maxScriptBytes {
		sh.lose()
		return
	}
	sh.list(file.Stmts)
}

func (sh *shell) list(stmts []*syntax.Stmt) {
	for _, st := range stmts {
		sh.statement(st)
	}
}

func (sh *shell) statement(st *syntax.Stmt) {
	if sh.steps++; sh.steps > maxShellSteps {
		sh.never()
	}
	out, err := sh.out, sh.err
	for _, r := range st.Redirs {
		sh.redirect(r)
	}
	switch {
	case sh.done:
	case st.Background:
		sh.background(st.Cmd)
	default:
		sh.command(st.Cmd)
	}
	sh.out, sh.err = out, err
	if sh.done {
		return
	}
	switch st.Cmd.(type) {
	case *syntax.CallExpr, *syntax.Subshell: // of the others, the command that failed has ended the script
		sh.done = sh.errexit && !sh.condition && !st.Negated && sh.status != 0
	}
	if st.Negated {
		sh.status = statusOf(sh.status != 0)
	}
}

func (sh *shell) command(cmd syntax.Command) {
	switch c := cmd.(type) {
	case nil: // only redirections
		sh.status = 0
	case *syntax.CallExpr:
		sh.call(c)
	case *syntax.Block:
		sh.list(c.Stmts)
	case *syntax.Subshell:
		sub := sh.fork()
		sub.list(c.Stmts)
		sh.join(sub)
	case *syntax.BinaryCmd:
		if c.Op != syntax.AndStmt && c.Op != syntax.OrStmt {
			sh.lose()
		} else if sh.holds(c.X) == (c.Op == syntax.AndStmt) {
			sh.statement(c.Y)
		}
	case *syntax.IfClause:
		switch {
		case len(c.Cond) == 0 || sh.holds(c.Cond...): // an else has no condition
			sh.list(c.Then)
		case c.Else != nil:
			sh.command(c.Else)
		case !sh.done:
			sh.status = 0
		}
	case *syntax.WhileClause:
		var status int32
		for sh.holds(c.Cond...) != c.Until && !sh.done {
			sh.list(c.Do)
			status = sh.status
		}
		if !sh.done {
			sh.status = status
		}
	case *syntax.ForClause:
		sh.forEach(c)
	default:
		sh.lose()
	}
}

// holds runs a condition and reports whether it succeeded.
func (sh *shell) holds(cond ...*syntax.Stmt) bool {
	nested := sh.condition
	sh.condition = true
	sh.list(cond)
	sh.condition = nested
	return sh.status == 0
}

func (sh *shell) forEach(c *syntax.ForClause) {
	words, ok := c.Loop.(*syntax.WordIter)
	if !ok || !words.InPos.IsValid() {
		sh.lose()
		return
	}
	items := sh.fields(words.Items...)
	if len(items) == 0 {
		sh.status = 0
	}
	for _, w := range items {
		sh.vars[words.Name.Value] = w
		sh.list(c.Do)
	}
}

// fork returns a subshell: time and effects continue in it, variables and traps are its own.
func (sh *shell) fork() *shell {
	sub := *sh
	sub.vars, sub.jobs, sub.trap = maps.Clone(sh.vars), nil, nil
	return &sub
}

// join takes over from a subshell that has ended.
func (sh *shell) join(sub *shell) {
	sh.now, sh.status, sh.lost, sh.oom, sh.done = sub.now, sub.status, sub.lost, sub.oom, sub.lost || sub.oom
	sh.endless = sub.endless
	sh.effects, sh.steps, sh.bytes = sub.effects, sub.steps, sub.bytes
}

// background runs a job beside the script and keeps its end for wait.
func (sh *shell) background(cmd syntax.Command) {
	job := sh.fork()
	job.command(cmd)
	end := job.now
	if job.lost {
		end, sh.endless = Forever, job.endless
	}
	sh.jobs = append(sh.jobs, end)
	sh.effects, sh.steps, sh.bytes, sh.status = job.effects, job.steps, job.bytes, 0
}

func (sh *shell) call(c *syntax.CallExpr) {
	argv := sh.fields(c.Args...)
	if len(argv) > 0 && len(c.Assigns) > 0 {
		defer func(vars map[string]string) { sh.vars = vars }(maps.Clone(sh.vars)) // they are the command's only
	}
	for _, a := range c.Assigns {
		sh.vars[a.Name.Value] = sh.literal(a.Value)
	}
	switch {
	case sh.done:
	case len(argv) > 0:
		sh.status = sh.run(argv)
	default:
		sh.status = 0
	}
}

// export sets a variable if pair is NAME=value, and reports whether it is.
func (sh *shell) export(pair string) bool {
	name, value, ok := strings.Cut(pair, "=")
	if ok {
		sh.vars[name] = value
	}
	return ok
}

func (sh *shell) redirect(r *syntax.Redirect) {
	target, to := sh.literal(r.Word), &sh.out
	if r.N != nil && r.N.Value == "2" {
		to = &sh.err
	}
	switch {
	case sh.done:
	case r.N != nil && r.N.Value != "1" && r.N.Value != "2":
		sh.lose()
	case r.Op == syntax.DplOut && target == "1":
		*to = sh.out
	case r.Op == syntax.DplOut && target == "2":
		*to = sh.err
	case r.Op == syntax.RdrOut || r.Op == syntax.AppOut:
		*to = sh.open(sh.abs(target), r.Op == syntax.AppOut)
	default:
		sh.lose()
	}
}

// open creates a file, or empties it unless it is written to at its end.
func (sh *shell) open(file string, atEnd bool) sink {
	switch file {
	case "/dev/stdout", "/proc/1/fd/1":
		return sink{stream: Stdout}
	case "/dev/stderr", "/proc/1/fd/2":
		return sink{stream: Stderr}
	}
	sh.change(Effect{File: file, Append: atEnd})
	return sink{file: file}
}

func (sh *shell) write(to sink, text string) {
	switch {
	case text == "":
	case to.file != "":
		sh.change(Effect{File: to.file, Text: text, Append: true})
	default:
		sh.note(Effect{Stream: to.stream, Text: text})
	}
}

// change records a change to a file and shows it to the rest of the script.
func (sh *shell) change(e Effect) {
	if e.File == "/dev/null" {
		return
	}
	view := e
	if e.Append {
		// The file may be on the host, where the effect comes later: the script's view holds all of it.
		old, _ := readFile(sh.config, sh.files, e.File)
		view = Effect{Text: old + e.Text}
	}
	sh.files.apply(e.File, view)
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

// expansion is the environment of one expansion: without command substitution, without globbing.
func (sh *shell) expansion() *expand.Config {
	sh.expanded = 0
	return &expand.Config{Env: expand.FuncEnviron(sh.variable)}
}

func (sh *shell) fields(words ...*syntax.Word) []string {
	for _, w := range words {
		if w := *w; syntax.SplitBraces(&w) { // {1..1000000000}
			sh.lose()
			return nil
		}
	}
	fields, err := expand.Fields(sh.expansion(), words...)
	if err != nil {
		sh.lose()
	}
	return fields
}

func (sh *shell) literal(w *syntax.Word) string {
	text, err := expand.Literal(sh.expansion(), w)
	if err != nil {
		sh.lose()
	}
	return text
}

func (sh *shell) variable(name string) string {
	value := sh.vars[name]
	switch name {
	case "?":
		value = strconv.Itoa(int(sh.status))
	case "$":
		value = "1"
	case "#":
		value = strconv.Itoa(max(len(sh.params)-1, 0))
	case "@", "*":
		value = strings.Join(sh.params[min(len(sh.params), 1):], " ")
	case "PWD":
		value = sh.dir
	}
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(sh.params) {
		value = sh.params[i]
	}
	if user, ok := strings.CutPrefix(name, "HOME "); ok {
		value = "~" + user // without a value, package expand searches the host's users
	}
	if sh.expanded += len(value); sh.expanded > maxValueBytes {
		sh.lose()
		return ""
	}
	return value
}

func statusOf(ok bool) int32 {
	if ok {
		return 0
	}
	return 1
}

// result returns what was recorded as a behaviour.
func (sh *shell) result() Behaviour {
	slices.SortStableFunc(sh.effects, func(a, b Effect) int { return cmp.Compare(a.After, b.After) })
	b := Behaviour{RunFor: sh.now, ExitCode: sh.status, OOM: sh.oom, Effects: sh.effects}
	if sh.lost {
		b.RunFor, b.ExitCode = Forever, 0
	}
	return b
}
