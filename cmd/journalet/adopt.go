package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/agent"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/preflight"
	"github.com/journalet/journalet/runtime/takeover/handback"
	"github.com/journalet/journalet/runtime/takeover/preview"
)

// adoptOptions are the flags of `journalet adopt` that are not flags of `journalet run`.
type adoptOptions struct{ check, fromKubelet bool }

func (a *app) adoptCommand() *cobra.Command {
	cfg := a.defaults()
	cfg.RootDir = cmp.Or(os.Getenv(rootDirEnv), kubeletDir)
	var o adoptOptions
	cmd := &cobra.Command{
		Use:   "adopt --check",
		Short: "Show what becomes of a kubelet's pods when the agent takes its place",
		Long: "Show what the agent would do with each pod that a kubelet runs, if it started in the kubelet's place\n" +
			"now: in its root directory, with its flags. Nothing is changed, and the kubelet may run.\n\n" +
			"A pod is taken over, or restarts, or ends, with the reason; one that is not on the runtime yet starts.\n" +
			"The start itself is `journalet run` with the same flags once the kubelet is stopped; `journalet check`\n" +
			"with them checks the machine. Exit code 1 if a running container would end, or if a source could not be\n" +
			"read.",
		Example: "  journalet adopt --check --from-kubelet\n" +
			"  journalet adopt --check --config /var/lib/kubelet/config.yaml --kubeconfig /etc/kubernetes/kubelet.conf",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !o.check {
				return usagef("adopt changes nothing by itself, and needs --check; `journalet run` in the kubelet's root " +
					"directory takes over")
			}
			flags := cmd.Flags()
			if o.fromKubelet {
				var err error
				if flags, err = kubeletsFlags(flags, cfg); err != nil {
					return err
				}
			}
			return a.preview(cmd.Context(), flags, cfg, agent.Preview)
		},
	}
	cfg.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&o.check, "check", false, "only show what would become of the pods")
	cmd.Flags().BoolVar(&o.fromKubelet, "from-kubelet", false, "use the flags of the kubelet that runs on this machine")
	return a.outputFlag(cmd, formatTable, formatJSON, formatYAML)
}

// kubeletsFlags sets cfg by the flags of the kubelet that runs on this machine, and returns these.
func kubeletsFlags(given *pflag.FlagSet, cfg *config.Config) (*pflag.FlagSet, error) {
	var other string
	given.Visit(func(f *pflag.Flag) {
		if f.Name != "check" && f.Name != "from-kubelet" && f.Name != "output" {
			other = f.Name
		}
	})
	if other != "" {
		return nil, usagef("--from-kubelet takes all flags from the kubelet: leave out --%s, or give all flags yourself",
			other)
	}
	args, err := preflight.KubeletArgs()
	if err != nil {
		return nil, err
	}
	flags := pflag.NewFlagSet(kubeletName, pflag.ContinueOnError)
	flags.SetNormalizeFunc(dashes)
	cfg.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, fmt.Errorf("the flags of the kubelet that runs: %w", err)
	}
	return flags, nil
}

func (a *app) handbackCommand() *cobra.Command {
	cfg := a.defaults()
	cfg.RootDir = cmp.Or(os.Getenv(rootDirEnv), kubeletDir)
	check := false
	cmd := &cobra.Command{
		Use:   "handback",
		Short: "Prepare a kubelet's return in the place of a stopped agent, or show what becomes of the pods",
		Long: "Write what pods have into the kubelet's state files, below its root directory: exclusive CPUs, memory\n" +
			"of NUMA nodes, devices, claims, and allocated resources; and who may use which image.\n" +
			"Then move the journal to bus.handed-back, so that an agent that comes back later begins with what the\n" +
			"kubelet has decided meanwhile; `journalet why --journal` still reads it. The agent has to be stopped; start\n" +
			"the kubelet afterwards. The command takes the agent's flags, and may be repeated.\n\n" +
			"With --check nothing is changed, and the agent may run: it shows what a kubelet would do with each pod.\n\n" +
			"A pod is kept, or restarts, or is to be drained before, with the reason and what to do. Exit code 1 unless\n" +
			"each is kept.",
		Example: "  journalet handback --check --config /var/lib/kubelet/config.yaml\n" +
			"  systemctl stop kubelet && journalet handback --config /var/lib/kubelet/config.yaml",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.preview(cmd.Context(), cmd.Flags(), cfg, func(
				ctx context.Context, cfg *config.Config, log *slog.Logger,
			) (*preview.Report, error) {
				if check {
					return agent.Handback(ctx, cfg, log)
				}
				release, err := lockStopped(cfg.RootDir)
				if err != nil {
					return nil, err
				}
				defer release()
				found, err := agent.Handback(ctx, cfg, log)
				if err != nil {
					return nil, err
				}
				return found, handBack(ctx, cfg.RootDir, found)
			})
		},
	}
	cfg.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&check, "check", false, "only show what would become of the pods")
	return a.outputFlag(cmd, formatTable, formatJSON, formatYAML)
}

// lockStopped keeps agents from starting with a root directory until release is called. It fails while one runs.
func lockStopped(dir string) (release func(), err error) {
	release, err = bus.Lock(filepath.Join(dir, open.BusDir))
	if errors.Is(err, bus.ErrServed) {
		err = fmt.Errorf("an agent runs with root directory %s, and may give pods something else: stop it first, or use "+
			"--check", dir)
	}
	return release, err
}

// handBack writes the state files of a kubelet, notes in the report which pods they are not enough for, and ends what
// the agent has decided.
func handBack(ctx context.Context, dir string, found *preview.Report) error {
	journal, err := open.Path(ctx, filepath.Join(dir, open.BusDir))
	if errors.Is(err, open.ErrNoJournal) {
		before := filepath.Join(dir, own.HandedBack)
		if _, gone := os.Lstat(before); gone == nil {
			found.Journal = before // it was handed back before, and the state files are the kubelet's
			return nil
		}
	}
	if err != nil {
		return err
	}
	if err := writeKubeletState(ctx, dir, journal, found); err != nil {
		return err
	}
	found.Journal, err = handback.Leave(ctx, dir)
	return err
}

func writeKubeletState(ctx context.Context, dir string, journal history.Reader, found *preview.Report) error {
	given, err := handback.Read(ctx, journal)
	if err != nil {
		return fmt.Errorf("read what pods have from the journal: %w", err)
	}
	lacking, err := kubeletstate.Write(dir, given)
	if err != nil {
		return err
	}
	found.Written = kubeletstate.Files(dir)
	found.Lack(lacking)
	return nil
}

// preview prints the report on a node with the configuration of flags.
func (a *app) preview(ctx context.Context, flags *pflag.FlagSet, cfg *config.Config,
	report func(context.Context, *config.Config, *slog.Logger) (*preview.Report, error)) error {
	problems, err := a.load(flags, cfg)
	if err != nil {
		return err
	}
	for _, p := range problems {
		a.notice("configuration: " + p.String())
	}
	log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelError}))
	found, err := report(ctx, cfg, log)
	if err != nil {
		return err
	}
	if a.output != formatTable {
		err = printValue(a.out, a.output, found)
	} else {
		a.printPreview(found)
	}
	if err == nil && !found.Safe() {
		err = errCheckFailed
	}
	return err
}

// printPreview prints what becomes of pods.
func (a *app) printPreview(r *preview.Report) {
	cells := [][]string{{"POD", "SOURCE", "RUNNING", "OUTCOME", "DETAILS"}}
	for _, p := range r.Pods {
		cells = append(cells, []string{
			p.Namespace + "/" + p.Name, cmp.Or(p.Source, "<none>"), strconv.Itoa(p.Running), string(p.Outcome),
			oneLine(strings.Join(p.Details, "; ")),
		})
	}
	(&table{w: a.out}).print(cells...)
	counts, text := r.Counts(), ""
	for _, o := range preview.Outcomes {
		if counts[o] > 0 {
			text += fmt.Sprintf(", %d %s", counts[o], o)
		}
	}
	fmt.Fprintf(a.out, "\n%d pod%s%s\n", len(r.Pods), plural(len(r.Pods)), strings.Replace(text, ",", ":", 1))
	for _, source := range r.Unread {
		fmt.Fprintf(a.out, "not read: source %s; its pods are missing here, or named by no source\n", source)
	}
	for _, problem := range r.Problems {
		fmt.Fprintf(a.out, "manifest: %s\n", oneLine(problem))
	}
	for _, path := range r.Written {
		fmt.Fprintf(a.out, "written: %s\n", path)
	}
	if r.Journal != "" {
		fmt.Fprintf(a.out, "journal: %s\n", r.Journal)
	}
}
