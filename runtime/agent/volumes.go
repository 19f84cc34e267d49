package agent

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

const (
	// sandboxesTimeout bounds one request of all sandboxes, and sandboxesPause the time between two that fail.
	sandboxesTimeout = 10 * time.Second
	sandboxesPause   = 10 * time.Second
)

// reportLost records the volumes that are lost, before any driver reports a container that may have had them, and the
// directories of pods that are gone, before the next incarnation of one can use it.
func (a *agent) reportLost() {
	for _, lost := range a.volumes.Found().Lost {
		a.host.Outcome(messages.Pod(lost.GetUid()), messages.NewEvent(lost))
	}
	for _, uid := range a.volumes.Found().Left {
		a.host.Outcome(messages.Pod(uid), messages.NewEvent(&journaletv1.PodDirectoryFound{Uid: uid}))
	}
}

// reportDirectories records the directories of pods that neither the journal nor the runtime has, and ends.
func (a *agent) reportDirectories(ctx context.Context) error {
	if err := a.bus.Journal().Flush(ctx); err != nil {
		return err
	}
	if err := a.volumes.Reconciled(a.facts.BootID); err != nil {
		a.log.Warn("files of volumes are written again at the next start", "error", err)
	}
	if len(a.volumes.Found().Unknown) == 0 {
		return nil
	}
	running, err := a.sandboxes(ctx)
	if err != nil {
		return err
	}
	for _, uid := range a.volumes.Found().Unknown {
		if running[uid] {
			continue // another agent's pod
		}
		found := messages.NewEvent(&journaletv1.PodDirectoryFound{Uid: uid})
		if err := a.host.Fact(ctx, messages.Pod(uid), found); err != nil {
			return err
		}
	}
	return nil
}

// sandboxes returns the UIDs of the pods that have a sandbox, this agent's or not. It waits for the runtime.
func (a *agent) sandboxes(ctx context.Context) (map[string]bool, error) {
	client := runtimeapi.NewRuntimeServiceClient(a.conn)
	for {
		call, cancel := context.WithTimeout(ctx, sandboxesTimeout)
		list, err := client.ListPodSandbox(call, &runtimeapi.ListPodSandboxRequest{})
		cancel()
		if err == nil {
			uids := make(map[string]bool, len(list.GetItems()))
			for _, s := range list.GetItems() {
				uids[s.GetMetadata().GetUid()] = true
			}
			return uids, nil
		}
		a.log.Debug("cannot list sandboxes", "error", err)
		select {
		case <-time.After(sandboxesPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("list sandboxes: %w", ctx.Err())
		}
	}
}
