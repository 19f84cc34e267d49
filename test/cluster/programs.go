package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Version is the release of Kubernetes that upstream/go.mod names; the programs report it.
const Version = "v1.37.1"

// Program names a program that is built from the module in upstream.
type Program string

// The programs of a control plane and of a node, and the programs that test them.
const (
	Etcd              Program = "etcd"
	APIServer         Program = "kube-apiserver"
	ControllerManager Program = "kube-controller-manager"
	Scheduler         Program = "kube-scheduler"
	Kubectl           Program = "kubectl"
	Kubeadm           Program = "kubeadm"
	Kubelet           Program = "kubelet"
	E2E               Program = "e2e.test"
	E2ENode           Program = "e2e_node.test"
	Agnhost           Program = "agnhost"
	Nonewprivs        Program = "nnp"
)

// The programs of images that a cluster runs as pods. CoreDNS comes from the module in dns, by DNS.
const (
	KubeProxy       Program = "kube-proxy"
	SampleAPIServer Program = "sample-apiserver"
	StaticEtcd      Program = "etcd-static" // etcd without a C library
	CoreDNS         Program = "coredns"
)

// withoutLibC are the programs of images without a C library. CGO_ENABLED=0 would compile all of Kubernetes' packages
// once more.
var withoutLibC = []Program{Agnhost, Nonewprivs, KubeProxy, SampleAPIServer, StaticEtcd}

// The sidecars of CSI drivers, which come from the module in sidecars, by Sidecars.
const (
	CSIProvisioner Program = "csi-provisioner"
	CSIAttacher    Program = "csi-attacher"
	CSIResizer     Program = "csi-resizer"
)

var sidecarPrograms = []Program{CSIProvisioner, CSIAttacher, CSIResizer}

// apart are the programs of modules that share no packages with Kubernetes'.
var apart = append([]Program{CoreDNS}, sidecarPrograms...)

// packages are the import paths of the programs. E2E and E2ENode are packages of tests.
var packages = map[Program]string{
	Etcd:              "go.etcd.io/etcd/server/v3",
	APIServer:         "k8s.io/kubernetes/cmd/kube-apiserver",
	ControllerManager: "k8s.io/kubernetes/cmd/kube-controller-manager",
	Scheduler:         "k8s.io/kubernetes/cmd/kube-scheduler",
	Kubectl:           "k8s.io/kubernetes/cmd/kubectl",
	Kubeadm:           "k8s.io/kubernetes/cmd/kubeadm",
	Kubelet:           "k8s.io/kubernetes/cmd/kubelet",
	E2E:               "k8s.io/kubernetes/test/e2e",
	E2ENode:           "k8s.io/kubernetes/test/e2e_node",
	Agnhost:           "k8s.io/kubernetes/test/images/agnhost",
	Nonewprivs:        "k8s.io/kubernetes/test/images/nonewprivs",
	KubeProxy:         "k8s.io/kubernetes/cmd/kube-proxy",
	SampleAPIServer:   "k8s.io/sample-apiserver",
	StaticEtcd:        "go.etcd.io/etcd/server/v3",
	CoreDNS:           "github.com/coredns/coredns",
	CSIProvisioner:    "github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner",
	CSIAttacher:       "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher",
	CSIResizer:        "github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer",
}

const (
	// recipe is raised when flags or environment of the build change: what was built before is then built again.
	recipe = "1"
	// unusedFor is how long programs of another version are kept: a checkout of an older commit may need them.
	unusedFor = 30 * 24 * time.Hour
	upstream  = "test/cluster/upstream"
	sidecars  = "test/cluster/sidecars"
	dns       = "test/cluster/dns"
)

// Checkout returns the root directory of the checkout that the working directory is in.
func Checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, upstream, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("%s is in no checkout with %s: run this from inside one", dir, upstream)
		}
	}
}

// Missing returns those programs that the cache lacks.
func Missing(ctx context.Context, programs ...Program) ([]Program, error) {
	dir, err := Provide(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(programs), func(p Program) bool {
		_, err := os.Stat(filepath.Join(dir, string(p)))
		return err == nil
	}), nil
}

// Provide builds those programs that the cache lacks, and returns the directory that has them. A first build takes
// minutes a program; it runs at a low priority, with LAB_BUILD_PARALLEL (2) compiles at a time.
func Provide(ctx context.Context, programs ...Program) (string, error) {
	return provideAll(ctx, upstream, programs...)
}

// Sidecars does the same for all sidecars of CSI drivers.
func Sidecars(ctx context.Context) (string, error) {
	return provideAll(ctx, sidecars, sidecarPrograms...)
}

// DNS does the same for the DNS server of a cluster.
func DNS(ctx context.Context) (string, error) { return provideAll(ctx, dns, CoreDNS) }

// provideAll builds programs from a module of the checkout.
func provideAll(ctx context.Context, module string, programs ...Program) (string, error) {
	root, err := Checkout()
	if err != nil {
		return "", err
	}
	module = filepath.Join(root, module)
	key, err := cacheKey(ctx, module)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for built programs: %w; set XDG_CACHE_HOME", err)
	}
	all := filepath.Join(cache, "journalet", "cluster")
	dir := filepath.Join(all, key)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // programs, for all users
		return "", err
	}
	now := time.Now()
	if err := os.Chtimes(dir, now, now); err != nil {
		return "", err
	}
	for _, p := range programs {
		if err := provide(ctx, module, dir, p); err != nil {
			return "", err
		}
	}
	return dir, prune(all, key, now)
}

// Built returns an error, with the command that builds them, unless the cache has all programs of a control plane: for
// tests of minutes, which are not to begin with a build of twenty.
func Built(ctx context.Context) error {
	dir, err := Provide(ctx)
	if err != nil {
		return err
	}
	for _, p := range append([]Program{Kubectl}, parts...) {
		if _, err := os.Stat(filepath.Join(dir, string(p))); err != nil {
			return fmt.Errorf("%s %s is not built: run `make cluster` first, which takes some 20 minutes: %w", p, Version, err)
		}
	}
	return nil
}

// provide builds a program unless it is there. Who finds another process at the same build waits for it.
func provide(ctx context.Context, module, dir string, p Program) error {
	path := filepath.Join(dir, string(p))
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return build(ctx, module, dir, p)
}

// cacheKey is a hash of all that the programs are built from: the pinned modules, the compiler, and the recipe.
func cacheKey(ctx context.Context, module string) (string, error) {
	h := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		h.Write(b)
	}
	env := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOARCH", "CGO_ENABLED")
	env.Dir = module
	out, err := env.Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	h.Write(out)
	h.Write([]byte(recipe + Version))
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// lock waits for a lock file and holds it.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644) //nolint:gosec // in the cache directory
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// build compiles one program into a file aside, which is then renamed: an interrupted build leaves no half a program.
func build(ctx context.Context, module, dir string, p Program) error {
	started := time.Now()
	part := filepath.Join(dir, string(p)+".part")
	args := append([]string{"-n", "10", "go"}, buildArgs(p, part)...)
	cmd := exec.CommandContext(ctx, "nice", args...) //nolint:gosec // arguments of this package
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
	if slices.Contains(apart, p) {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0") // for images without a C library, too
	}
	fmt.Fprintf(os.Stderr, "cluster: building %s, once for %s; the first build takes minutes\n", p, module)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", p, module, err, out)
	}
	fmt.Fprintf(os.Stderr, "cluster: built %s in %s\n", p, time.Since(started).Round(time.Second))
	return os.Rename(part, filepath.Join(dir, string(p)))
}

func buildArgs(p Program, out string) []string {
	const variables = "k8s.io/component-base/version."
	number := strings.Split(strings.TrimPrefix(Version, "v"), ".")
	ldflags := "-s -w"
	for _, set := range []string{"gitVersion=" + Version, "gitMajor=" + number[0], "gitMinor=" + number[1],
		"gitTreeState=clean"} {
		if !slices.Contains(apart, p) {
			ldflags += " -X " + variables + set
		}
	}
	if slices.Contains(withoutLibC, p) {
		ldflags += " -linkmode external -extldflags -static"
	}
	parallel := os.Getenv("LAB_BUILD_PARALLEL")
	if parallel == "" {
		parallel = "2"
	}
	args := []string{"build"}
	if p == E2E || p == E2ENode {
		args = []string{"test", "-c", "-vet=off"}
	}
	return append(args, "-p", parallel, "-ldflags", ldflags, "-o", out, packages[p])
}

// prune removes programs of other versions that nothing has used for long.
func prune(all, key string, now time.Time) error {
	entries, err := os.ReadDir(all)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) || !e.IsDir() || e.Name() == key {
			continue
		}
		if err == nil && now.Sub(info.ModTime()) < unusedFor {
			continue
		}
		if err := errors.Join(err, os.RemoveAll(filepath.Join(all, e.Name()))); err != nil {
			return err
		}
	}
	return nil
}
