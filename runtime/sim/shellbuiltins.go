package sim

import (
	"path"
	"strconv"
	"strings"
	"time"
)

// builtins are the commands that are understood. Filled in init, because exec and the shells lead back into it.
var builtins map[string]func(*shell, []string)

func init() {
	nothing := func(sh *shell, _ []string) { sh.status = 0 }
	builtins = map[string]func(*shell, []string){
		"true": nothing, ":": nothing, "mkdir": nothing, "chmod": nothing, "chown": nothing, "umask": nothing,
		"sync":  nothing,
		"false": func(sh *shell, _ []string) { sh.status = 1 },
		"sleep": builtinSleep, "exit": builtinExit, "echo": builtinEcho, "printf": builtinPrintf, "set": builtinSet,
		"env": builtinEnv, "printenv": builtinEnv, "export": builtinExport, "pwd": builtinPwd, "cd": builtinCd,
		"trap": builtinTrap, "wait": builtinWait, "exec": builtinExec, "cat": builtinCat, "tail": builtinTail,
		"test": builtinTest, "[": builtinTest, "touch": builtinTouch, "rm": builtinRm, "hostname": builtinHostname,
		"sh": builtinShell, "ash": builtinShell, "bash": builtinShell, "dash": builtinShell,
	}
}

// simple runs one command; what is not a builtin runs forever.
func (sh *shell) simple(argv []string) {
	if f := builtins[path.Base(argv[0])]; f != nil {
		f(sh, argv[1:])
		return
	}
	sh.lose()
}

// sleepUnits are those of busybox and coreutils.
var sleepUnits = map[byte]float64{'s': 1, 'm': 60, 'h': 3600, 'd': 86400}

// maxSleep keeps durations far from overflow; longer ones count as forever.
const maxSleep = 100 * 365 * 24 * time.Hour

func builtinSleep(sh *shell, args []string) {
	total := 0.0
	for _, a := range args {
		if a == "infinity" || a == "inf" {
			sh.lose()
			return
		}
		unit := 1.0
		if a != "" {
			if u, ok := sleepUnits[a[len(a)-1]]; ok {
				unit, a = u, a[:len(a)-1]
			}
		}
		n, err := strconv.ParseFloat(a, 64)
		if err != nil || !(n >= 0) { // NaN too
			sh.fail(1, "sleep: invalid number '%s'", a)
			return
		}
		total += n * unit
	}
	if len(args) == 0 {
		sh.fail(1, "sleep: missing operand")
		return
	}
	if total > maxSleep.Seconds() || sh.now > maxSleep {
		sh.lose()
		return
	}
	sh.now += time.Duration(total * float64(time.Second))
	sh.status = 0
}

func builtinExit(sh *shell, args []string) {
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			n = 2
		}
		sh.status = int32(n & 255)
	}
	sh.done = true
}

func builtinEcho(sh *shell, args []string) {
	end, escapes := "\n", false
	for len(args) > 0 && (args[0] == "-n" || args[0] == "-e") {
		if args[0] == "-n" {
			end = ""
		} else {
			escapes = true
		}
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if escapes {
		text = unescape(text)
	}
	sh.emit(text + end)
	sh.status = 0
}

func unescape(s string) string {
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`).Replace(s)
}

// builtinPrintf knows %s, %d and %%.
func builtinPrintf(sh *shell, args []string) {
	if len(args) == 0 {
		sh.fail(2, "printf: missing format")
		return
	}
	format, rest := unescape(args[0]), args[1:]
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		switch format[i] {
		case '%':
			b.WriteByte('%')
		case 's', 'd':
			if len(rest) > 0 {
				b.WriteString(rest[0])
				rest = rest[1:]
			}
		default:
			sh.lose()
			return
		}
	}
	sh.emit(b.String())
	sh.status = 0
}

func builtinSet(sh *shell, args []string) {
	for _, a := range args {
		switch {
		case strings.HasPrefix(a, "-") && strings.Contains(a, "e"):
			sh.errexit = true
		case strings.HasPrefix(a, "+") && strings.Contains(a, "e"):
			sh.errexit = false
		}
	}
	sh.status = 0
}

func builtinEnv(sh *shell, args []string) {
	sh.status = 0
	if len(args) == 0 {
		var b strings.Builder
		for _, k := range sh.order {
			b.WriteString(k + "=" + sh.env[k] + "\n")
		}
		sh.emit(b.String())
		return
	}
	for _, k := range args {
		if v, ok := sh.env[k]; ok {
			sh.emit(v + "\n")
		} else {
			sh.status = 1
		}
	}
}

func builtinExport(sh *shell, args []string) {
	for _, a := range args {
		if k, v, ok := strings.Cut(a, "="); ok {
			sh.setEnv(k, v)
		}
	}
	sh.status = 0
}

func builtinPwd(sh *shell, _ []string) {
	sh.emit(sh.dir + "\n")
	sh.status = 0
}

func builtinCd(sh *shell, args []string) {
	sh.dir = "/"
	if len(args) > 0 {
		sh.dir = sh.abs(args[0])
	}
	sh.status = 0
}

func builtinTrap(sh *shell, args []string) {
	sh.status = 0
	if len(args) < 2 {
		return
	}
	for _, sig := range args[1:] {
		switch strings.TrimPrefix(sig, "SIG") {
		case "TERM", "15":
			script := args[0]
			sh.trap = &script
			if script == "-" {
				sh.trap = nil
			}
		}
	}
}

func builtinWait(sh *shell, _ []string) {
	for _, end := range sh.jobs {
		if end < 0 {
			sh.lose()
			return
		}
		sh.now = max(sh.now, end)
	}
	sh.jobs, sh.status = nil, 0
}

func builtinExec(sh *shell, args []string) {
	if len(args) == 0 {
		sh.status = 0
		return
	}
	sh.simple(args)
	sh.done = true
}

func builtinCat(sh *shell, args []string) {
	if len(args) == 0 {
		sh.status = 0 // stdin is closed
		return
	}
	sh.status = 0
	for _, a := range args {
		text, err := readFile(sh.config, sh.files, sh.abs(a))
		if err != nil {
			sh.fail(1, "cat: can't open '%s': No such file or directory", a)
			continue
		}
		sh.emit(text)
	}
}

// builtinTail knows one idiom: tail /dev/zero eats memory until the limit kills it, within about 100 ms.
func builtinTail(sh *shell, args []string) {
	if len(args) == 1 && args[0] == "/dev/zero" && sh.config.GetLinux().GetResources().GetMemoryLimitInBytes() > 0 {
		sh.now += 100 * time.Millisecond
		sh.oom, sh.done = true, true
		return
	}
	sh.lose()
}

func builtinTest(sh *shell, args []string) {
	if n := len(args); n > 0 && args[n-1] == "]" {
		args = args[:n-1]
	}
	negate := len(args) > 0 && args[0] == "!"
	if negate {
		args = args[1:]
	}
	ok, known := sh.test(args)
	if !known {
		sh.lose()
		return
	}
	sh.status = boolStatus(ok != negate)
}

func (sh *shell) test(args []string) (ok, known bool) {
	switch len(args) {
	case 0:
		return false, true
	case 1:
		return args[0] != "", true
	case 2:
		text, err := readFile(sh.config, sh.files, sh.abs(args[1]))
		switch args[0] {
		case "-z":
			return args[1] == "", true
		case "-n":
			return args[1] != "", true
		case "-e", "-f", "-r":
			return err == nil, true
		case "-s":
			return err == nil && text != "", true
		}
	case 3:
		a, errA := strconv.Atoi(args[0])
		b, errB := strconv.Atoi(args[2])
		numbers := errA == nil && errB == nil
		switch args[1] {
		case "=", "==":
			return args[0] == args[2], true
		case "!=":
			return args[0] != args[2], true
		case "-eq":
			return numbers && a == b, true
		case "-ne":
			return numbers && a != b, true
		case "-lt":
			return numbers && a < b, true
		case "-gt":
			return numbers && a > b, true
		}
	}
	return false, false
}

func builtinTouch(sh *shell, args []string) {
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			sh.change(Effect{File: sh.abs(a), Append: true})
		}
	}
	sh.status = 0
}

func builtinRm(sh *shell, args []string) {
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			sh.change(Effect{File: sh.abs(a), Remove: true})
		}
	}
	sh.status = 0
}

func builtinHostname(sh *shell, _ []string) {
	sh.emit(sh.env["HOSTNAME"] + "\n")
	sh.status = 0
}

func builtinShell(sh *shell, args []string) {
	in, ok := shellScript(args)
	if !ok {
		sh.lose()
		return
	}
	inner := *sh
	inner.params, inner.errexit = in.params, in.errexit
	inner.done, inner.trap = false, nil
	inner.runScript(in.script)
	sh.now, sh.effects, sh.status, sh.steps, sh.oom = inner.now, inner.effects, inner.status, inner.steps, inner.oom
	sh.bytes = inner.bytes
	if inner.lost || inner.oom {
		sh.lost, sh.done = inner.lost, true
	}
}
