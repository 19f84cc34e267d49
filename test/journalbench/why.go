package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/runtime/history/why"
)

// whyGoal is how long an explanation may take.
const whyGoal = 100 * time.Millisecond

var whyRows = []row{
	{"why POD, any of 20 pods", "100 ms", explain(samples, aPod)},
	{"why SEQ, any of 200 records", "100 ms", explain(10*samples, aRecord)},
	{"why POD --container, the last restart in any of 20 pods", "100 ms", explain(samples, aRestart)},
}

func aRecord(_ context.Context, r history.Reader, random *rand.Rand) (why.Query, error) {
	return why.Query{Seq: 1 + random.Uint64N(last(r))}, nil
}

// aPod returns a query for a pod that is there at the journal's end, or was shortly before.
func aPod(ctx context.Context, r history.Reader, random *rand.Rand) (why.Query, error) {
	recent := min(last(r), 20_000)
	for {
		rec, err := r.Get(ctx, last(r)-random.Uint64N(recent))
		if err != nil {
			return why.Query{}, err
		}
		if started := rec.GetFact().GetPodObserved(); started != nil && len(started.GetContainers()) > 0 {
			return why.Query{Pod: started.GetUid()}, nil
		}
	}
}

// aRestart returns a query for the last restart of a container.
func aRestart(ctx context.Context, r history.Reader, random *rand.Rand) (why.Query, error) {
	recent := min(last(r), 20_000)
	for {
		rec, err := r.Get(ctx, last(r)-random.Uint64N(recent))
		if err != nil {
			return why.Query{}, err
		}
		for _, c := range rec.GetFact().GetPodObserved().GetContainers() {
			if c.GetAttempt() > 0 {
				return why.Query{Pod: rec.GetFact().GetPodObserved().GetUid(), Container: c.GetName()}, nil
			}
		}
	}
}

// explain measures n explanations from the store, each as a new command has it: the store is opened for it.
func explain(n int, some func(context.Context, history.Reader, *rand.Rand) (why.Query, error)) func(
	context.Context, input) (string, bool, error) {
	return func(ctx context.Context, in input) (string, bool, error) {
		random := rand.New(rand.NewPCG(seed, 3))
		var sum, most, opening, used time.Duration
		for range n {
			q, err := some(ctx, in.store, random)
			if err != nil {
				return "", false, err
			}
			began, before := time.Now(), cpu()
			r, err := open.Path(ctx, in.root)
			if err != nil {
				return "", false, err
			}
			opening += time.Since(began)
			_, err = why.Explain(ctx, r, q)
			took := time.Since(began)
			sum, most, used = sum+took, max(most, took), used+cpu()-before
			// A pod may have gone, and a container may not have been restarted since it came.
			if missing := (*why.NotFoundError)(nil); err != nil && !errors.As(err, &missing) {
				return "", false, err
			}
		}
		figure := fmt.Sprintf("%s at most, %s on average (%s of it to open the store; %s of CPU)",
			most.Round(time.Millisecond), (sum / time.Duration(n)).Round(time.Millisecond),
			(opening / time.Duration(n)).Round(time.Millisecond), (used / time.Duration(n)).Round(time.Millisecond))
		return figure, most <= whyGoal, nil
	}
}
