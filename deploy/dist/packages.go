package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// recommended is what most nodes need beside the agent. None of it is a dependency: the runtime may come from
// elsewhere, and `journalet check` says what a node lacks.
var recommended = map[kind][]string{
	debian: {"containerd | containerd.io | cri-o", "containernetworking-plugins | kubernetes-cni", "iptables"},
	redhat: {"(containerd or containerd.io or cri-o)", "(containernetworking-plugins or kubernetes-cni)", "iptables"},
}

var suggested = map[kind][]string{debian: {"nfs-common"}, redhat: {"nfs-utils"}}

// writePackages writes the deb and the rpm of an architecture.
func (r release) writePackages(arch string, t texts) error {
	for k, packager := range map[kind]nfpm.Packager{debian: deb.Default, redhat: rpm.DefaultRPM} {
		if err := r.writePackage(k, packager, arch, t); err != nil {
			return err
		}
	}
	return nil
}

func (r release) writePackage(k kind, packager nfpm.Packager, arch string, t texts) error {
	all, err := contents(k, r.root, r.binary(arch), t)
	if err != nil {
		return err
	}
	stage, err := os.MkdirTemp("", "journalet-dist")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage) //nolint:errcheck // a temporary directory
	info := r.info(k, arch)
	if info.Contents, err = r.stage(filepath.Join(stage, "root"), all); err != nil {
		return err
	}
	if info.Scripts, err = stageScripts(filepath.Join(stage, "scripts"), k); err != nil {
		return err
	}
	path := filepath.Join(r.out, packager.ConventionalFileName(info))
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(packager.Package(info, out), out.Close()); err != nil {
		return err
	}
	return bounded(path, maxPackage)
}

// info is what a package says about itself.
func (r release) info(k kind, arch string) *nfpm.Info {
	return nfpm.WithDefaults(&nfpm.Info{
		Name: "journalet", Arch: arch, Version: r.number, VersionSchema: "none", MTime: r.date,
		Section: "admin", Priority: "optional", Maintainer: "The authors of Journalet <journalet@example.invalid>",
		Homepage: "https://github.com/journalet/journalet", License: licence,
		Description: "Kubernetes-grade node agent whose every decision is in a journal\n" +
			"Runs pods on a container runtime, as the kubelet does, alone or as a node of a\n" +
			"cluster, and records each observation and decision in one ordered journal.",
		DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Recommends: recommended[k], Suggests: suggested[k], Umask: 0o022,
			RPM: nfpm.RPM{BuildHost: "localhost", Compression: "gzip:9"},
			Deb: nfpm.Deb{Compression: "gzip:9"},
		},
	})
}

// stage puts files where nfpm reads them.
func (r release) stage(dir string, all []file) (files.Contents, error) {
	var out files.Contents
	for _, f := range all {
		c := &files.Content{
			Source: f.source, Destination: f.path, Type: files.TypeFile,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode.Perm(), MTime: r.date},
		}
		switch {
		case f.mode.IsDir():
			c.Type = files.TypeDir
		case f.mode.Type() == fs.ModeSymlink:
			c.Type, c.Source = files.TypeSymlink, string(f.data)
		case f.config:
			c.Type = files.TypeConfigNoReplace
		}
		if c.Source == "" && !f.mode.IsDir() {
			c.Source = filepath.Join(dir, f.path)
			if err := put(c.Source, f.data); err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// scripts names the maintainer scripts in the order of nfpm: after the installation, before and after the removal.
var scripts = map[kind][3]string{debian: {"postinst", "prerm", "postrm"}, redhat: {"post", "preun", "postun"}}

func stageScripts(dir string, k kind) (nfpm.Scripts, error) {
	var paths [3]string
	for i, name := range scripts[k] {
		paths[i] = filepath.Join(dir, name)
		if err := put(paths[i], script(k, name)); err != nil {
			return nfpm.Scripts{}, err
		}
	}
	return nfpm.Scripts{PostInstall: paths[0], PreRemove: paths[1], PostRemove: paths[2]}, nil
}

func put(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, data, fs.FileMode(0o600))
}
