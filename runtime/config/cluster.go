package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"github.com/journalet/journalet/runtime/own"
)

// The kubelet's defaults of cluster mode.
const (
	defaultStatusUpdate = 10 * time.Second
	defaultStatusReport = 5 * time.Minute
	defaultLeaseSeconds = 40
	defaultMaxImages    = 50
	defaultAPIQPS       = 50
	defaultAPIBurst     = 100
	defaultContentType  = "application/vnd.kubernetes.protobuf"
	// ExternalCloud is the only cloud provider of the kubelet: a controller of its own initializes the Node.
	ExternalCloud = "external"
	// minStatusUpdate keeps the check of the Node from becoming a busy loop.
	minStatusUpdate = time.Second
)

// Cluster is the configuration of a node of a cluster. Without InCluster nothing of it counts.
type Cluster struct {
	// Kubeconfig and BootstrapKubeconfig are paths; both empty: the agent is standalone. Kubeconfig is written by the
	// bootstrap if it does not exist.
	Kubeconfig, BootstrapKubeconfig string
	// CertDir holds the agent's certificates and their keys; empty: pki in the root directory.
	CertDir string
	// CloudProvider is ExternalCloud or empty, ProviderID the node's name at it.
	CloudProvider, ProviderID string
	// NoIPTablesChains leaves out the chains that other components expect of a kubelet.
	NoIPTablesChains bool
	// RegisterNode creates the Node if it does not exist, with RegisterWithTaints.
	RegisterNode       bool
	RegisterWithTaints []corev1.Taint
	// RegisterDeletedNode creates a Node again that was deleted while the agent runs (ADR 053).
	RegisterDeletedNode bool
	// StatusUpdate is the interval at which the Node's status is computed, StatusReport the one at which it is sent
	// although it has not changed; 0: as the kubelet, see ReportEvery.
	StatusUpdate, StatusReport time.Duration
	// LeaseSeconds is the duration of the Node's Lease, renewed four times as often.
	LeaseSeconds int32
	// MaxImages bounds the images in the Node's status; -1: no bound.
	MaxImages int32
	// QPS and Burst bound the requests to the API server but events and heartbeats, EventQPS and EventBurst events; an
	// EventQPS of 0 is no bound.
	QPS, Burst, EventQPS, EventBurst int32
	// ContentType is how requests are encoded.
	ContentType string
	// RotateCertificates renews the client certificate, ServerTLSBootstrap requests the serving certificate from the
	// cluster.
	RotateCertificates, ServerTLSBootstrap bool
}

func defaultCluster() Cluster {
	return Cluster{
		RegisterNode: true, RegisterDeletedNode: true, LeaseSeconds: defaultLeaseSeconds, MaxImages: defaultMaxImages,
		QPS: defaultAPIQPS, Burst: defaultAPIBurst, EventQPS: defaultAPIQPS, EventBurst: defaultAPIBurst,
		ContentType: defaultContentType,
	}
}

// InCluster reports whether the agent is a node of a cluster.
func (c *Config) InCluster() bool {
	return c.Cluster.Kubeconfig != "" || c.Cluster.BootstrapKubeconfig != ""
}

// KubeconfigPath returns the kubeconfig of this node, which may not exist yet.
func (c *Config) KubeconfigPath() string {
	return cmp.Or(c.Cluster.Kubeconfig, filepath.Join(c.RootDir, own.Kubeconfig))
}

// CertificateDir returns the directory of the agent's certificates.
func (c *Config) CertificateDir() string {
	return cmp.Or(c.Cluster.CertDir, filepath.Join(c.RootDir, own.Certificates))
}

// UpdateEvery returns the interval at which the Node's status is computed.
func (c *Cluster) UpdateEvery() time.Duration { return cmp.Or(c.StatusUpdate, defaultStatusUpdate) }

// ReportEvery returns the interval at which an unchanged status is sent: 5 min, or the interval of the computation if
// only that is set, as in the kubelet.
func (c *Cluster) ReportEvery() time.Duration {
	return cmp.Or(c.StatusReport, c.StatusUpdate, defaultStatusReport)
}

// addClusterFlags adds the flags of cluster mode, which are the kubelet's except one.
func (c *Config) addClusterFlags(fs *pflag.FlagSet) {
	l := &c.Cluster
	fs.StringVar(&l.Kubeconfig, "kubeconfig", l.Kubeconfig,
		"kubeconfig of this node: it joins that cluster and runs its pods; empty: no cluster")
	fs.StringVar(&l.BootstrapKubeconfig, "bootstrap-kubeconfig", l.BootstrapKubeconfig,
		"kubeconfig with which the agent requests its client certificate, if --kubeconfig has no valid one")
	fs.StringVar(&l.CertDir, "cert-dir", l.CertDir, "directory of the agent's certificates; empty: pki in --root-dir")
	fs.StringVar(&l.CloudProvider, "cloud-provider", l.CloudProvider,
		"external: a cloud controller initializes the Node; empty: there is none")
	fs.StringVar(&l.ProviderID, "provider-id", l.ProviderID, "the Node's spec.providerID")
	fs.BoolVar(&l.RegisterNode, "register-node", l.RegisterNode, "create the Node if it does not exist")
	fs.Var(taintsFlag{&l.RegisterWithTaints}, "register-with-taints",
		"taints of a Node that the agent creates, key=value:effect separated by commas")
	fs.BoolVar(&l.RegisterDeletedNode, "register-deleted-node", l.RegisterDeletedNode,
		"create the Node again if it is deleted while the agent runs; false: at the next start only, as the kubelet")
	fs.DurationVar(&l.StatusUpdate, "node-status-update-frequency", l.StatusUpdate,
		"interval at which the Node's status is computed; 0: 10s")
	fs.Int32Var(&l.QPS, "kube-api-qps", l.QPS, "requests a second to the API server, besides events and heartbeats")
	fs.Int32Var(&l.Burst, "kube-api-burst", l.Burst, "requests at once to the API server, after a pause")
	fs.Int32Var(&l.EventQPS, "event-qps", l.EventQPS, "events a second; 0: no bound")
	fs.Int32Var(&l.EventBurst, "event-burst", l.EventBurst, "events at once, after a pause")
	fs.StringVar(&l.ContentType, "kube-api-content-type", l.ContentType, "content type of requests to the API server")
	fs.BoolVar(&l.RotateCertificates, "rotate-certificates", l.RotateCertificates, "renew the client certificate")
	fs.BoolVar(&l.ServerTLSBootstrap, "rotate-server-certificates", l.ServerTLSBootstrap,
		"request the serving certificate from the cluster, and renew it")
}

func (c *Config) validateCluster() []error {
	if !c.InCluster() {
		return nil
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	l := &c.Cluster
	if l.LeaseSeconds <= 0 {
		bad("nodeLeaseDurationSeconds: %d, want more than 0", l.LeaseSeconds)
	}
	for name, d := range map[string]time.Duration{
		"nodeStatusUpdateFrequency (--node-status-update-frequency)": l.UpdateEvery(),
		"nodeStatusReportFrequency":                                  l.ReportEvery(),
	} {
		if d < minStatusUpdate || d > 24*time.Hour {
			bad("%s: %v is not within %v and 24h", name, d, minStatusUpdate)
		}
	}
	for name, n := range map[string]int32{
		"kubeAPIQPS (--kube-api-qps)": l.QPS, "kubeAPIBurst (--kube-api-burst)": l.Burst,
		"eventRecordQPS (--event-qps)": l.EventQPS, "eventBurst (--event-burst)": l.EventBurst,
		"nodeStatusMaxImages": l.MaxImages + 1,
	} {
		if n < 0 {
			bad("%s: found a negative number", name)
		}
	}
	if l.CloudProvider != "" && l.CloudProvider != ExternalCloud {
		bad("--cloud-provider: found %q, want %s, or none", l.CloudProvider, ExternalCloud)
	}
	for _, t := range l.RegisterWithTaints {
		if err := validateTaint(t); err != nil {
			bad("registerWithTaints (--register-with-taints): %w", err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.NodeLabels)) {
		if reservedLabel(key) {
			bad("--node-labels: %s is reserved: a node may set kubelet.kubernetes.io/, node.kubernetes.io/ and the keys of "+
				"topology, instance type, hostname, os and arch", key)
		}
	}
	return append(errs, c.Server.validate()...)
}

// reservedLabel reports whether a node must not set a label of Kubernetes on its own Node.
func reservedLabel(key string) bool {
	domain, _, found := strings.Cut(key, "/")
	ours := found && (domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") ||
		domain == "k8s.io" || strings.HasSuffix(domain, ".k8s.io"))
	return ours && !kubeletapis.IsKubeletLabel(key)
}

// taintEffects are the effects that the API knows.
var taintEffects = []corev1.TaintEffect{
	corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
}

func validateTaint(t corev1.Taint) error {
	if why := validation.IsQualifiedName(t.Key); len(why) > 0 {
		return fmt.Errorf("key %q: %s", t.Key, why[0])
	}
	if why := validation.IsValidLabelValue(t.Value); len(why) > 0 {
		return fmt.Errorf("value %q of %s: %s", t.Value, t.Key, why[0])
	}
	if !slices.Contains(taintEffects, t.Effect) {
		return fmt.Errorf("effect %q of %s, want one of %v", t.Effect, t.Key, taintEffects)
	}
	if t.TimeAdded != nil {
		return errors.New("timeAdded is set by the control plane; remove it")
	}
	return nil
}

// taintsFlag is the value of --register-with-taints.
type taintsFlag struct{ taints *[]corev1.Taint }

// Set replaces the taints.
func (f taintsFlag) Set(text string) error {
	var out []corev1.Taint
	for _, one := range strings.Split(text, ",") {
		if one == "" {
			continue
		}
		spec, effect, _ := strings.Cut(one, ":")
		key, value, _ := strings.Cut(spec, "=")
		t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
		if err := validateTaint(t); err != nil {
			return err
		}
		out = append(out, t)
	}
	*f.taints = out
	return nil
}

// String returns the taints as Set takes them.
func (f taintsFlag) String() string {
	if f.taints == nil {
		return ""
	}
	var out []string
	for i := range *f.taints {
		out = append(out, (*f.taints)[i].ToString())
	}
	return strings.Join(out, ",")
}

// Type returns the type of the flag's value.
func (f taintsFlag) Type() string { return "taints" }
