package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history/replay"
	"github.com/journalet/journalet/runtime/history/timeline"
	"github.com/journalet/journalet/runtime/history/why"
	"github.com/journalet/journalet/runtime/reset"
	"github.com/journalet/journalet/runtime/source/validate"
	"github.com/journalet/journalet/runtime/takeover/preview"
	"github.com/journalet/journalet/test/promises"
)

// TestCommandsAreKept lists commands, aliases, flags with type and default, and output formats.
func TestCommandsAreKept(t *testing.T) {
	t.Setenv(rootDirEnv, "")
	var lines []string
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden {
			return
		}
		lines = append(lines, "command "+c.CommandPath())
		for _, alias := range c.Aliases {
			lines = append(lines, fmt.Sprintf("alias %s = %s", alias, c.CommandPath()))
		}
		flags := func(f *pflag.Flag) { lines = append(lines, flagLines(c.CommandPath(), f)...) }
		c.LocalFlags().VisitAll(flags)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	a, _ := testApp()
	walk(a.command())
	walk(a.pluginCommand())
	promises.Keep(t, "commands", lines)
}

func flagLines(path string, f *pflag.Flag) []string {
	if f.Hidden {
		return nil
	}
	lines := []string{fmt.Sprintf("flag %s --%s %s = %q", path, f.Name, f.Value.Type(), f.DefValue)}
	if f.Shorthand != "" {
		lines = append(lines, fmt.Sprintf("flag %s -%s = --%s", path, f.Shorthand, f.Name))
	}
	if _, formats, ok := strings.Cut(f.Usage, "output format: "); ok {
		for format := range strings.SplitSeq(formats, ", ") {
			lines = append(lines, fmt.Sprintf("format %s -o %s", path, format))
		}
	}
	return lines
}

func TestExitCodesAreKept(t *testing.T) {
	var lines []string
	for line := range strings.Lines(exitHelp) {
		if strings.HasPrefix(line, "  ") {
			lines = append(lines, "exit "+strings.TrimSpace(line))
		}
	}
	promises.Keep(t, "exit-codes", lines)
}

// TestOutputIsKept lists the fields of JSON and YAML, with their types. Types of other modules, such as a pod's, are
// named: Kubernetes promises their fields.
func TestOutputIsKept(t *testing.T) {
	var lines []string
	for command, v := range map[string]any{
		"adopt": preview.Report{}, "handback": preview.Report{}, "check": checkRow{}, "export": exported{},
		"images": query.ImageList{}, "journal size": bus.SizeReport{},
		"journal verify": bus.VerifyReport{}, "journal verify FILE": verifiedBundle{}, "journal prune": bus.Pruned{},
		"journal repair": bus.RepairReport{}, "pod": query.PodReport{}, "observe": messages.Flat{},
		"replay": replay.Report{}, "replay --what-if": replay.Forecast{}, "replay --diff": diffView{},
		"reset --dry-run": reset.Found{}, "reset": reset.Report{}, "timeline": timeline.Timeline{},
		"validate": validate.Result{}, "version": versionInfo{}, "why": why.Answer{},
	} {
		lines = append(lines, fieldLines("output "+command, reflect.TypeOf(v), nil)...)
	}
	promises.Keep(t, "output", lines)
}

// fieldLines returns a line for each field that encoding/json writes of a type of this module.
func fieldLines(path string, typ reflect.Type, within []reflect.Type) []string {
	switch typ.Kind() {
	case reflect.Pointer:
		return fieldLines(path, typ.Elem(), within)
	case reflect.Slice, reflect.Array:
		return fieldLines(path+"[]", typ.Elem(), within)
	case reflect.Map:
		return fieldLines(path+"{}", typ.Elem(), within)
	case reflect.Struct:
	default:
		return []string{path + " " + typ.Kind().String()}
	}
	if !strings.HasPrefix(typ.PkgPath(), modulePath) && typ.PkgPath() != "main" || generated(typ) {
		return []string{path + " " + typ.String()}
	}
	for _, t := range within {
		if t == typ {
			return []string{path + " " + typ.Name()}
		}
	}
	var lines []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "":
			lines = append(lines, fieldLines(path, f.Type, append(within, typ))...)
		default:
			if name == "" {
				name = f.Name
			}
			lines = append(lines, fieldLines(path+"."+name, f.Type, append(within, typ))...)
		}
	}
	return lines
}

const modulePath = "github.com/journalet/journalet/"

// generated reports whether a type is one of the contract in proto/, which `make proto` compares.
func generated(typ reflect.Type) bool { return strings.HasSuffix(typ.PkgPath(), "/journaletv1") }
