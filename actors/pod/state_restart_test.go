package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/messages/journaletv1"
)

func restartOn(op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) corev1.ContainerRestartRule {
	return corev1.ContainerRestartRule{
		Action:    corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes},
	}
}

func TestPoliciesSayWhoRunsAgain(t *testing.T) {
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	always, onFailure, never := ptr.To(corev1.ContainerRestartPolicyAlways), ptr.To(corev1.ContainerRestartPolicyOnFailure), ptr.To(corev1.ContainerRestartPolicyNever)
	for _, c := range []struct {
		name      string
		pod       corev1.RestartPolicy
		own       *corev1.ContainerRestartPolicy
		rules     []corev1.ContainerRestartRule
		code      int32
		unhealthy bool
		again     bool
	}{
		{name: "Always after success", pod: corev1.RestartPolicyAlways, again: true},
		{name: "OnFailure after success", pod: corev1.RestartPolicyOnFailure},
		{name: "OnFailure after failure", pod: corev1.RestartPolicyOnFailure, code: 1, again: true},
		{name: "Never after failure", pod: corev1.RestartPolicyNever, code: 1},
		{name: "own Always under Never", pod: corev1.RestartPolicyNever, own: always, again: true},
		{name: "own OnFailure under Always", pod: corev1.RestartPolicyAlways, own: onFailure},
		{name: "own Never under Always", pod: corev1.RestartPolicyAlways, own: never, code: 1},
		{name: "a rule that names the code", pod: corev1.RestartPolicyNever, own: never, rules: []corev1.ContainerRestartRule{restartOn(in, 1, 42)}, code: 42, again: true},
		{name: "a rule that names another", pod: corev1.RestartPolicyAlways, own: never, rules: []corev1.ContainerRestartRule{restartOn(in, 1, 42)}, code: 2},
		{name: "the second rule", pod: corev1.RestartPolicyNever, own: never, rules: []corev1.ContainerRestartRule{restartOn(in, 1), restartOn(in, 2)}, code: 2, again: true},
		{name: "a rule for all but one", pod: corev1.RestartPolicyNever, own: never, rules: []corev1.ContainerRestartRule{restartOn(notIn, 0)}, code: 2, again: true},
		{name: "a rule for all but this", pod: corev1.RestartPolicyNever, own: never, rules: []corev1.ContainerRestartRule{restartOn(notIn, 2)}, code: 2},
		{name: "success by a rule", pod: corev1.RestartPolicyNever, own: onFailure, rules: []corev1.ContainerRestartRule{restartOn(in, 0)}, again: true},
		{name: "rules without a policy of its own", pod: corev1.RestartPolicyNever, rules: []corev1.ContainerRestartRule{restartOn(in, 1)}, code: 1},
		{name: "unhealthy, ended with 0, OnFailure", pod: corev1.RestartPolicyOnFailure, unhealthy: true, again: true},
		{name: "unhealthy under Never", pod: corev1.RestartPolicyNever, code: 137, unhealthy: true},
		{name: "unhealthy, with a rule for its code", pod: corev1.RestartPolicyAlways, own: never, rules: []corev1.ContainerRestartRule{restartOn(in, 137)}, code: 137, unhealthy: true},
	} {
		spec := corev1.Container{Name: "main", RestartPolicy: c.own, RestartPolicyRules: c.rules}
		a := New("uid")
		a.manifest = &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: c.pod, Containers: []corev1.Container{spec}}}
		r := &journaletv1.ContainerRecord{Name: "main", StoppedAsUnhealthy: c.unhealthy, Current: &journaletv1.ContainerObservation{
			Id: "id", State: journaletv1.ContainerState_CONTAINER_STATE_EXITED, ExitCode: c.code,
		}}
		if got := a.restarts(&spec, r); got != c.again {
			t.Errorf("%s: runs again: %t, want %t", c.name, got, c.again)
		}
	}
}

func asking(name, cpu string, sidecar bool, hostPort int32) corev1.Container {
	c := corev1.Container{Name: name, Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: hostPort}}}
	c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	if sidecar {
		c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	}
	return c
}

func TestDemandIsTheMostThatRunsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		inits []corev1.Container
		cpu   int64
	}{
		{"main containers alone", nil, 300},
		{"a small init container", []corev1.Container{asking("i", "200m", false, 0)}, 300},
		{"a large one", []corev1.Container{asking("i", "500m", false, 0)}, 500},
		{"a sidecar", []corev1.Container{asking("s", "50m", true, 0)}, 350},
		{"a large one behind a sidecar", []corev1.Container{asking("s", "50m", true, 0), asking("i", "500m", false, 0)}, 550},
		{"a large one before a sidecar", []corev1.Container{asking("i", "500m", false, 0), asking("s", "50m", true, 0)}, 500},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: c.inits, Containers: []corev1.Container{asking("a", "100m", false, 0), asking("b", "200m", false, 0)}}}
		if got := Demand(p).GetMilliCpu(); got != c.cpu {
			t.Errorf("%s: %d, want %d", c.name, got, c.cpu)
		}
	}
}

func TestHostPortsAreThoseHeldForThePodsLife(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{asking("i", "1m", false, 1), asking("s", "1m", true, 2)},
		Containers:     []corev1.Container{asking("a", "1m", false, 3)},
	}}
	if got := Demand(p).GetHostPorts(); len(got) != 2 || got[0] != "TCP//2" || got[1] != "TCP//3" {
		t.Errorf("host ports: %v", got)
	}
}

func TestInitContainersCountForTheQualityOfService(t *testing.T) {
	sure := func(name string) corev1.Container {
		c := corev1.Container{Name: name}
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Mi")}
		c.Resources.Requests = c.Resources.Limits
		return c
	}
	for _, c := range []struct {
		init, main corev1.Container
		want       corev1.PodQOSClass
	}{
		{sure("i"), sure("m"), corev1.PodQOSGuaranteed},
		{corev1.Container{Name: "i"}, sure("m"), corev1.PodQOSBurstable},
		{asking("i", "1m", false, 0), corev1.Container{Name: "m"}, corev1.PodQOSBurstable},
		{corev1.Container{Name: "i"}, corev1.Container{Name: "m"}, corev1.PodQOSBestEffort},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{c.init}, Containers: []corev1.Container{c.main}}}
		if got := QOS(p); got != c.want {
			t.Errorf("%v and %v: %s, want %s", c.init.Resources, c.main.Resources, got, c.want)
		}
	}
}
