//go:build attack

package attack

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/journalet/journalet/test/node"
)

const (
	// readers is how many clients request paths of the journal at once.
	readers = 300
	// dropWait bounds the time until the agent has dropped clients that do not read.
	dropWait = 90 * time.Second
)

// Clients that request the journal's bundles, answers and events all at once, and read nothing.
func TestClientsOfTheJournalThatStall(t *testing.T) {
	var all []net.Conn
	attack{
		begin: func(g *target) {
			for i := range readers {
				path := []string{"export?pod=" + g.bystanderPath(), "why?all=true&pod=" + g.bystanderPath(),
					"events?follow=true&from=1", "events?from=1"}[i%4]
				if c := g.raw("GET /journal/" + path + " HTTP/1.1\r\nHost: x\r\n\r\n"); c != nil {
					all = append(all, c)
				}
			}
			if len(all) < readers/2 {
				g.Fatalf("only %d clients could connect", len(all))
			}
		},
		check: func(g *target) {
			socketWorks(g)
			commandLineWorks(g)
			node.Eventually(g.T, dropWait, "the journal to answer others", func() error {
				for _, path := range []string{"why?pod=", "export?pod=", "events?pod="} {
					if code, body := g.request(http.MethodGet, "/journal/"+path+g.bystanderPath()); code != http.StatusOK {
						return fmt.Errorf("%s: %d, %.200s", path, code, body)
					}
				}
				return nil
			})
		},
		end: func(*target) {
			for _, c := range all {
				_ = c.Close()
			}
		},
	}.run(t)
}
