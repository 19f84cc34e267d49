package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/source/runtimeclass"
	"github.com/journalet/journalet/runtime/source/validate"
)

// formatSARIF is a format of findings that CI systems read.
const formatSARIF = "sarif"

// stdinPath is the path of the standard input in findings.
const stdinPath = "stdin"

// validateFlags are the flags of `journalet run` that change what validate finds. validate takes the others as well, so
// that the arguments of an agent can be given as they are.
var validateFlags = []string{"config", "config-dir", "static-pod-path", "hostname-override", "runtime-class-path",
	"objects-path", "service-account-token-file"}

// validation are the flags of validate itself.
type validation struct {
	strict, all bool
}

func (a *app) validateCommand() *cobra.Command {
	cfg := a.defaults()
	var v validation
	cmd := &cobra.Command{
		Use:   "validate [FILE | DIR | -]...",
		Short: "Check manifests without a node",
		Long: "Report how the agent would take manifests: every field that it refuses, with file, line and remedy,\n" +
			"warnings, and objects that pods refer to and no file has. Nothing is run, no node is needed. `-` reads the\n" +
			"standard input; without arguments it reads --static-pod-path, which --config may set. A directory is read as\n" +
			"by the agent: without hidden files and directories below it.\n\n" +
			"It takes the flags of `journalet run`; listed are those that matter here. Exit code 1 if a pod or a file would\n" +
			"be refused, with --strict also after a warning, 6 if a path does not exist.",
		Example: "  journalet validate pods/\n" +
			"  kustomize build . | journalet validate -\n" +
			"  journalet validate --config /var/lib/kubelet/config.yaml\n" +
			"  journalet validate --strict -o sarif pods/ > journalet.sarif",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			problems, err := a.load(cmd.Flags(), cfg)
			if err != nil {
				return err
			}
			r, err := a.validate(cmd.Context(), cmd.InOrStdin(), cfg, args)
			if err != nil {
				return err
			}
			for _, p := range problems {
				r.Findings = append(r.Findings, validate.Finding{Path: p.File, Field: p.Field, Level: validate.Warning,
					Code: "configuration", Message: p.Message})
			}
			if err := a.printValidated(r, v.all); err != nil {
				return err
			}
			if r.Count(validate.Error) > 0 || v.strict && r.Count(validate.Warning) > 0 {
				return errCheckFailed
			}
			return nil
		},
	}
	f := cmd.Flags()
	cfg.AddFlags(f)
	f.BoolVar(&v.strict, "strict", false, "exit with code 1 after a warning, too")
	f.BoolVar(&v.all, "all", false, "print each line of a finding that is the same several times in a file")
	own := append(slices.Clone(validateFlags), "strict", "all")
	f.VisitAll(func(f *pflag.Flag) { f.Hidden = f.Hidden || !slices.Contains(own, f.Name) })
	return a.outputFlag(cmd, formatText, formatJSON, formatYAML, formatSARIF)
}

// validate reads and checks what the arguments name.
func (a *app) validate(
	ctx context.Context, stdin io.Reader, cfg *config.Config, args []string,
) (*validate.Result, error) {
	if len(args) == 0 {
		args = []string{cfg.StaticPodPath}
	}
	files, err := readAll(args, stdin)
	if err != nil {
		return nil, err
	}
	opts := validate.Options{
		Manifest: manifest.Options{
			NodeName: strings.ToLower(cfg.HostnameOverride), Source: manifest.SourceFile,
			HasToken: func(namespace, account string) bool { return cfg.ServiceAccountTokenFiles[namespace+"/"+account] != "" },
		},
		KnowsObjects: cfg.ObjectsPath != "", Progress: a.progress("checked", "files"),
	}
	others := slices.DeleteFunc(append(slices.Clone(args), cfg.ObjectsPath), func(path string) bool {
		return path == validate.Stdin
	})
	classes := runtimeclass.New(cfg.RuntimeClassPath, slog.New(slog.DiscardHandler), others...)
	opts.Manifest.Classes = classes.Current()
	if cfg.ObjectsPath != "" {
		if opts.Objects, err = readAll([]string{cfg.ObjectsPath}, stdin); err != nil {
			return nil, err
		}
	}
	r := validate.Check(ctx, files, opts)
	a.endProgress()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, p := range classes.Problems() {
		r.Findings = append(r.Findings, validate.Finding{Path: cfg.RuntimeClassPath, Level: validate.Error,
			Code: string(manifest.CodeInvalid), Message: p})
	}
	return r, nil
}

// readAll reads what arguments name, in their order.
func readAll(args []string, stdin io.Reader) ([]validate.File, error) {
	var all []validate.File
	for _, path := range args {
		if path == validate.Stdin {
			all = append(all, validate.ReadFrom(stdin, stdinPath))
			continue
		}
		files, err := validate.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, notFoundError{fmt.Errorf("%s does not exist", path)}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	return all, nil
}

func (a *app) printValidated(r *validate.Result, all bool) error {
	switch a.output {
	case formatSARIF:
		return printValue(a.out, formatJSON, sarifOf(r))
	case formatText:
	default:
		return printValue(a.out, a.output, struct {
			*validate.Result
			Errors   int `json:"errors"`
			Warnings int `json:"warnings"`
			Notes    int `json:"notes"`
		}{r, r.Count(validate.Error), r.Count(validate.Warning), r.Count(validate.Note)})
	}
	colours := map[validate.Level]string{validate.Error: red, validate.Warning: yellow, validate.Note: dim}
	for _, g := range grouped(r.Findings, all) {
		f := g.first
		where := f.Path
		if f.Line > 0 {
			where = fmt.Sprintf("%s:%d", f.Path, f.Line)
		}
		text := ": "
		if f.Field != "" {
			text += f.Field + ": "
		}
		text += f.Message
		if f.Remedy != "" {
			text += "; " + f.Remedy
		}
		if len(g.lines) > 0 {
			text += fmt.Sprintf(" (and on line%s %s)", plural(len(g.lines)), strings.Join(g.lines, ", "))
		}
		if err := a.out.paint(a.out.colour(), painted{bold, where}, painted{"", ": "},
			painted{colours[f.Level], string(f.Level)}, painted{"", text}); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.out, "%s, %s accepted: %s, %s, %s\n", count(r.Files, "file"), count(len(r.Accepted), "pod"),
		count(r.Count(validate.Error), "error"), count(r.Count(validate.Warning), "warning"),
		count(r.Count(validate.Note), "note"))
	return err
}

// group is a finding, and the other lines of its file that have the same.
type group struct {
	first validate.Finding
	lines []string
}

// maxGroupLines bounds the other lines that are printed with one finding.
const maxGroupLines = 10

// grouped joins what is the same several times in one file, unless all is set.
func grouped(findings []validate.Finding, all bool) []*group {
	var out []*group
	seen := map[validate.Finding]*group{}
	for _, f := range findings {
		same := f
		same.Line, same.Field = 0, lastField(f.Field)
		g := seen[same]
		if g == nil || all || f.Line == 0 {
			g = &group{first: f}
			seen[same] = g
			out = append(out, g)
			continue
		}
		switch line := fmt.Sprint(f.Line); {
		case len(g.lines) == maxGroupLines:
			g.lines = append(g.lines, "...")
		case len(g.lines) < maxGroupLines && !slices.Contains(g.lines, line):
			g.lines = append(g.lines, line)
		}
	}
	return out
}

// lastField returns the last part of a field, without indices.
func lastField(field string) string {
	parts := strings.Split(field, ".")
	name, _, _ := strings.Cut(parts[len(parts)-1], "[")
	return name
}

func count(n int, what string) string { return fmt.Sprintf("%d %s%s", n, what, plural(n)) }

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
