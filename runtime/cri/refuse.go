package cri

import (
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// refuse returns an error for a pod that needs what no driver carries out yet, so that it never runs without it. What a
// driver carries out has no line here.
func refuse(pod *corev1.Pod) error {
	sc := pod.Spec.SecurityContext
	switch {
	case pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers:
		return errors.New("hostUsers: false is not supported")
	case sc != nil && sc.SELinuxOptions != nil:
		return errors.New("securityContext.seLinuxOptions are not supported")
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if err := refuseContainer(&list[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func refuseContainer(c *corev1.Container) error {
	if c.SecurityContext != nil && c.SecurityContext.SELinuxOptions != nil {
		return errors.New("seLinuxOptions of container " + c.Name + " are not supported")
	}
	for name := range c.Resources.Limits {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			return errors.New("huge pages of container " + c.Name + " are not supported")
		}
	}
	return nil
}
