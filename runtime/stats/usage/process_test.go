package usage

import (
	"os"
	"testing"
	"time"

	"github.com/journalet/journalet/test/must"
)

func TestProcessIsParsedWhateverItsName(t *testing.T) {
	const behind = " S 1 1 1 0 -1 4194560 1 2 3 4 150 25 7 8 20 0 1 0 5 6000 321 18446744073709551615"
	for _, name := range []string{"sh", "a b", ") R 9 9 9 (", ""} {
		cpu, pages, ok := ParseProcess([]byte("12 (" + name + ")" + behind))
		if cpu != 1750*time.Millisecond || pages != 321 || !ok {
			t.Errorf("%q: %v, %d pages, %v", name, cpu, pages, ok)
		}
	}
	for _, text := range []string{
		"", "12 (sh)", "12 (sh) S 1 1", "12 (sh) S 1 1 1 0 -1 0 1 2 3 4 x 25 7 8 20 0 1 0 5 6 7",
	} {
		if cpu, pages, ok := ParseProcess([]byte(text)); ok {
			t.Errorf("%q: %v, %d pages", text, cpu, pages)
		}
	}
	own, err := os.ReadFile("/proc/self/stat")
	must.OK(t, err)
	if _, pages, ok := ParseProcess(own); !ok || pages == 0 {
		t.Errorf("this process: %d pages, %v", pages, ok)
	}
}
