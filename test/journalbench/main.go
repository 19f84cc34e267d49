package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
)

// row is one measured figure.
type row struct {
	// name says what is measured, goal what is to be reached.
	name, goal string
	// measure returns the figure as text, and whether it reaches the goal.
	measure func(ctx context.Context, in input) (figure string, reached bool, err error)
}

// input is what there is to measure with.
type input struct {
	// root is the root directory of an agent with the journal, bundle the path of a bundle of all of it.
	root, bundle string
	// store and bundled are both, opened.
	store, bundled history.Reader
	// events is the number of events.
	events uint64
}

// rows are all figures, in the order of the table.
var rows = slices.Concat(replayRows, whyRows, storeRows)

var (
	events = flag.Uint64("events", 1_000_000, "how many events the journal has")
	pods   = flag.Int("pods", 500, "how many pods the node has")
	dir    = flag.String("dir", ".lab/journalbench", "directory in which journals are kept")
	only   = flag.String("only", "", "measure only the rows whose name holds this text")
	gc     = flag.Int("gc", 400, "garbage collection percentage, as the command line sets it")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	debug.SetGCPercent(*gc)
	if err := run(context.Background()); err != nil {
		log.Fatal("journalbench: ", err)
	}
}

func run(ctx context.Context) error {
	in, err := journalOf(ctx, *dir, *events, *pods)
	if err != nil {
		return err
	}
	if in.store, err = open.Path(ctx, in.root); err != nil {
		return err
	}
	if in.bundled, err = open.Path(ctx, in.bundle); err != nil {
		return err
	}
	fmt.Printf("%d events in %d records, %d pods, %d CPUs, load %s\n\n", in.events, last(in.store), *pods,
		runtime.NumCPU(), load())
	fmt.Println("| what | measured | goal | reached |")
	fmt.Println("|---|---|---|---|")
	for _, r := range rows {
		if !strings.Contains(r.name, *only) {
			continue
		}
		runtime.GC()
		figure, reached, err := r.measure(ctx, in)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		fmt.Printf("| %s | %s | %s | %s |\n", r.name, figure, r.goal, map[bool]string{true: "yes", false: "no"}[reached])
	}
	fmt.Printf("\nload at the end %s\n", load())
	return nil
}

func last(r history.Reader) uint64 {
	_, seq := r.Bounds()
	return seq
}

// load returns the machine's load average, without which no figure says anything.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

// cpu returns the CPU time that the process has used, which, unlike the time that passed, does not depend on the
// machine's neighbours.
func cpu() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// timed returns how long do takes.
func timed(do func() error) (time.Duration, error) {
	began := time.Now()
	err := do()
	return time.Since(began), err
}

// worst returns the longest of n runs.
func worst(n int, do func(i int) error) (time.Duration, error) {
	var most time.Duration
	for i := range n {
		took, err := timed(func() error { return do(i) })
		if err != nil {
			return 0, err
		}
		most = max(most, took)
	}
	return most, nil
}
