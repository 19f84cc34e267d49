package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/agent"
	"github.com/journalet/journalet/runtime/durable"
	"github.com/journalet/journalet/runtime/history/bundle"
	"github.com/journalet/journalet/runtime/history/describe"
)

type exportOptions struct {
	file, since, until, report string
	from, to                   uint64
	pods                       []string
	redact, force              bool
}

func (a *app) exportCommand() *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export -o FILE",
		Short: "Write the journal, or a part of it, to one file",
		Long: "Write a bundle: one file with records, the manifests that they name, and the states at their beginning, so\n" +
			"that every command that reads a journal reads it by --journal FILE, weeks later or on a laptop. The agent may\n" +
			"run: its files are read as they are now, and nothing is changed. The file holds whole pods, with the values of\n" +
			"their env, unless --redact is given: keep it as secret as the manifests.\n\n" +
			"--since and --until are a time such as 2026-01-02T15:04:05Z, or a duration before the journal's last record\n" +
			"such as 10m. With --pod the bundle holds the records that concern these pods, and those that led to them;\n" +
			"their decisions can be checked by replay, those of other actors cannot. A name stands for all pods that had\n" +
			"it.\n\n" +
			"--redact is for strangers: pods, namespaces, containers, images, nodes and paths get pseudonyms; manifests,\n" +
			"states, addresses, labels and all texts are left out. Numbers, times, exit codes and known reasons stay. Such\n" +
			"a bundle cannot be replayed; why, timeline and observe read it.",
		Example: "  journalet journal export -o node.journalet\n" +
			"  journalet journal export -o web.journalet --pod web --since 1h\n" +
			"  journalet journal export -o report.journalet --redact\n" +
			"  journalet journal export -o - --since 10m | ssh laptop 'cat > node.journalet'",
		Args: usageArgs(cobra.NoArgs),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			return o.check(cmd, a.out)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.export(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "output", "o", "", "file to write, with permission 0600; -: stdout")
	f.StringSliceVar(&o.pods, "pod", nil, "only this pod: a name, namespace/name or UID; may be repeated")
	f.StringVar(&o.since, "since", "", "begin with this time, or duration before the end")
	f.StringVar(&o.until, "until", "", "end before this time, or duration before the end")
	f.Uint64Var(&o.from, "from", 0, "begin with this record")
	f.Uint64Var(&o.to, "to", 0, "end with this record")
	f.BoolVar(&o.redact, "redact", false, "drop names, texts and manifests")
	f.BoolVar(&o.force, "force", false, "replace the file if it exists")
	f.StringVar(&o.report, "report", formatText, "format of what is printed: "+strings.Join(reportFormats, ", "))
	complete(cmd, "report", cobra.FixedCompletions(reportFormats, cobra.ShellCompDirectiveNoFileComp))
	complete(cmd, "pod", a.completePods)
	a.journalFlag(cmd)
	_ = cmd.MarkFlagFilename("output") // fails only for an unknown flag
	return cmd
}

var reportFormats = []string{formatText, formatJSON, formatYAML}

func (o *exportOptions) check(cmd *cobra.Command, out *screen) error {
	flags := cmd.Flags()
	switch {
	case o.file == "":
		return usagef("name the file to write: -o FILE")
	case o.file == "-" && out.terminal():
		return usagef("a bundle is not for a terminal: redirect stdout, or name a file")
	case flags.Changed("from") && o.since != "", flags.Changed("to") && o.until != "":
		return usagef("--from and --since, and --to and --until, exclude each other")
	case flags.Changed("from") && flags.Changed("to") && o.from > o.to:
		return usagef("--from %d is after --to %d", o.from, o.to)
	case o.report != formatText && o.report != formatJSON && o.report != formatYAML:
		return usagef("%q is no format of --report: want %s", o.report, strings.Join(reportFormats, ", "))
	}
	return nil
}

func (a *app) export(ctx context.Context, o exportOptions) error {
	if o.file != "-" {
		if err := mayWrite(o.file, o.force); err != nil {
			return err
		}
	}
	src, err := a.openJournal(ctx)
	if err != nil {
		return err
	}
	opts := bundle.Options{
		From: o.from, To: o.to, Pods: o.pods, Redact: o.redact, Version: agent.Version, Now: a.now(),
		Progress: a.progress("exported", "records"),
	}
	from, to, err := moments(ctx, src, o.since, o.until)
	if err != nil {
		return err
	}
	if first, _ := src.Bounds(); o.until != "" && to < first {
		return notFoundError{fmt.Errorf("the journal begins after %s", o.until)}
	}
	opts.From, opts.To = max(opts.From, from), max(opts.To, to)
	var res *bundle.Result
	write := func(w io.Writer) (err error) {
		res, err = bundle.Export(ctx, src, w, opts)
		return err
	}
	if o.file == "-" {
		err = buffered(a.out.w, write)
	} else {
		err = writeNew(o.file, o.force, write)
	}
	a.endProgress()
	if errors.Is(err, bundle.ErrNothing) {
		return notFoundError{err}
	}
	if err != nil {
		return err
	}
	out := a.out
	if o.file == "-" {
		out = a.err
	}
	return a.reportExport(out, o, res)
}

// exported is what export prints as JSON or YAML.
type exported struct {
	bundleInfo
	File string `json:"file"`
	// RecordBytes is the size of the records as encoded, Notices are what a reader will miss.
	RecordBytes uint64   `json:"recordBytes"`
	Notices     []string `json:"notices,omitempty"`
}

// bundleInfo is what a bundle holds.
type bundleInfo struct {
	Bytes     uint64      `json:"bytes"`
	Node      string      `json:"node"`
	First     uint64      `json:"first"`
	Last      uint64      `json:"last"`
	Records   uint64      `json:"records"`
	Events    uint64      `json:"events"`
	Manifests uint64      `json:"manifests"`
	Sets      int         `json:"snapshotSets"`
	Redacted  bool        `json:"redacted,omitempty"`
	Pods      []bundlePod `json:"pods,omitempty"`
	Version   string      `json:"version"`
	Agent     string      `json:"agentVersion,omitempty"`
	WrittenAt string      `json:"writtenAt"`
}

type bundlePod struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

func infoOf(h *journaletv1.BundleHeader, x *journaletv1.BundleIndex, size uint64) bundleInfo {
	i := bundleInfo{
		Bytes: size, Node: h.GetNode(), First: x.GetFirst(), Last: x.GetLast(), Records: x.GetRecords(),
		Events: x.GetEvents(), Manifests: x.GetManifests(), Sets: len(x.GetSets()), Redacted: h.GetRedacted(),
		Version: h.GetVersion(), Agent: x.GetAgentVersion(),
		WrittenAt: h.GetWrittenAt().AsTime().UTC().Format(time.RFC3339),
	}
	for _, p := range h.GetPods() {
		i.Pods = append(i.Pods, bundlePod{p.GetUid(), p.GetNamespace(), p.GetName()})
	}
	return i
}

func (a *app) reportExport(out *screen, o exportOptions, res *bundle.Result) error {
	info := infoOf(res.Header, res.Index, res.Bytes)
	if o.report != formatText {
		return printValue(out, o.report, exported{info, o.file, res.RecordBytes, res.Notices})
	}
	info.print(out)
	perEvent := 0.0
	if info.Events > 0 {
		perEvent = float64(info.Bytes) / float64(info.Events)
	}
	fmt.Fprintf(out, "Size: %s, %.0f bytes an event; the records as encoded: %s\n", describe.Size(info.Bytes), perEvent,
		describe.Size(res.RecordBytes))
	if o.file != "-" {
		fmt.Fprintf(out, "Written to %s\n", o.file)
	}
	for _, n := range res.Notices {
		a.notice(n)
	}
	return nil
}

// maxPodsShown bounds the pods of a bundle that are printed by name.
const maxPodsShown = 10

// print prints what a bundle holds.
func (i *bundleInfo) print(out *screen) {
	what := "all pods"
	if n := len(i.Pods); n > 0 {
		var names []string
		for _, p := range i.Pods[:min(n, maxPodsShown)] {
			names = append(names, strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")+" ("+p.UID+")")
		}
		if what = strings.Join(names, ", "); n > maxPodsShown {
			what += fmt.Sprintf(" and %d more", n-maxPodsShown)
		}
	}
	fmt.Fprintf(out, "Records %d to %d of node %s: %d records, %d events\n", i.First, i.Last, i.Node, i.Records, i.Events)
	fmt.Fprintf(out, "Pods: %s\n", what)
	if i.Redacted {
		fmt.Fprintln(out, "Redacted: names are pseudonyms; manifests, states and texts are left out")
		return
	}
	fmt.Fprintf(out, "Manifests: %d, sets of snapshots: %d\n", i.Manifests, i.Sets)
}

// mayWrite returns an error if a file must not be written.
func mayWrite(path string, force bool) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return usagef("%s is no regular file", path)
	case !force:
		return usagef("%s exists: name another file, or give --force to replace it", path)
	}
	return nil
}

// bufferBytes is how much is collected before it is written.
const bufferBytes = 1 << 20

func buffered(w io.Writer, write func(io.Writer) error) error {
	b := bufio.NewWriterSize(w, bufferBytes)
	if err := write(b); err != nil {
		return err
	}
	return b.Flush()
}

// writeNew writes a file of permission 0600, so that it is there whole or not at all. Without replace it never
// replaces one.
func writeNew(path string, replace bool, write func(io.Writer) error) error {
	err := durable.Stream(path, 0o600, func(from, to string) error { return moveTo(from, to, replace) },
		func(w io.Writer) error { return buffered(w, write) })
	if err == nil {
		_ = durable.SyncDir(filepath.Dir(path)) // where the file system can
	}
	return err
}

// moveTo gives a written file its name.
func moveTo(from, to string, replace bool) error {
	if replace {
		return os.Rename(from, to)
	}
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, fs.ErrExist):
		return usagef("%s exists: name another file, or give --force to replace it", to)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS): // not on this file system
		if err := mayWrite(to, false); err != nil {
			return err
		}
		return os.Rename(from, to)
	case err != nil:
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}
	return nil
}
