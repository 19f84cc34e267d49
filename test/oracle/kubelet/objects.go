package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubernetes/pkg/kubelet/configmap"
	"k8s.io/kubernetes/pkg/kubelet/secret"

	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/test/oracle/node"
)

// configMaps and secrets are the kubelet's managers of objects. They manage the objects of the case.
type (
	configMaps struct {
		configmap.Manager
		from *node.Objects
	}
	secrets struct {
		secret.Manager
		from *node.Objects
	}
)

func (m configMaps) GetConfigMap(namespace, name string) (*v1.ConfigMap, error) {
	found, err := m.from.ConfigMap(context.Background(), objects.Owner{Namespace: namespace}, name)
	if err != nil {
		return nil, apierrors.NewNotFound(v1.Resource("configmap"), name)
	}
	return found, nil
}

func (m secrets) GetSecret(namespace, name string) (*v1.Secret, error) {
	found, err := m.from.Secret(context.Background(), objects.Owner{Namespace: namespace}, name)
	if err != nil {
		return nil, apierrors.NewNotFound(v1.Resource("secret"), name)
	}
	return found, nil
}
