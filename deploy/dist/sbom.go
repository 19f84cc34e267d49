package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	// licence is SPDX's word for what is not known: the repository has no licence yet.
	licence  = "NOASSERTION"
	unstated = "NOASSERTION"
)

// writeSBOM writes which modules are in a binary, as the binary itself has them recorded, with their licences, in SPDX
// 2.3.
func (r release) writeSBOM(arch string, licences map[string]string) error {
	path := r.binary(arch)
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the modules in %s: %w", path, err)
	}
	sum, err := digest(path)
	if err != nil {
		return err
	}
	doc, err := r.document(info, arch, fmt.Sprintf("%x", sum), licences)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Write(doc, &out, json.Indent("  ")); err != nil {
		return err
	}
	return os.WriteFile(path+".spdx.json", out.Bytes(), 0o644) //nolint:gosec // for everybody
}

func (r release) document(
	info *debug.BuildInfo, arch, sum string, licences map[string]string,
) (*spdx.Document, error) {
	program := described("journalet", r.version, licence)
	program.PackageFileName = "journalet-linux-" + arch
	program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	doc := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      "journalet " + r.version + " linux/" + arch,
		DocumentNamespace: "https://github.com/journalet/journalet/sbom/" + sum,
		CreationInfo: &spdx.CreationInfo{
			Created: r.date.Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Tool", Creator: "deploy/dist"}},
		},
		Packages:      []*spdx.Package{program},
		Relationships: []*spdx.Relationship{related("DOCUMENT", common.TypeRelationshipDescribe, program)},
	}
	contain := func(p *spdx.Package, purl string) {
		p.PackageExternalReferences = []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl,
		}}
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships,
			related(program.PackageSPDXIdentifier, common.TypeRelationshipContains, p))
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	contain(described("stdlib", version, "BSD-3-Clause"), "pkg:golang/stdlib@"+version)
	for _, m := range info.Deps {
		expression, ok := licences[m.Path+" "+m.Version]
		if !ok {
			return nil, fmt.Errorf("%s %s is in the binary for %s and not in docs/third-party.txt: run make licences",
				m.Path, m.Version, arch)
		}
		contain(described(m.Path, m.Version, expression), "pkg:golang/"+m.Path+"@"+m.Version)
	}
	return doc, nil
}

func described(name, version, licence string) *spdx.Package {
	id := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '.' {
			return c
		}
		return '-'
	}, name)
	return &spdx.Package{
		PackageName: name, PackageVersion: version, PackageSPDXIdentifier: common.ElementID("Package-" + id),
		PackageDownloadLocation: unstated, PackageCopyrightText: unstated,
		PackageLicenseConcluded: licence, PackageLicenseDeclared: licence,
	}
}

func related(from common.ElementID, how string, to *spdx.Package) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(from)), Relationship: how,
		RefB: common.MakeDocElementID("", string(to.PackageSPDXIdentifier)),
	}
}
