package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/config"
)

const (
	rootDirEnv = "JOURNALET_ROOT_DIR"
	// busDir is the directory of the agent's bus below its root directory.
	busDir = "bus"
	// reconnectPause is the pause between two attempts to reconnect to an agent.
	reconnectPause = 500 * time.Millisecond
)

// app is the state that all commands share.
type app struct {
	in       io.Reader
	out, err *screen

	rootDir, server, authority, nkey, node, output string
	// agentDir is the root directory of an agent that is given none; empty: the default.
	agentDir string

	journal string    // the journal to read; empty: that in rootDir
	asOf    time.Time // its end, if no agent writes it

	now func() time.Time

	// above prints a notice above what is painted on the terminal; nil: nothing is.
	above func(write func())
}

// execute runs one command line of a program that was called by a name, and returns its exit code.
func execute(ctx context.Context, program string, args []string, out, errs io.Writer) int {
	logLibraries(slog.DiscardHandler)
	a := &app{in: os.Stdin, out: &screen{out}, err: &screen{errs}, now: time.Now}
	var root *cobra.Command
	switch filepath.Base(program) {
	case kubeletName:
		root = a.kubeletCommand()
	case pluginName:
		root = a.pluginCommand()
	case pluginCompleteName:
		root, args = a.pluginCommand(), append([]string{cobra.ShellCompRequestCmd}, args...)
	default:
		root = a.command()
	}
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	ctx, stop := interruptible(ctx)
	defer stop()
	cmd, err := root.ExecuteContextC(ctx)
	fmt.Fprint(a.err, errorText(ctx, cmd.CommandPath(), err))
	return exitCode(err)
}

// interruptible returns a context that ends at the first SIGTERM or SIGINT. The second one has its default effect: it
// kills the process.
func interruptible(ctx context.Context) (context.Context, func()) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "journalet",
		Short: "A node agent whose every decision is in a journal",
		Long: "Journalet runs pods on a node, as the kubelet does, and records every observation and decision in one\n" +
			"ordered journal. `journalet run` is the agent; the other commands query a running one.\n\n" + exitHelp,
		Example: "  journalet run --static-pod-path /etc/kubernetes/manifests\n" +
			"  journalet pods\n" +
			"  journalet observe --pod web --since 10m",
		Args:                       usageArgs(cobra.NoArgs),
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2,
	}
	f := root.PersistentFlags()
	f.StringVar(&a.rootDir, "root-dir", cmp.Or(os.Getenv(rootDirEnv), config.DefaultRootDir),
		"root directory of the agent (env "+rootDirEnv+")")
	silent(root).AddCommand(a.runCommand(), a.podsCommand(), a.podCommand(), a.observeCommand(), a.whyCommand(),
		a.timelineCommand(), a.traceCommand(), a.replayCommand(), a.journalCommand(), a.liftCommand(), a.checkCommand(),
		a.adoptCommand(), a.handbackCommand(), a.installCommand(), a.uninstallCommand(),
		a.validateCommand(), a.restartCommand(), a.drainCommand(), a.uncordonCommand(), a.resetCommand(),
		a.execCommand(), a.attachCommand(), a.portForwardCommand(), a.cpCommand(),
		a.logsCommand(), a.versionCommand())
	root.AddCommand(a.imagesCommand(), a.pullCommand())
	root.AddCommand(a.topCommand(), a.commandsCommand())
	return root
}

// silent leaves it to execute to print errors.
func silent(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{flagError(err)} })
	return cmd
}

// flagError says what a flag wants in words, where the library quotes the parser of numbers.
func flagError(err error) error {
	var bad *strconv.NumError
	if !errors.As(err, &bad) {
		return err
	}
	wants := map[string]string{
		"ParseBool": "want true or false", "ParseFloat": "want a number", "ParseInt": "want a whole number",
		"ParseUint": "want a whole number of at least 0",
	}[bad.Func]
	before, quotes := strings.CutSuffix(err.Error(), bad.Error())
	switch {
	case !quotes || wants == "":
		return err
	case errors.Is(bad, strconv.ErrRange):
		wants = "the number is too large"
	}
	return errors.New(before + wants)
}

// usageArgs turns the errors of an argument check into usage errors.
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

// clientFlags adds the flags of a command that queries a running agent.
func (a *app) clientFlags(cmd *cobra.Command, formats ...string) *cobra.Command {
	f := cmd.Flags()
	f.StringVar(&a.server, "server", "", "NATS address (tls://host:port) of an agent on another machine")
	f.StringVar(&a.authority, "certificate-authority", "",
		"with --server: PEM file with the authority of the agent's certificate; empty: the system's authorities")
	f.StringVar(&a.nkey, "nkey", "", "with --server: file with the key for requests, a copy of the agent's "+busDir+
		"/credentials/"+bus.QueryKeyFile+"; following events needs "+bus.ObserverKeyFile+" in the same directory")
	f.StringVar(&a.node, "node", "", "with --server: the node to query, if several respond")
	return a.outputFlag(cmd, formats...)
}

// outputFlag adds --output with the formats of a command; the first one is the default.
func (a *app) outputFlag(cmd *cobra.Command, formats ...string) *cobra.Command {
	output := cmd.Flags().StringP("output", "o", formats[0], "output format: "+strings.Join(formats, ", "))
	complete(cmd, "output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		a.output = *output
		if !slices.Contains(formats, a.output) {
			return usagef("%q is not an output format of this command: want %s", a.output, strings.Join(formats, ", "))
		}
		return nil
	}
	return cmd
}

// complete sets a flag's shell completion.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, f) // fails only for an unknown flag
}

// connect connects to the agent. With follow the connection survives restarts of the agent.
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
		return nil, usagef("--server needs --nkey: the file with the key for requests, a copy of %s on the agent's machine",
			filepath.Join(a.rootDir, busDir, "credentials", bus.QueryKeyFile))
	case a.server == "" && (a.nkey != "" || a.node != "" || a.authority != ""):
		return nil, usagef("--nkey, --node and --certificate-authority need --server")
	case a.server != "":
		if a.authority != "" {
			opts = append(opts, nats.RootCAs(a.authority))
		}
		if nc, err = bus.DialURL(ctx, a.server, a.nkey, opts...); err == nil {
			listen := func(ctx context.Context) (*nats.Conn, error) {
				return bus.DialURL(ctx, a.server, filepath.Join(filepath.Dir(a.nkey), bus.ObserverKeyFile), opts...)
			}
			c, err = query.NewClient(ctx, nc, listen, a.node)
		}
	default:
		c, err = query.Dial(ctx, filepath.Join(a.rootDir, busDir), opts...)
	}
	if err == nil {
		return c, nil
	}
	if nc != nil {
		nc.Close()
	}
	var response *query.Error
	if ctx.Err() != nil || errors.As(err, &response) {
		return nil, err
	}
	if a.server != "" && !errors.Is(err, query.ErrNoAgent) {
		err = fmt.Errorf("%w (the agent there must run with --bus-listen, and --nkey must be its key)", err)
	} else if a.node != "" {
		err = fmt.Errorf("node %s: %w", a.node, err)
	}
	return nil, noAgentError{err}
}

// withClient connects, calls f and disconnects.
func (a *app) withClient(ctx context.Context, follow bool, f func(*query.Client) error) error {
	c, err := a.connect(ctx, follow)
	if err != nil {
		return err
	}
	defer c.Conn().Close()
	// Every output about simulated pods must say so.
	if info, err := c.Info(ctx); err == nil && info.Simulated {
		a.notice("containers on node " + info.Node + " are simulated: no image is pulled, no process runs")
	}
	return f(c)
}
