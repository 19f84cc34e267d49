package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/config"
)

const (
	rootDirEnv = "JOURNALET_ROOT_DIR"
	// busFolder is where the agent's bus is, below its root directory.
	busFolder = "bus"
	// reconnectPause lies between two tries to find an agent again.
	reconnectPause = 500 * time.Millisecond
)

// app is what all commands share.
type app struct {
	in       io.Reader
	out, err io.Writer

	rootDir, server, nkey, node, output string

	now func() time.Time
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	a := &app{in: in, out: out, err: errs, now: time.Now}
	root := a.command()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	ctx, stop := interruptible(ctx)
	defer stop()
	cmd, err := root.ExecuteContextC(ctx)
	fmt.Fprint(errs, complaint(ctx, cmd.CommandPath(), err))
	return exitCode(err)
}

// interruptible ends the context at the first SIGTERM or SIGINT. The second one ends the process at
// once, as if nobody listened.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "journalet",
		Short: "A node agent whose every decision is in a journal",
		Long: "Journalet runs pods on a node, as the kubelet does, and keeps all that it learns and decides in one\n" +
			"ordered journal. `journalet run` is the agent; the other commands look into a running one.\n\n" + exitHelp,
		Example: "  journalet run --static-pod-path /etc/kubernetes/manifests\n" +
			"  journalet pods\n" +
			"  journalet observe --pod web --since 10m",
		Args:                       usageArgs(cobra.NoArgs),
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true, SilenceUsage: true,
	}
	f := root.PersistentFlags()
	f.StringVar(&a.rootDir, "root-dir", envOr(rootDirEnv, config.DefaultRootDir), "the agent's root directory (env "+rootDirEnv+")")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(a.runCommand(), a.podsCommand(), a.podCommand(), a.observeCommand(), a.journalCommand(), a.checkCommand(), a.versionCommand())
	return root
}

func envOr(name, other string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return other
}

// usageArgs makes an argument check's errors usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		if near := cmd.SuggestionsFor(strings.Join(args, "")); len(near) > 0 {
			err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
		}
		return usageError{err}
	}
}

// asking adds the flags of a command that asks a running agent.
func (a *app) asking(cmd *cobra.Command, formats ...string) *cobra.Command {
	f := cmd.Flags()
	f.StringVar(&a.server, "server", "", "ask the agent at this NATS address (nats://host:port) rather than the one on this machine")
	f.StringVar(&a.nkey, "nkey", "", "with --server: file with the key for questions, a copy of the agent's "+busFolder+"/credentials/"+bus.QueryKeyFile+"; to follow events, "+bus.ObserverKeyFile+" is looked for beside it")
	f.StringVar(&a.node, "node", "", "with --server: the node to ask, where several answer")
	return a.printing(cmd, formats...)
}

// printing adds --output with the formats that a command has; the first one is the default.
func (a *app) printing(cmd *cobra.Command, formats ...string) *cobra.Command {
	output := cmd.Flags().StringP("output", "o", formats[0], "output format: "+strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that is not there
	cmd.PreRunE = func(*cobra.Command, []string) error {
		a.output = *output
		if !slices.Contains(formats, a.output) {
			return usagef("%q is no output format of this command: want %s", a.output, strings.Join(formats, ", "))
		}
		return nil
	}
	return cmd
}

// connect reaches the agent. follow keeps the connection over restarts of the agent.
func (a *app) connect(ctx context.Context, follow bool) (*query.Client, error) {
	opts := []nats.Option{nats.NoReconnect()}
	if follow {
		opts = []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(reconnectPause), nats.ReconnectJitter(0, 0)}
	}
	var nc *nats.Conn
	var c *query.Client
	var err error
	switch {
	case a.server != "" && a.nkey == "":
		return nil, usagef("--server needs --nkey: the file with the key for questions, a copy of %s on the agent's machine", filepath.Join(a.rootDir, busFolder, "credentials", bus.QueryKeyFile))
	case a.server == "" && (a.nkey != "" || a.node != ""):
		return nil, usagef("--nkey and --node go with --server")
	case a.server != "":
		if nc, err = bus.DialURL(ctx, a.server, a.nkey, opts...); err == nil {
			listen := func(ctx context.Context) (*nats.Conn, error) {
				return bus.DialURL(ctx, a.server, filepath.Join(filepath.Dir(a.nkey), bus.ObserverKeyFile), opts...)
			}
			c, err = query.NewClient(ctx, nc, listen, a.node)
		}
	default:
		if nc, err = bus.Dial(ctx, filepath.Join(a.rootDir, busFolder), opts...); err == nil {
			listen := func(ctx context.Context) (*nats.Conn, error) {
				return bus.Listen(ctx, filepath.Join(a.rootDir, busFolder), opts...)
			}
			c, err = query.NewLocalClient(ctx, nc, listen)
		}
	}
	if err == nil {
		return c, nil
	}
	if nc != nil {
		nc.Close()
	}
	var answer *query.Error
	if ctx.Err() != nil || errors.As(err, &answer) {
		return nil, err
	}
	if a.server != "" && !errors.Is(err, query.ErrNoAgent) {
		err = fmt.Errorf("%w (the agent there must run with --bus-listen, and --nkey must be its key)", err)
	} else if a.node != "" {
		err = fmt.Errorf("node %s: %w", a.node, err)
	}
	return nil, noAgentError{err}
}

// ask connects, runs f and disconnects.
func (a *app) ask(ctx context.Context, follow bool, f func(*query.Client) error) error {
	c, err := a.connect(ctx, follow)
	if err != nil {
		return err
	}
	defer c.Conn().Close()
	// Whoever looks at pods that are only played must be told so, on every screen.
	if info, err := c.Info(ctx); err == nil && info.Simulated {
		a.notice("containers on node " + info.Node + " are simulated: nothing that a pod names is run")
	}
	return f(c)
}

// terminal tells whether w is one.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colour tells whether w may have colours.
func colour(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && terminal(w) }
