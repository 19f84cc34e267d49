package config

import (
	"maps"
	"slices"
	"time"

	"github.com/spf13/pflag"
)

// withCluster adds the fields of cluster mode: for the Node, for requests to the API server, and for the server that
// the API server calls.
func withCluster(all map[string]field) map[string]field {
	for name, f := range clusterFields {
		f.cluster = true
		clusterFields[name] = f
	}
	maps.Copy(all, clusterFields)
	return all
}

// clusterOnly are flags of cluster mode without a field of their own.
var clusterOnly = []string{
	"cert-dir", "cloud-provider", "offline-secrets", "register-deleted-node", flagAnonymous, flagTokenReview,
	flagReviewTTL, flagClientCA, flagAuthorization, flagAuthorizedTTL, flagUnauthorizedTTL, flagExecCreate,
}

// clusterFlags returns a problem for each flag of cluster mode that is set on a node without a cluster.
func (c *Config) clusterFlags(flags *pflag.FlagSet) []Problem {
	if c.InCluster() || flags == nil {
		return nil
	}
	names := slices.Clone(clusterOnly)
	for _, f := range clusterFields {
		if f.flag != "" {
			names = append(names, f.flag)
		}
	}
	slices.Sort(names)
	var out []Problem
	for _, name := range names {
		if f := flags.Lookup(name); f != nil && f.Changed && f.Value.String() != f.DefValue {
			out = append(out, Problem{File: "--" + name, Message: noCluster})
		}
	}
	return out
}

var clusterFields = map[string]field{
	"address": {flag: "address", def: `"0.0.0.0"`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Server.Address = k.Address })},
	"port": {flag: "port", def: `10250`, apply: set(func(c *Config, k *kubeletConfig) { c.Server.Port = k.Port })},
	"readOnlyPort": {flag: "read-only-port", apply: set(
		func(c *Config, k *kubeletConfig) { c.Server.ReadOnlyPort = k.ReadOnlyPort })},
	"tlsCertFile": {flag: "tls-cert-file", apply: func(c *Config, k *kubeletConfig, file string) error {
		c.Server.TLSCertFile = resolvePath(k.TLSCertFile, file)
		return nil
	}},
	"tlsPrivateKeyFile": {flag: "tls-private-key-file", apply: func(c *Config, k *kubeletConfig, file string) error {
		c.Server.TLSPrivateKeyFile = resolvePath(k.TLSPrivateKeyFile, file)
		return nil
	}},
	"tlsCipherSuites": {flag: "tls-cipher-suites", apply: set(
		func(c *Config, k *kubeletConfig) { c.Server.TLSCipherSuites = k.TLSCipherSuites })},
	"tlsCurvePreferences": {apply: set(
		func(c *Config, k *kubeletConfig) { c.Server.TLSCurvePreferences = k.TLSCurvePreferences })},
	"tlsMinVersion": {flag: "tls-min-version", apply: set(
		func(c *Config, k *kubeletConfig) { c.Server.TLSMinVersion = k.TLSMinVersion })},
	"authentication": {apply: noop, // see applyAuthentication: each part has a flag
		def: `{"anonymous":{"enabled":false},"webhook":{"enabled":true,"cacheTTL":"2m"}}`},
	"authorization": {apply: noop, // see applyAuthorization
		def: `{"mode":"Webhook","webhook":{"cacheAuthorizedTTL":"5m","cacheUnauthorizedTTL":"30s"}}`},

	"rotateCertificates": {flag: "rotate-certificates", apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.RotateCertificates = k.RotateCertificates })},
	"serverTLSBootstrap": {flag: "rotate-server-certificates", apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.ServerTLSBootstrap = k.ServerTLSBootstrap })},
	"eventRecordQPS": {flag: "event-qps", def: `50`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.EventQPS = *k.EventRecordQPS })},
	"eventBurst": {flag: "event-burst", def: `100`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.EventBurst = k.EventBurst })},
	"contentType": {flag: "kube-api-content-type", def: `"application/vnd.kubernetes.protobuf"`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.ContentType = k.ContentType })},
	"kubeAPIQPS": {flag: "kube-api-qps", def: `50`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.QPS = *k.KubeAPIQPS })},
	"kubeAPIBurst": {flag: "kube-api-burst", def: `100`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.Burst = k.KubeAPIBurst })},

	"makeIPTablesUtilChains": {def: `true`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.NoIPTablesChains = !*k.MakeIPTablesUtilChains })},
	"registerNode": {flag: "register-node", def: `true`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.RegisterNode = *k.RegisterNode })},
	"registerWithTaints": {flag: "register-with-taints", apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.RegisterWithTaints = k.RegisterWithTaints })},
	"providerID": {flag: "provider-id", apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.ProviderID = k.ProviderID })},
	"nodeStatusUpdateFrequency": {flag: "node-status-update-frequency", def: `"10s"`, apply: duration(
		func(k *kubeletConfig) time.Duration { return k.NodeStatusUpdateFrequency.Duration },
		func(c *Config) *time.Duration { return &c.Cluster.StatusUpdate })},
	"nodeStatusReportFrequency": {def: `"5m"`, apply: duration(
		func(k *kubeletConfig) time.Duration { return k.NodeStatusReportFrequency.Duration },
		func(c *Config) *time.Duration { return &c.Cluster.StatusReport })},
	"nodeLeaseDurationSeconds": {def: `40`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.LeaseSeconds = k.NodeLeaseDurationSeconds })},
	"nodeStatusMaxImages": {def: `50`, apply: set(
		func(c *Config, k *kubeletConfig) { c.Cluster.MaxImages = *k.NodeStatusMaxImages })},
}
