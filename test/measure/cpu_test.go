package measure

import (
	"os"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestBusyTimeIsWithoutIdleAndWait(t *testing.T) {
	// user nice system idle iowait irq softirq steal guest, twice
	const stat = "cpu  100 10 200 90000 4000 1 2 30 0 0\ncpu0 1 2 3 4\n"
	if got := busy([]byte(stat)); got != 3.43 {
		t.Errorf("busy for %v s, want 3.43", got)
	}
	all, err := Busy()
	must.OK(t, err)
	own, err := CPU(os.Getpid())
	if must.OK(t, err); all <= own {
		t.Errorf("the machine was busy for %v s, this process for %v s", all, own)
	}
}
