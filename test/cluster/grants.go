package cluster

import (
	"context"
	"errors"
	"fmt"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bootstrappers is the group of clients with the bootstrap token; kubeadm uses the same group.
const bootstrappers = "system:bootstrappers:kubeadm:default-node-token"

// grants are the bindings of roles beyond the bindings that an API server creates.
var grants = []struct {
	name, role string
	subject    rbac.Subject
}{
	{"lab:bootstrap", "system:node-bootstrapper", group(bootstrappers)},
	{"lab:approve-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", group(bootstrappers)},
	{"lab:approve-rotation", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
		group("system:nodes")},
	{"lab:api-server-to-nodes", "system:kubelet-api-admin",
		rbac.Subject{Kind: rbac.UserKind, APIGroup: rbac.GroupName, Name: kubeletClient}},
}

func group(name string) rbac.Subject {
	return rbac.Subject{Kind: rbac.GroupKind, APIGroup: rbac.GroupName, Name: name}
}

// grant creates what TLS bootstrap needs, and waits for what every pod needs: the default service account of the
// default namespace.
func (c *Cluster) grant(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	for _, g := range grants {
		_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbac.ClusterRoleBinding{
			ObjectMeta: meta.ObjectMeta{Name: g.name},
			RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: g.role},
			Subjects:   []rbac.Subject{g.subject},
		}, meta.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("grant %s: %w", g.name, err)
		}
	}
	_, err = client.CoreV1().Secrets(meta.NamespaceSystem).Create(ctx, &core.Secret{
		ObjectMeta: meta.ObjectMeta{Name: "bootstrap-token-" + bootstrapID},
		Type:       "bootstrap.kubernetes.io/token",
		StringData: map[string]string{
			"token-id": bootstrapID, "token-secret": bootstrapSecret, "auth-extra-groups": bootstrappers,
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
		},
	}, meta.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the bootstrap token: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return Until(ctx, func() error {
		_, err := client.CoreV1().ServiceAccounts(meta.NamespaceDefault).Get(ctx, "default", meta.GetOptions{})
		return err
	})
}

// ApproveServing approves every request for a serving certificate of a node that is pending, as an administrator has
// to, and returns how many there were.
func (c *Cluster) ApproveServing(ctx context.Context) (int, error) {
	client, err := c.Client()
	if err != nil {
		return 0, err
	}
	requests := client.CertificatesV1().CertificateSigningRequests()
	list, err := requests.List(ctx, meta.ListOptions{})
	if err != nil {
		return 0, err
	}
	approved := 0
	for _, csr := range list.Items {
		if csr.Spec.SignerName != certificates.KubeletServingSignerName || len(csr.Status.Conditions) > 0 {
			continue
		}
		csr.Status.Conditions = append(csr.Status.Conditions, certificates.CertificateSigningRequestCondition{
			Type: certificates.CertificateApproved, Status: core.ConditionTrue, Reason: "ByTest",
		})
		_, one := requests.UpdateApproval(ctx, csr.Name, &csr, meta.UpdateOptions{})
		err = errors.Join(err, one)
		approved++
	}
	return approved, err
}
