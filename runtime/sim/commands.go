package sim

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"

	"github.com/journalet/journalet/runtime/pattern"
)

// run executes one command and returns its exit status. A program that is not known here runs forever.
func (sh *shell) run(argv []string) int32 {
	name, args := path.Base(argv[0]), argv[1:]
	if !sh.inScript {
		sh.program = name
	}
	switch name {
	case "true", ":", "mkdir", "chmod", "chown", "umask", "sync":
	case "false":
		return 1
	case "sleep":
		return sh.sleep(args)
	case "exit":
		return sh.exit(args)
	case "exec", "busybox":
		if len(args) > 0 {
			status := sh.run(args)
			sh.done = sh.done || name == "exec"
			return status
		}
	case "env":
		for len(args) > 0 && sh.export(args[0]) {
			args = args[1:]
		}
		if len(args) > 0 {
			return sh.run(args)
		}
		return sh.printenv(nil)
	case "export":
		for _, a := range args {
			sh.export(a)
		}
	case "printenv":
		return sh.printenv(args)
	case "hostname":
		sh.write(sh.out, sh.vars["HOSTNAME"]+"\n")
	case "pwd":
		sh.write(sh.out, sh.dir+"\n")
	case "cd":
		sh.dir = sh.abs(append(args, "/")[0])
	case "echo":
		sh.echo(args)
	case "printf":
		return sh.printf(args)
	case "set":
		sh.set(args)
	case "trap":
		sh.setTrap(args)
	case "wait":
		return sh.wait()
	case "cat":
		return sh.cat(args)
	case "tail":
		return sh.tail(args)
	case "test":
		return statusOf(sh.test(args))
	case "[":
		return statusOf(sh.test(args[:max(len(args)-1, 0)]))
	case "touch", "rm":
		for _, a := range args {
			if !strings.HasPrefix(a, "-") {
				sh.change(Effect{File: sh.abs(a), Append: name == "touch", Remove: name == "rm"})
			}
		}
	case "sh", "ash", "bash", "dash":
		return sh.shell(args)
	default:
		return sh.lose()
	}
	return 0
}

// shell runs the script after -c, which may be joined with other flags (-ec). A shell without arguments ends at once,
// since its input is closed; the content of a script file is unknown.
func (sh *shell) shell(args []string) int32 {
	flags := ""
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && !strings.Contains(flags, "c") {
		if !strings.HasPrefix(args[0], "--") {
			flags += args[0]
		}
		args = args[1:]
	}
	switch {
	case strings.Contains(flags, "c") && len(args) > 0:
	case flags == "" && len(args) == 0:
		return 0
	default:
		return sh.lose()
	}
	sub := sh
	if sh.inScript {
		sub = sh.fork()
	}
	sub.params, sub.errexit, sub.condition, sub.status = args[1:], strings.Contains(flags, "e"), false, 0
	sub.interpret(args[0])
	sh.join(sub)
	return sh.status
}

// sleepUnits are the units of sleep in busybox and coreutils, in seconds.
var sleepUnits = map[string]float64{"s": 1, "m": 60, "h": 3600, "d": 86400}

// maxSleep keeps durations far from overflow; longer ones count as forever.
const maxSleep = 100 * 365 * 24 * time.Hour

func (sh *shell) sleep(args []string) int32 {
	total := 0.0
	for _, a := range args {
		unit, ok := sleepUnits[a[max(len(a)-1, 0):]]
		if !ok {
			unit = 1
		} else {
			a = a[:len(a)-1]
		}
		n, err := strconv.ParseFloat(a, 64) // "inf" and "infinity" too
		if err != nil || !(n >= 0) {        // NaN too
			return sh.fail("sleep: invalid number '" + a + "'")
		}
		total += n * unit
	}
	switch {
	case len(args) == 0:
		return sh.fail("sleep: missing operand")
	case total > maxSleep.Seconds() || sh.now > maxSleep:
		return sh.never()
	}
	sh.now += time.Duration(total * float64(time.Second))
	return 0
}

// fail writes an error message; commands return its status.
func (sh *shell) fail(message string) int32 {
	sh.write(sh.err, message+"\n")
	return 1
}

func (sh *shell) exit(args []string) int32 {
	sh.done = true
	if len(args) == 0 {
		return sh.status
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		n = 2
	}
	return int32(n & 255)
}

func (sh *shell) printenv(names []string) (status int32) {
	if len(names) == 0 {
		var all strings.Builder
		for _, name := range slices.Sorted(maps.Keys(sh.vars)) {
			all.WriteString(name + "=" + sh.vars[name] + "\n")
		}
		sh.write(sh.out, all.String())
	}
	for _, name := range names {
		if value, ok := sh.vars[name]; ok {
			sh.write(sh.out, value+"\n")
		} else {
			status = 1
		}
	}
	return status
}

func (sh *shell) echo(args []string) {
	end, escapes := "\n", false
	for ; len(args) > 0 && (args[0] == "-n" || args[0] == "-e"); args = args[1:] {
		if args[0] == "-n" {
			end = ""
		} else {
			escapes = true
		}
	}
	text := strings.Join(args, " ")
	if escapes {
		text, _, _ = expand.Format(sh.expansion(), text, nil)
	}
	sh.write(sh.out, text+end)
}

// otherVerbs are verbs that printf does not know here: a width could be of any size.
var otherVerbs = pattern.Lazy(`%[^sd%]`)

func (sh *shell) printf(args []string) int32 {
	if len(args) == 0 || otherVerbs().MatchString(args[0]) {
		return sh.lose()
	}
	text, _, err := expand.Format(sh.expansion(), args[0], args[1:])
	if err != nil {
		return sh.fail(err.Error())
	}
	sh.write(sh.out, text)
	return 0
}

// set knows -e and +e.
func (sh *shell) set(args []string) {
	for _, a := range args {
		if strings.Contains(a, "e") && (a[0] == '-' || a[0] == '+') {
			sh.errexit = a[0] == '-'
		}
	}
}

// setTrap keeps the handler of TERM; no other signal is ever sent.
func (sh *shell) setTrap(args []string) {
	for i, signal := range args {
		if i > 0 && slices.Contains([]string{"TERM", "SIGTERM", "15"}, signal) {
			sh.trap = &args[0]
			if args[0] == "-" {
				sh.trap = nil
			}
		}
	}
}

func (sh *shell) wait() int32 {
	for _, end := range sh.jobs {
		if end < 0 {
			return sh.lose()
		}
		sh.now = max(sh.now, end)
	}
	sh.jobs = nil
	return 0
}

func (sh *shell) cat(args []string) (status int32) {
	for _, a := range args {
		text, err := readFile(sh.config, sh.files, sh.abs(a))
		if err != nil {
			status = sh.fail("cat: can't open '" + a + "': No such file or directory")
			continue
		}
		sh.write(sh.out, text)
	}
	return status
}

// tail knows one idiom: tail /dev/zero eats memory until the limit kills it, within about 100 ms.
func (sh *shell) tail(args []string) int32 {
	if len(args) != 1 || args[0] != "/dev/zero" || sh.config.GetLinux().GetResources().GetMemoryLimitInBytes() <= 0 {
		return sh.lose()
	}
	sh.now += 100 * time.Millisecond
	sh.oom, sh.done = true, true
	return 0
}

func (sh *shell) test(args []string) bool {
	if len(args) > 0 && args[0] == "!" {
		return !sh.test(args[1:])
	}
	switch len(args) {
	case 0:
		return false
	case 1:
		return args[0] != ""
	case 2:
		text, err := readFile(sh.config, sh.files, sh.abs(args[1]))
		switch args[0] {
		case "-z":
			return args[1] == ""
		case "-n":
			return args[1] != ""
		case "-e", "-f", "-r":
			return err == nil
		case "-s":
			return err == nil && text != ""
		}
	case 3:
		a, errA := strconv.Atoi(args[0])
		b, errB := strconv.Atoi(args[2])
		numbers := errA == nil && errB == nil
		switch args[1] {
		case "=", "==":
			return args[0] == args[2]
		case "!=":
			return args[0] != args[2]
		case "-eq":
			return numbers && a == b
		case "-ne":
			return numbers && a != b
		case "-lt":
			return numbers && a < b
		case "-gt":
			return numbers && a > b
		}
	}
	sh.lose()
	return false
}
