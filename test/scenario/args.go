package scenario

import (
	"fmt"
	"strconv"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/messages/journaletv1"
)

// arg returns the value of a command's argument, or def. The functions below panic if a value is invalid: the scenario
// is wrong.
func arg(d *datadriven.TestData, key, def string) string {
	if v := values(d, key); len(v) > 0 {
		return v[0]
	}
	return def
}

func values(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func number(d *datadriven.TestData, key string, def int) int {
	n, err := strconv.Atoi(arg(d, key, strconv.Itoa(def)))
	if err != nil {
		panic(err)
	}
	return n
}

func duration(d *datadriven.TestData, key string, def time.Duration) time.Duration {
	v, err := time.ParseDuration(arg(d, key, def.String()))
	if err != nil {
		panic(err)
	}
	return v
}

func quantity(d *datadriven.TestData, key, def string) *resource.Quantity {
	q := resource.MustParse(arg(d, key, def))
	return &q
}

// kernel returns the kernel's version of a command, such as 5.4; nil if it has none.
func kernel(d *datadriven.TestData) *journaletv1.KernelVersion {
	text := arg(d, "kernel", "")
	if text == "" {
		return nil
	}
	v := &journaletv1.KernelVersion{}
	if _, err := fmt.Sscanf(text, "%d.%d", &v.Major, &v.Minor); err != nil {
		panic(err)
	}
	return v
}

// cpuQuota returns how limits of CPU are enforced: off, or the period; nil: by default.
func cpuQuota(d *datadriven.TestData) *journaletv1.CpuQuota {
	switch arg(d, "cpu-quota", "") {
	case "":
		return nil
	case "off":
		return &journaletv1.CpuQuota{Off: true}
	}
	return &journaletv1.CpuQuota{Period: durationpb.New(duration(d, "cpu-quota", 0))}
}
