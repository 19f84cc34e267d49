package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/runtime/api/query"
)

func (a *app) liftCommand() *cobra.Command {
	var q query.LiftRequest
	cmd := &cobra.Command{
		Use:   "lift ACTOR",
		Short: "End the quarantine of an actor: fold it from the journal again, and let it continue",
		Long: "End the quarantine of an actor. Its state is folded from the journal again, and it handles what it has\n" +
			"missed. If it fails again it stays quarantined, and the command fails with the reason. ACTOR is a pod by its\n" +
			"name, namespace/name or UID, or an actor as /healthz names it: runtime/0, node/0, image/0, source/file.\n\n" +
			"What the actor lacked, such as a manifest, can be back now. With --skip it leaves out the record on which it\n" +
			"failed, and records that the journal no longer has: try without it first. The next observation\n" +
			"replaces one that is left out; the outcome of a call stays unknown to the actor until the agent is restarted.",
		Example: "  journalet lift web\n  journalet lift runtime/0 --skip",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Actor = args[0]
			return a.withControl(cmd.Context(), func(c *query.Client) error {
				r, err := c.Lift(cmd.Context(), q)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.out, "%s is no longer quarantined\n", r.Actor)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&q.Skip, "skip", false, "leave out the record on which the actor failed")
	return cmd
}

// withControl connects to the agent on this machine with the key for requests that change something.
func (a *app) withControl(ctx context.Context, f func(*query.Client) error) error {
	nc, err := bus.DialControl(ctx, filepath.Join(a.rootDir, busDir), nats.NoReconnect())
	if err != nil {
		return noAgentError{err}
	}
	defer nc.Close()
	c, err := query.NewLocalClient(ctx, nc, nil)
	if err != nil {
		return noAgentError{err}
	}
	return f(c)
}
