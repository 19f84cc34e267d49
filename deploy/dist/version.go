package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

var (
	// tagged is of a commit with a tag before it: the tag, commits since, commit. The second group is lazy, so that
	// "-12-gabc" is no prerelease.
	tagged = regexp.MustCompile(`^v(\d+\.\d+\.\d+)(?:-([0-9A-Za-z.-]+?))??(?:-(\d+)-g([0-9a-f]+))?(-dirty)?$`)
	// untagged is of a repository without tags.
	untagged = regexp.MustCompile(`^([0-9a-f]{7,40})(-dirty)?$`)
)

// packageVersion returns the version of packages for one of git describe. dpkg and rpm sort "~" before the end of a
// version, and "+" behind it:
//
//	fefbad4f              0.0.0~20261127111100.gfefbad4f   before each release, by the date of the commit
//	v0.2.0-rc.1           0.2.0~rc.1
//	v0.2.0-rc.1-3-gabc    0.2.0~rc.1+3.gabc
//	v0.2.0                0.2.0
//	v0.2.0-12-gabc        0.2.0+12.gabc
//	v0.2.0-12-gabc-dirty  0.2.0+12.gabc.dirty
func packageVersion(describe string, date time.Time) (string, error) {
	if m := untagged.FindStringSubmatch(describe); m != nil {
		return "0.0.0~" + date.UTC().Format("20060102150405") + ".g" + m[1] + strings.Replace(m[2], "-", ".", 1), nil
	}
	m := tagged.FindStringSubmatch(describe)
	if m == nil {
		return "", fmt.Errorf("%q is no version of git describe --tags --always --dirty: pass VERSION=v0.2.0", describe)
	}
	version := m[1]
	if m[2] != "" {
		version += "~" + strings.ReplaceAll(m[2], "-", ".")
	}
	if m[3] != "" {
		version += "+" + m[3] + ".g" + m[4]
	}
	switch {
	case m[5] == "":
	case m[3] == "":
		version += "+dirty"
	default:
		version += ".dirty"
	}
	return version, nil
}
