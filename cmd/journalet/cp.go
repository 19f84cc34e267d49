package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/runtime/api/stream"
	"github.com/journalet/journalet/runtime/api/stream/archive"
)

const (
	// isDirTimeout bounds how long it may take to find out whether the destination in the container is a directory.
	isDirTimeout = 30 * time.Second
	// maxWarnings bounds the warnings of one copy.
	maxWarnings = 10
)

// copier is `cp` as flags.
type copier struct {
	*session
	noPreserve bool
	retries    int
	warnings   int
}

func (a *app) cpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cp SOURCE DESTINATION [-c CONTAINER]",
		Short: "Copy files between a container and this machine",
		Long: "Copy a file or a directory into a container or out of one. One of SOURCE and DESTINATION is\n" +
			"[NAMESPACE/]POD:PATH, the other a path on this machine; a path with a colon begins with / or ./ then. The\n" +
			"container needs a `tar`. Out of a container no link, device, owner or time is copied, and nothing is written\n" +
			"outside the destination, whatever the container sends. Into a container links stay links.",
		Example: "  journalet cp web:/etc/nginx/nginx.conf .\n" +
			"  journalet cp ./site web:/srv -c nginx\n" +
			"  journalet cp shop/db:/var/backups ./backups --retries 5",
		Args:                  usageArgs(cobra.ExactArgs(2)),
		DisableFlagsInUseLine: true,
	}
	s := &session{target: a.targetFlags(cmd)}
	s.containerFlag(cmd)
	s.sessionFlags(cmd)
	c := &copier{session: s}
	cmd.Flags().BoolVar(&c.noPreserve, "no-preserve", false,
		"do not keep owners and permissions in the container, nor the permission to execute on this machine")
	cmd.Flags().IntVar(&c.retries, "retries", 0,
		"out of a container: how often to continue after a lost connection; below 0: without end")
	cmd.ValidArgsFunction = c.complete
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		from, err := parsePlace(args[0])
		if err != nil {
			return err
		}
		to, err := parsePlace(args[1])
		if err != nil {
			return err
		}
		switch {
		case from.pod != "" && to.pod != "":
			return usagef("both are in a pod: copy to this machine first")
		case from.pod != "":
			return c.fromPod(cmd.Context(), from, to.path)
		case to.pod != "":
			return c.toPod(cmd.Context(), from.path, to)
		}
		return usagef("neither is in a pod: want [NAMESPACE/]POD:PATH for one of them")
	}
	return cmd
}

// place is where a copy comes from or goes to.
type place struct {
	pod, path string // pod is empty for this machine
}

func parsePlace(text string) (place, error) {
	pod, file, remote := strings.Cut(text, ":")
	if !remote || strings.HasPrefix(text, "/") || strings.HasPrefix(text, ".") {
		pod, file = "", text
	} else if pod == "" {
		return place{}, usagef("%q names no pod: want [NAMESPACE/]POD:PATH, or a path", text)
	}
	if file == "" {
		return place{}, usagef("%q has no path", text)
	}
	return place{pod, file}, nil
}

// argument returns a path of a container that no program takes for an option.
func argument(file string) string {
	if strings.HasPrefix(file, "-") {
		return "./" + file
	}
	return file
}

// open finds the container and returns what runs commands in it.
func (c *copier) open(ctx context.Context, client *stream.Client, pod string) (
	func(ctx context.Context, s stream.Streams, command ...string) error, error) {
	p, container, err := c.running(ctx, client, pod)
	if err != nil {
		return nil, err
	}
	to, err := stream.PodPath("exec", p, container)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, s stream.Streams, command ...string) error {
		err := client.Session(ctx, to, command, s)
		if err != nil && strings.Contains(err.Error(), "executable file not found") {
			return fmt.Errorf("container %s has no %s, which a copy needs: %w", container, command[0], err)
		}
		return c.socketError(err)
	}, nil
}

// toPod copies into a container.
func (c *copier) toPod(ctx context.Context, local string, to place) error {
	if _, err := os.Stat(local); err != nil {
		return err
	}
	client := c.client()
	defer client.Close()
	run, err := c.open(ctx, client, to.pod)
	if err != nil {
		return err
	}
	dest := path.Clean(to.path)
	if name := filepath.Base(filepath.Clean(local)); name != "." && name != ".." && name != "/" {
		isDir, err := c.isDirectory(ctx, run, to.path)
		if err != nil {
			return err
		}
		if isDir {
			dest = path.Join(dest, name)
		}
	}
	dir, name := path.Split(dest)
	if base := filepath.Base(filepath.Clean(local)); base == "." || base == ".." || base == "/" {
		dir, name = dest, "." // the content
	}
	command := []string{"tar", "-xmf", "-", "-C", argument(cmp.Or(dir, "."))}
	if c.noPreserve {
		command = append(command[:1:1], append([]string{"--no-same-permissions", "--no-same-owner"}, command[1:]...)...)
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	p := c.progress()
	go func() {
		err := archive.Pack(ctx, p.writer(w), local, name, c.warn)
		w.CloseWithError(err)
		packed <- err
	}()
	err = run(ctx, stream.Streams{In: r, Out: c.output(c.a.err), Err: c.output(c.a.err)}, command...)
	r.CloseWithError(errEnded)
	p.end()
	if failed := <-packed; failed != nil && !errors.Is(failed, errEnded) {
		return failed
	}
	return tarError(err)
}

// errEnded is the error of writing to a tar that has ended.
var errEnded = errors.New("tar has ended")

// isDirectory reports whether a path in the container is a directory.
func (c *copier) isDirectory(ctx context.Context, run func(context.Context, stream.Streams, ...string) error,
	file string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, isDirTimeout)
	defer cancel()
	err := run(ctx, stream.Streams{Out: io.Discard, Err: io.Discard}, "test", "-d", argument(file))
	if errors.As(err, new(*stream.ExitError)) || err == nil {
		return err == nil, nil
	}
	return false, err
}

// fromPod copies out of a container.
func (c *copier) fromPod(ctx context.Context, from place, local string) error {
	client := c.client()
	defer client.Close()
	run, err := c.open(ctx, client, from.pod)
	if err != nil {
		return err
	}
	file := path.Clean(from.path)
	dir, base := path.Split(file)
	if base == ".." || base == "." || base == "" { // its content
		dir, base = file, "."
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &tarReader{retries: c.retries, resume: func(n int64, left int) {
		c.a.notice(fmt.Sprintf("the connection was lost after %d bytes: continuing, %d retries left", n, left))
	}, open: func(skip int64, w io.Writer) error {
		command := []string{"tar", "cf", "-", "-C", argument(cmp.Or(dir, ".")), argument(base)}
		if skip > 0 {
			command = []string{"sh", "-c", `tar cf - -C "$1" "$2" | tail -c "+$3"`, "sh", command[4], command[5],
				strconv.FormatInt(skip+1, 10)}
		}
		return run(ctx, stream.Streams{Out: w, Err: c.output(c.a.err)}, command...)
	}}
	p := c.progress()
	err = archive.Unpack(ctx, t, archive.Target{Base: base, Local: local, Executable: !c.noPreserve, Warn: c.warn,
		Count: p.add})
	p.end()
	cancel()
	c.left()
	if failed := t.end(); failed != nil && (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) {
		err = tarError(failed)
	}
	return err
}

// tarError returns the error of a command that ended in the container: its exit code is not ours.
func tarError(err error) error {
	var exit *stream.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("tar in the container ended with exit code %d", exit.Code)
	}
	return err
}

func (c *copier) warn(text string) {
	if c.warnings++; c.warnings <= maxWarnings {
		c.note(text)
	}
}

// left reports the warnings beyond the bound.
func (c *copier) left() {
	if more := c.warnings - maxWarnings; more > 0 {
		c.note(fmt.Sprintf("left out %d more", more))
	}
}

// complete completes the places of a copy: pods with a colon, and files.
func (c *copier) complete(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 || strings.Contains(typed, ":") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if strings.HasPrefix(typed, "/") || strings.HasPrefix(typed, ".") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	pods, _ := c.completePods(cmd, nil, typed)
	for i := range pods {
		pods[i] += ":"
	}
	return pods, cobra.ShellCompDirectiveNoSpace
}
