package agent

import (
	"context"
	"crypto/tls"
	"runtime"
	"time"

	"k8s.io/client-go/rest"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/monitoring"
	"github.com/journalet/journalet/runtime/cluster/certificate"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/cluster/node"
	"github.com/journalet/journalet/runtime/dra"
	"github.com/journalet/journalet/runtime/persistentvolume"
	"github.com/journalet/journalet/runtime/source/api"
)

// cluster is what the agent does as a node of a cluster (ADR 051). It is nil without a kubeconfig: then nothing of it
// exists.
type cluster struct {
	metrics *monitoring.ClusterMetrics
	client  *client.Client
	contact *client.Contact
	node    *node.Driver
	pods    *api.Driver
	csi     *persistentvolume.Drivers
	disks   *persistentvolume.Volumes
	dra     *dra.Drivers
	claims  *dra.Claims
	health  *dra.Health
	slices  *dra.Slices
	reports *reports
	// ports serve the kubelet server's paths to the cluster, by name.
	ports map[string]func(context.Context) error
	clusterObjects
	// identity has the client certificate; nil: the kubeconfig has the credentials. serving has the certificate of the
	// server that the cluster signs; nil: it is configured, or the agent's own.
	identity, serving *certificate.Manager
	keepIdentity      func(context.Context) error
	// unwritten means that there is a certificate and no kubeconfig that names it.
	unwritten bool
}

// newCluster creates the drivers of cluster mode without running them; nil without a kubeconfig.
func (a *agent) newCluster() (*cluster, error) {
	if !a.cfg.InCluster() {
		return nil, nil
	}
	begin, err := certificate.Begin(a.cfg.KubeconfigPath(), a.cfg.Cluster.BootstrapKubeconfig, a.facts.NodeName,
		a.cfg.Cluster.RotateCertificates, time.Now())
	if err != nil {
		return nil, err
	}
	if begin.Problem != nil {
		// What runs needs no API server: this is no reason not to start.
		a.log.Warn("the API server may refuse this node", "error", begin.Problem)
	}
	c := &cluster{metrics: a.metrics.Cluster()}
	c.contact = client.NewContact(a.contacted, time.Now)
	c.contact.Explain(func() string { return a.explainRefusal(c, begin.Config) })
	options := a.clientOptions(begin.Config, c.contact)
	options.Requested, options.Limited = c.metrics.Requested, c.metrics.Limited
	options.LeftOut = a.leftOut(c)
	if begin.Managed {
		if c.identity, err = a.newIdentity(c, begin); err != nil {
			return nil, err
		}
		c.keepIdentity = a.keepIdentity(c, begin.Config)
		options.Certificate, options.Gate = c.identity.Current, c.identity.Ready()
	}
	if c.client, err = client.New(options); err != nil {
		return nil, err
	}
	c.node = a.newClusterNode(c)
	a.newClaims(c)
	c.reports = a.newReports(c.client, c.metrics.StatusSynced)
	if c.pods, err = a.newAPISource(c.client, a.intake(), api.Options{
		Newest: a.manifests.Newest, Changed: c.reports.changed, Whole: c.podsListed, Refused: c.reports.updateRefused,
		Allocated: a.allocatedByKubelet(),
	}); err != nil {
		return nil, err
	}
	c.reports.objects = c.pods.Pods()
	var signed func() *tls.Certificate
	if a.cfg.Cluster.ServerTLSBootstrap {
		if c.serving, err = a.newServing(c); err != nil {
			return nil, err
		}
		signed = c.serving.Current
	}
	if c.ports, err = a.newPorts(c, signed); err != nil {
		return nil, err
	}
	return c, a.newClusterObjects(c)
}

// contacted logs and records whether the API server answers this node.
func (a *agent) contacted(ctx context.Context, r *journaletv1.ApiServerContact) error {
	switch problem := r.GetMessage(); {
	case !r.GetReachable():
		a.log.Warn("the API server does not answer; what runs keeps running", "error", problem)
	case problem != "":
		a.log.Warn("the API server answers, but " + problem)
	default:
		a.log.Info("the API server answers")
	}
	return a.host.Fact(ctx, messages.Agent, messages.NewEvent(r))
}

// clientOptions returns the options of a client of the API server.
func (a *agent) clientOptions(config *rest.Config, contact *client.Contact) client.Options {
	l := &a.cfg.Cluster
	eventQPS := float32(l.EventQPS)
	if eventQPS == 0 {
		eventQPS = -1
	}
	return client.Options{
		Config: config, NodeName: a.facts.NodeName,
		Main:             client.Limits{QPS: float32(l.QPS), Burst: int(l.Burst)},
		Events:           client.Limits{QPS: eventQPS, Burst: int(l.EventBurst)},
		HeartbeatTimeout: min(l.UpdateEvery(), time.Duration(l.LeaseSeconds)*time.Second),
		ContentType:      l.ContentType, Contact: contact,
		UserAgent: "journalet/" + Version + " (" + runtime.GOOS + "/" + runtime.GOARCH + ")",
	}
}
