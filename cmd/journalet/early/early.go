package early

import (
	"os"
	"runtime"
	"runtime/debug"
)

// percent has the first collection begin when the heap has 32 MiB, instead of 4.
const percent = 800

// usual is the setting without this package.
var usual = -1

func init() {
	if os.Getenv("GOGC") != "" {
		return // the operator's choice
	}
	usual = debug.SetGCPercent(percent)
	// The first collection finds this object unreachable: from then on they are as usual.
	runtime.AddCleanup(new([64]byte), func(struct{}) { CollectAsUsual() }, struct{}{})
}

// CollectAsUsual has collections begin as usual from now on. It is for what runs long.
func CollectAsUsual() {
	if usual >= 0 {
		debug.SetGCPercent(usual)
	}
}
