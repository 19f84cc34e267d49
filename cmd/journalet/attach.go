package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/runtime/api/stream"
)

// defaultDetachKeys are the detach keys of kubectl and docker.
const defaultDetachKeys = "ctrl-p,ctrl-q"

func (a *app) attachCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attach [-it] POD [-c CONTAINER]",
		Short: "Attach to the process that a container runs",
		Long: "Attach to the standard streams of the process that a container runs: what it prints from now on and,\n" +
			"with -i, what it reads. With -it the detach keys end the session; the process continues. What the process\n" +
			"prints is in the container's log, too: `journalet logs` shows what it has printed before.",
		Example: "  journalet attach web\n" +
			"  journalet attach -it shell -c main\n" +
			"  journalet attach -it shell --detach-keys ctrl-a,d",
		Args:                  usageArgs(cobra.ExactArgs(1)),
		DisableFlagsInUseLine: true,
	}
	s := a.newSession(cmd)
	keys := cmd.Flags().String("detach-keys", defaultDetachKeys, "on a terminal: keys that end the session")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if s.detach, err = parseKeys(*keys); err != nil {
			return err
		}
		return s.attach(cmd.Context(), args[0])
	}
	return cmd
}

// attach attaches to a container of a pod.
func (s *session) attach(ctx context.Context, pod string) error {
	c := s.client()
	defer c.Close()
	p, container, err := s.running(ctx, c, pod)
	if err != nil {
		return err
	}
	path, err := stream.PodPath("attach", p, container)
	if err != nil {
		return err
	}
	// The process has a terminal or it has none: the manifest decides.
	spec := containers.Find(p, container)
	switch {
	case s.tty && !spec.TTY:
		s.tty = false
		s.note("Unable to use a TTY: container " + container + " has none (tty: true in its manifest)")
	case !s.tty && spec.TTY && s.stdin && terminalOf(s.a.in) != nil:
		s.tty = true
	}
	if s.stdin && !spec.Stdin {
		s.note("container " + container + " reads no standard input (stdin: true in its manifest)")
	}
	tty := s.useTerminal()
	if s.stdin {
		s.note("what is typed and shown here may be in the container's log, passwords too")
	}
	if tty {
		s.note("if there is no prompt, press enter")
	}
	s.redraw = tty
	err = s.open(ctx, c, path, nil, spec.TTY)
	if err == nil && tty {
		s.note(fmt.Sprintf("session ended; the process continues unless it has ended: journalet attach -it %s/%s -c %s",
			p.Namespace, p.Name, container))
	}
	return err
}
