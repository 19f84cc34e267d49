//go:build attack

package attack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/journalet/journalet/runtime/api/podsapi"
	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
)

// What agents of the node do that read its pods.

const (
	// silent is how many connections send nothing or garbage, deaf how many clients watch, list, and read nothing.
	silent, deaf = 1000, 48
	// podsWait bounds the time until another client is served beside them.
	podsWait = 20 * time.Second
)

func (g *target) podsSocket() string { return filepath.Join(g.Root, podsapi.Dir, podsapi.SocketFile) }

// podsWork returns an error unless a client sees the first bystander in a watch and in a list.
func podsWork(g *target) error {
	conn, err := plugins.NewConn(g.podsSocket(), 1<<20)
	must.OK(g.T, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(g.Context(), podsWait)
	defer cancel()
	c := api.NewPodsClient(conn)
	list, err := c.ListPods(ctx, &api.ListPodsRequest{})
	if err != nil {
		return err
	}
	stream, err := c.WatchPods(ctx, &api.WatchPodsRequest{})
	if err != nil {
		return err
	}
	var watched [][]byte
	for {
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		if e.GetType() == api.EventType_INITIAL_SYNC_COMPLETE {
			break
		}
		watched = append(watched, e.GetPod())
	}
	for what, pods := range map[string][][]byte{"list": list.GetPods(), "watch": watched} {
		if !hasBystander(pods) {
			return fmt.Errorf("the %s has %d pods, and not the bystander", what, len(pods))
		}
	}
	return nil
}

func hasBystander(pods [][]byte) bool {
	for _, b := range pods {
		var p corev1.Pod
		if p.Unmarshal(b) == nil && strings.HasPrefix(p.Name, "bystander-1-") {
			return true
		}
	}
	return false
}

// Clients that watch and list and read nothing of it, among a thousand connections that send nothing or garbage.
func TestAgentsOfTheNodeThatReadNothing(t *testing.T) {
	var end []func()
	attack{
		begin: func(g *target) {
			ctx, cancel := context.WithCancel(g.Context())
			end = append(end, cancel)
			var failed error
			for range deaf {
				conn, err := plugins.NewConn(g.podsSocket(), 1<<20)
				must.OK(g.T, err)
				end = append(end, func() { _ = conn.Close() })
				if _, err := api.NewPodsClient(conn).WatchPods(ctx, &api.WatchPodsRequest{}); err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				list, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, api.Pods_ListPods_FullMethodName)
				if err == nil {
					err = errors.Join(list.SendMsg(&api.ListPodsRequest{}), list.CloseSend())
				}
				failed = errors.Join(failed, err)
			}
			if failed != nil {
				g.Logf("of the clients that read nothing some were refused: %v", failed)
			}
			for i := range silent {
				c, err := net.Dial("unix", g.podsSocket())
				if err != nil {
					continue
				}
				end = append(end, func() { _ = c.Close() })
				if i%2 == 0 {
					_, _ = c.Write([]byte(strings.Repeat("garbage", 1+i%100)))
				}
			}
		},
		check: func(g *target) {
			commandLineWorks(g)
			node.Eventually(g.T, podsWait, "pods to be served to others", func() error { return podsWork(g) })
		},
		end: func(*target) {
			for _, f := range end {
				f()
			}
		},
	}.run(t)
}
