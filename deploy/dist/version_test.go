package main

import (
	"testing"
	"time"

	version "github.com/knqyf263/go-deb-version"
	"github.com/sassoftware/go-rpmutils"
)

// In ascending order: an upgrade leads from each version to the next.
var versions = []struct {
	describe string
	later    time.Duration // of the commit
	want     string
}{
	{"fefbad4f", 0, "0.0.0~20261127111100.gfefbad4f"},
	{"0ebbad4f-dirty", time.Minute, "0.0.0~20261127111200.g0ebbad4f.dirty"},
	{"v0.1.0-rc.1", 0, "0.1.0~rc.1"},
	{"v0.1.0-rc.1-3-gabc1234", 0, "0.1.0~rc.1+3.gabc1234"},
	{"v0.1.0-rc.2", 0, "0.1.0~rc.2"},
	{"v0.1.0", 0, "0.1.0"},
	{"v0.1.0-2-gabc1234", 0, "0.1.0+2.gabc1234"},
	{"v0.1.0-12-gabc1234", 0, "0.1.0+12.gabc1234"},
	{"v0.1.0-12-gabc1234-dirty", 0, "0.1.0+12.gabc1234.dirty"},
	{"v0.1.1", 0, "0.1.1"},
	{"v0.1.1-dirty", 0, "0.1.1+dirty"},
	{"v0.10.0-alpha-x", 0, "0.10.0~alpha.x"},
	{"v0.10.0", 0, "0.10.0"},
}

func TestVersionsSortAsCommitsDo(t *testing.T) {
	before := ""
	for _, v := range versions {
		got, err := packageVersion(v.describe, someDate.Add(v.later))
		if err != nil || got != v.want {
			t.Errorf("%s is %q, %v, want %q", v.describe, got, err, v.want)
			continue
		}
		if before != "" {
			a, err := version.NewVersion(before)
			ok(t, err)
			b, err := version.NewVersion(got)
			ok(t, err)
			if !a.LessThan(b) {
				t.Errorf("dpkg takes no %s for newer than %s", got, before)
			}
			if rpmutils.Vercmp(before, got) >= 0 {
				t.Errorf("rpm takes no %s for newer than %s", got, before)
			}
		}
		before = got
	}
}

func TestOtherVersionsAreRefused(t *testing.T) {
	for _, describe := range []string{"", "dev", "0.1.0", "v0.1", "v1.2.3 4"} {
		if got, err := packageVersion(describe, someDate); err == nil {
			t.Errorf("%q is taken for %q", describe, got)
		}
	}
}
