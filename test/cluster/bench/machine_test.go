package main

import "testing"

func TestMemoryFieldIsReadByItsName(t *testing.T) {
	const rollup = "Rss:               2048 kB\nPrivate_Clean:      512 kB\nPrivate_Dirty:     1024 kB\n"
	if got := fieldKiB([]byte(rollup), "Private_Dirty:"); got != 1024 {
		t.Errorf("private and dirty are %v KiB", got)
	}
	if got := fieldKiB([]byte(rollup), "Swap:"); got != 0 {
		t.Errorf("a missing field is %v KiB", got)
	}
}
