package pod

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/messages/journaletv1"
)

func restartOn(op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) []corev1.ContainerRestartRule {
	return []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes},
	}}
}

func TestPoliciesAndRulesDecideRestarts(t *testing.T) {
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	always, never := ptr.To(corev1.ContainerRestartPolicyAlways), ptr.To(corev1.ContainerRestartPolicyNever)
	onFailure := ptr.To(corev1.ContainerRestartPolicyOnFailure)
	const podAlways, podNever = corev1.RestartPolicyAlways, corev1.RestartPolicyNever
	const podOnFailure = corev1.RestartPolicyOnFailure
	for _, c := range []struct {
		name      string
		pod       corev1.RestartPolicy
		own       *corev1.ContainerRestartPolicy
		rules     []corev1.ContainerRestartRule
		code      int32
		unhealthy bool
		again     bool
	}{
		{name: "Always after success", pod: podAlways, again: true},
		{name: "OnFailure after success", pod: podOnFailure},
		{name: "OnFailure after failure", pod: podOnFailure, code: 1, again: true},
		{name: "Never after failure", pod: podNever, code: 1},
		{name: "own Always under Never", pod: podNever, own: always, again: true},
		{name: "own OnFailure under Always", pod: podAlways, own: onFailure},
		{name: "own Never under Always", pod: podAlways, own: never, code: 1},
		{name: "a rule that names the code", pod: podNever, own: never, rules: restartOn(in, 1, 42), code: 42, again: true},
		{name: "a rule that names another", pod: podAlways, own: never, rules: restartOn(in, 1, 42), code: 2},
		{name: "the second rule", pod: podNever, own: never, code: 2, again: true,
			rules: slices.Concat(restartOn(in, 1), restartOn(in, 2))},
		{name: "a rule for all but one", pod: podNever, own: never, rules: restartOn(notIn, 0), code: 2, again: true},
		{name: "a rule for all but this", pod: podNever, own: never, rules: restartOn(notIn, 2), code: 2},
		{name: "success by a rule", pod: podNever, own: onFailure, rules: restartOn(in, 0), again: true},
		{name: "rules without a policy of its own", pod: podNever, rules: restartOn(in, 1), code: 1},
		{name: "unhealthy, ended with 0, OnFailure", pod: podOnFailure, unhealthy: true, again: true},
		{name: "unhealthy under Never", pod: podNever, code: 137, unhealthy: true},
		{name: "unhealthy, with a rule for its code", pod: podAlways, own: never, code: 137, unhealthy: true,
			rules: restartOn(in, 137)},
	} {
		spec := corev1.Container{Name: "main", RestartPolicy: c.own, RestartPolicyRules: c.rules}
		a := New("uid")
		a.manifest = &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: c.pod, Containers: []corev1.Container{spec}}}
		ended := &journaletv1.ContainerObservation{
			Id: "id", State: journaletv1.ContainerState_CONTAINER_STATE_EXITED, ExitCode: c.code,
		}
		r := &journaletv1.ContainerRecord{Name: "main", StoppedAsUnhealthy: c.unhealthy, Current: ended}
		if got := a.restarts(&spec, r); got != c.again {
			t.Errorf("%s: restarts: %t, want %t", c.name, got, c.again)
		}
	}
}

func requesting(name, cpu string, sidecar bool, hostPort int32) corev1.Container {
	c := corev1.Container{Name: name, Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: hostPort}}}
	c.Resources.Requests = listOf(cpu, "")
	if sidecar {
		c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	}
	return c
}

func TestDemandIsTheMostThatRunsAtOnce(t *testing.T) {
	large, sidecar := requesting("i", "500m", false, 0), requesting("s", "50m", true, 0)
	for _, c := range []struct {
		name  string
		inits []corev1.Container
		cpu   int64
	}{
		{"main containers alone", nil, 300},
		{"a small init container", []corev1.Container{requesting("i", "200m", false, 0)}, 300},
		{"a large one", []corev1.Container{large}, 500},
		{"a sidecar", []corev1.Container{sidecar}, 350},
		{"a large one after a sidecar", []corev1.Container{sidecar, large}, 550},
		{"a large one before a sidecar", []corev1.Container{large, sidecar}, 500},
	} {
		p := podOf(requesting("a", "100m", false, 0), requesting("b", "200m", false, 0))
		p.Spec.InitContainers = c.inits
		if got := Demand(p).GetMilliCpu(); got != c.cpu {
			t.Errorf("%s: %d, want %d", c.name, got, c.cpu)
		}
	}
}

func TestDemandHasHostPortsOfMainContainersAndSidecars(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{requesting("i", "1m", false, 1), requesting("s", "1m", true, 2)},
		Containers:     []corev1.Container{requesting("a", "1m", false, 3)},
	}}
	if got := Demand(p).GetHostPorts(); len(got) != 2 || got[0] != "TCP//2" || got[1] != "TCP//3" {
		t.Errorf("host ports: %v", got)
	}
}

func TestInitContainersCountForQOSClass(t *testing.T) {
	guaranteed := func(name string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{
			Requests: listOf("1", "1Mi"), Limits: listOf("1", "1Mi"),
		}}
	}
	for _, c := range []struct {
		init, main corev1.Container
		want       corev1.PodQOSClass
	}{
		{guaranteed("i"), guaranteed("m"), corev1.PodQOSGuaranteed},
		{corev1.Container{Name: "i"}, guaranteed("m"), corev1.PodQOSBurstable},
		{requesting("i", "1m", false, 0), corev1.Container{Name: "m"}, corev1.PodQOSBurstable},
		{corev1.Container{Name: "i"}, corev1.Container{Name: "m"}, corev1.PodQOSBestEffort},
	} {
		p := podOf(c.main)
		p.Spec.InitContainers = []corev1.Container{c.init}
		if got := QOS(p); got != c.want {
			t.Errorf("%v and %v: %s, want %s", c.init.Resources, c.main.Resources, got, c.want)
		}
	}
}
