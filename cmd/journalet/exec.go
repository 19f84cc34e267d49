package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/journalet/journalet/runtime/api/stream"
)

func (a *app) execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec [-it] POD [-c CONTAINER] -- COMMAND [ARGS...]",
		Short: "Run a command in a container",
		Long: "Run a command in a container of a pod, which is named as name, namespace/name, pod/name or UID. The exit\n" +
			"code is that of the command. With -it the command has a terminal: what is typed goes to it as it is, Ctrl-C\n" +
			"too. Without -t Ctrl-C ends the session, and control characters that the command prints to a terminal are\n" +
			"shown as text unless --raw is given; a file or a pipe gets every byte as it is. The journal records the\n" +
			"session and the name of the program, not its arguments nor what is typed and printed.",
		Example: "  journalet exec web -- ls -l /srv\n" +
			"  journalet exec -it web -c shell -- sh\n" +
			"  pg_dump shop | journalet exec -i db -- psql shop",
		DisableFlagsInUseLine: true,
	}
	s := a.newSession(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch dash := cmd.ArgsLenAtDash(); {
		case len(args) == 0 || dash == 0:
			return usagef("no pod given: journalet exec POD -- COMMAND")
		case dash < 0 && len(args) > 1, dash > 1:
			return usagef("put -- before the command: journalet exec %s -- COMMAND", args[0])
		case len(args) == 1:
			return usagef("no command given: journalet exec %s -- COMMAND", args[0])
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return s.exec(cmd.Context(), args[0], args[1:])
	}
	return cmd
}

// exec runs a command in a container of a pod.
func (s *session) exec(ctx context.Context, pod string, command []string) error {
	c := s.client()
	defer c.Close()
	p, container, err := s.running(ctx, c, pod)
	if err != nil {
		return err
	}
	path, err := stream.PodPath("exec", p, container)
	if err != nil {
		return err
	}
	return s.open(ctx, c, path, command, s.useTerminal())
}
