package scenario_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/journalet/journalet/test/scenario"
)

// wanderLength is how many commands a made-up story has.
const wanderLength = 40

var (
	wanderings = flag.Uint64("wanderings", 40, "how many made-up stories are told")
	firstSeed  = flag.Uint64("first-seed", 0, "seed of the first one; each is told alike every time")
)

func TestMadeUpStoriesNeverGetStuck(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+*wanderings; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			s := scenario.New()
			// Every other one with a URL beside the folder. Their pods all fit: with two sources it is a matter of time, and so
			// of crashes, whether a pod comes before the end of another one that takes its place on the node.
			sources, room := []string(nil), 1+seed%5
			if seed%2 == 1 {
				sources, room = []string{"file", "http"}, 100
			}
			s.Run(&datadriven.TestData{Cmd: "start", CmdArgs: []datadriven.CmdArg{
				{Key: "sources", Vals: sources},
				{Key: "start-concurrency", Vals: []string{strconv.FormatUint(1+seed%3, 10)}},
				{Key: "stop-concurrency", Vals: []string{strconv.FormatUint(1+seed%2, 10)}},
				{Key: "maxpods", Vals: []string{strconv.FormatUint(room, 10)}},
			}})
			var told strings.Builder
			for range wanderLength {
				told.WriteString(s.Wander(r))
				if s.Failed() != nil {
					break
				}
			}
			if err := s.End(); err != nil {
				t.Errorf("%v\nafter\n%s", err, told.String())
			}
		})
	}
}
