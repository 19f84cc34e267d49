package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/timeline"
)

const formatHTML = "html"

// widthWithoutTerminal is the width of what is not printed on a terminal, in columns.
const widthWithoutTerminal = 80

type timelineOptions struct {
	since, until string
	file         string
	ascii, force bool
	width, limit int
}

func (a *app) timelineCommand() *cobra.Command {
	var o timelineOptions
	cmd := &cobra.Command{
		Use:   "timeline [POD ...]",
		Short: "Draw the past of pods or of the node",
		Long: "Draw a pod's past as lanes over time: its phase, sandbox, containers, probes, pulls and calls, with what\n" +
			"needs attention listed below. Without a pod it draws the node: the agent, the runtime, and the phase of each\n" +
			"pod. POD is a name, namespace/name or UID; a name that several pods have had draws all of them.\n\n" +
			"With --file it writes one page for a browser, with zoom, filters, each event and its causes. The page needs\n" +
			"no network and loads nothing; it holds the events of these pods: share it as you would share the journal.\n\n" +
			"--since and --until are a time such as 2026-01-02T15:04:05Z, a duration before the journal's last record such\n" +
			"as 10m, or the number of a record. The order is that of the journal: where the node's clock was set, the axis\n" +
			"shows it.",
		Example: "  journalet timeline web\n" +
			"  journalet timeline web --since 1h\n" +
			"  journalet timeline web --file web.html\n" +
			"  journalet timeline --journal /mnt/copy --ascii",
		Args:              usageArgs(cobra.ArbitraryArgs),
		ValidArgsFunction: a.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkTimeline(cmd, &o); err != nil {
				return err
			}
			return a.timeline(cmd.Context(), args, o)
		},
	}
	a.journalFlag(cmd)
	return a.timelineFlags(cmd, &o)
}

func (a *app) checkTimeline(cmd *cobra.Command, o *timelineOptions) error {
	switch {
	case o.width != 0 && o.width < timeline.MinWidth:
		return usagef("--width is %d: want at least %d", o.width, timeline.MinWidth)
	case o.limit < 1:
		return usagef("--limit is %d: want at least 1", o.limit)
	case o.file != "" && !cmd.Flags().Changed("output"):
		a.output = formatHTML
	case o.file != "" && a.output != formatHTML:
		return usagef("--file is for -o html: redirect the output instead")
	case o.force && o.file == "":
		return usagef("--force needs --file")
	case a.output == formatHTML && o.file == "" && a.out.terminal():
		return usagef("a page is no text for a terminal: name a file with --file")
	}
	return nil
}

func (a *app) timelineFlags(cmd *cobra.Command, o *timelineOptions) *cobra.Command {
	f := cmd.Flags()
	f.StringVar(&o.since, "since", "", "begin with this time, duration before the end, or record")
	f.StringVar(&o.until, "until", "", "end with this time, duration before the end, or record")
	f.StringVar(&o.file, "file", "", "write the page to this new file, which only its owner can read (implies -o html)")
	f.BoolVar(&o.force, "force", false, "replace the file if it exists")
	f.BoolVar(&o.ascii, "ascii", false, "draw with ASCII characters only")
	f.IntVar(&o.width, "width", 0, "columns; 0: those of the terminal, or 80")
	f.IntVar(&o.limit, "limit", timeline.DefaultLimit, "events to show at most; of more, short ones are merged")
	return a.outputFlag(cmd, formatText, formatHTML, formatJSON, formatYAML)
}

func (a *app) timeline(ctx context.Context, pods []string, o timelineOptions) error {
	r, err := a.openJournal(ctx)
	if err != nil {
		return err
	}
	q := timeline.Options{Pods: pods, Limit: o.limit, Progress: a.progress("read", "records")}
	if q.From, q.To, err = moments(ctx, r, o.since, o.until); err != nil {
		return err
	}
	t, err := timeline.Read(ctx, r, q)
	a.endProgress()
	if err != nil {
		return err
	}
	switch {
	case a.output == formatHTML && o.file != "":
		return a.writeTimeline(t, o)
	case a.output == formatHTML:
		return t.HTML(a.out)
	case a.output != formatText:
		return printValue(a.out, a.output, t)
	}
	return a.drawTimeline(t, o)
}

// writeTimeline writes the page to a new file that only its owner can read. What is there before is replaced only with
// --force, and then as a whole.
func (a *app) writeTimeline(t *timeline.Timeline, o timelineOptions) error {
	var f *os.File
	var err error
	if o.force {
		dir, name := filepath.Split(o.file)
		f, err = os.CreateTemp(filepath.Clean(dir+"."), "."+name+".*") // with mode 0600
	} else {
		f, err = os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: name another file, or replace it with --force", o.file)
	}
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	err = errors.Join(t.HTML(f), f.Close())
	if err == nil && o.force {
		err = os.Rename(f.Name(), o.file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write the page: %w", err)
	}
	_, err = fmt.Fprintf(a.out, "%s: %d events; open it in a browser\n", o.file, len(t.Events))
	return err
}

// moments returns the records that --since and --until name; 0 for a flag that is not set.
func moments(ctx context.Context, r history.Reader, since, until string) (from, to uint64, err error) {
	if since != "" {
		if from, err = history.ParseMoment(ctx, r, since); err != nil {
			return 0, 0, usageError{err}
		}
	}
	if until != "" {
		if to, err = history.ParseMoment(ctx, r, until); err != nil {
			return 0, 0, usageError{err}
		}
		if _, err := strconv.ParseUint(until, 10, 64); err != nil && to > 0 {
			to-- // the first record at or after a time: the picture ends with the one before
		}
	}
	return from, to, nil
}

// styles are the control sequences of a picture's styles.
var styles = map[string]string{
	string(timeline.ClassDone): dim, string(timeline.ClassOK): "\x1b[32m", string(timeline.ClassRun): "\x1b[36m",
	string(timeline.ClassWait): "\x1b[33m", string(timeline.ClassBusy): "\x1b[34m", string(timeline.ClassStop): "\x1b[35m",
	string(timeline.ClassDown): dim, string(timeline.ClassBackOff): "\x1b[33m", string(timeline.ClassFail): red,
	timeline.StyleDim: dim, timeline.StyleBold: bold,
}

func (a *app) drawTimeline(t *timeline.Timeline, o timelineOptions) error {
	width := o.width
	if width == 0 {
		width = a.out.width()
	}
	for _, row := range t.Text(timeline.TextOptions{Width: width, ASCII: o.ascii, Zone: a.now().Location()}) {
		parts := make([]painted, len(row))
		for i, p := range row {
			parts[i] = painted{styles[p.Style], p.Text}
		}
		if err := a.out.paint(a.out.colour(), parts...); err != nil {
			return err
		}
	}
	return nil
}

// width returns the number of columns of a terminal, widthWithoutTerminal for anything else.
func (s *screen) width() int {
	if f, ok := s.w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns >= timeline.MinWidth {
			return columns
		}
	}
	return widthWithoutTerminal
}
