package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/journalet/journalet/actors/pod"
)

// manifestOf draws a pod of any shape that the agent accepts. The text is JSON, which the decoder reads fastest.
func manifestOf(r *rand.Rand, name, uid string) []byte {
	notes := fmt.Sprintf(`"note":%q`, secret)
	if chance(r, 8) {
		notes += fmt.Sprintf(`,%q:%q`, pod.AnnotationStartGuarantee, pod.AtLeastOnce)
	}
	if chance(stream(0, "runtime of a pod", name), 6) {
		notes += fmt.Sprintf(`,%q:"kata"`, runtimeHandler)
	}
	meta := fmt.Sprintf(`"name":%q,"annotations":{%s}`, name, notes)
	if uid != "" {
		meta += fmt.Sprintf(`,"uid":%q`, uid)
	}
	spec := []string{fmt.Sprintf(`"restartPolicy":%q`, pick(r, "Always", "Always", "Always", "OnFailure", "Never"))}
	if chance(r, 10) {
		spec = append(spec, `"hostNetwork":true`)
	}
	if chance(r, 2) {
		spec = append(spec, fmt.Sprintf(`"terminationGracePeriodSeconds":%d`, pick(r, 0, 1, 2, 5, 10, 30, 60)))
	}
	if chance(r, 12) {
		spec = append(spec, fmt.Sprintf(`"activeDeadlineSeconds":%d`, pick(r, 5, 60, 300, 900)))
	}
	if chance(r, 3) {
		spec = append(spec, fmt.Sprintf(`"priority":%d`, pick(r, -5, 10, 10, 1000, 100_000)))
	}
	if chance(r, 5) {
		gates := []string{`{"conditionType":"` + gateTypes[0] + `"}`, `{"conditionType":"` + gateTypes[1] + `"}`}
		spec = append(spec, `"readinessGates":[`+strings.Join(gates[:1+r.IntN(2)], ",")+`]`)
	}
	volumes := chance(r, 3)
	all, env := objectsIn(stream(0, "objects of a pod", name, strings.Join(spec, ",")))
	if volumes {
		all = append(all, `{"name":"data","emptyDir":{}}`)
	}
	if len(all) > 0 {
		spec = append(spec, `"volumes":[`+strings.Join(all, ",")+`]`)
	}
	if inits := initsOf(r, volumes); len(inits) > 0 {
		spec = append(spec, `"initContainers":[`+strings.Join(inits, ",")+`]`)
	}
	var mains []string
	for i := range 1 + r.IntN(3)*r.IntN(2) {
		c := containerOf(r, fmt.Sprintf("main%d", i), volumes, main)
		if i == 0 && len(env) > 0 {
			c = strings.Replace(c, `"env":[`, `"env":[`+strings.Join(env, ",")+",", 1)
		}
		mains = append(mains, c)
	}
	spec = append(spec, `"containers":[`+strings.Join(mains, ",")+`]`)
	return []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{` + meta + `},"spec":{` + strings.Join(spec, ",") + `}}`)
}

type kind int

const (
	main kind = iota
	sidecar
	initial
)

func initsOf(r *rand.Rand, volumes bool) []string {
	if !chance(r, 3) {
		return nil
	}
	var inits []string
	for i := range 1 + r.IntN(3) {
		if chance(r, 3) {
			inits = append(inits, containerOf(r, fmt.Sprintf("side%d", i), volumes, sidecar))
		} else {
			inits = append(inits, containerOf(r, fmt.Sprintf("init%d", i), volumes, initial))
		}
	}
	return inits
}

func containerOf(r *rand.Rand, name string, volumes bool, k kind) string {
	c := []string{
		fmt.Sprintf(`"name":%q,"image":%q`, name, pick(r, "app:1", "app:1", "app:2", "app:3", "lib/tool:1", "gone:1"))}
	c = append(c, fmt.Sprintf(`"command":["run","--token",%q],"env":[{"name":"TOKEN","value":%q}]`, secret, secret))
	if chance(r, 3) {
		c = append(c, fmt.Sprintf(`"imagePullPolicy":%q`, pick(r, "Always", "IfNotPresent", "IfNotPresent")))
	}
	if volumes && chance(r, 2) {
		c = append(c, `"volumeMounts":[{"name":"data","mountPath":"/data"}]`)
	}
	if chance(r, 3) {
		c = append(c, `"resources":`+resourcesOf(r))
		if chance(r, 2) {
			c = append(c, `"resizePolicy":`+resizePolicyOf(r))
		}
	}
	if k == main && chance(r, 20) {
		c = append(c, fmt.Sprintf(`"ports":[{"containerPort":80,"hostPort":%d}]`, 8000+r.IntN(10)))
	}
	if k == sidecar {
		c = append(c, `"restartPolicy":"Always"`)
	} else if chance(r, 6) {
		rules := pick(r, `"restartPolicy":"OnFailure"`, `"restartPolicy":"Never"`,
			ruled("Never", "RestartAllContainers", "In", "1,42"), ruled("Never", "Restart", "In", "42"),
			ruled("OnFailure", "Restart", "NotIn", "1"))
		if before, ok := strings.CutSuffix(rules, "]"); ok && strings.HasSuffix(name, "2") {
			// A second rule, for what the first one leaves.
			rules = before + `,{"action":"RestartAllContainers","exitCodes":{"operator":"NotIn","values":[0]}}]`
		}
		c = append(c, rules)
	}
	if strings.HasSuffix(name, "1") {
		c = append(c, `"terminationMessagePolicy":"FallbackToLogsOnError"`)
	}
	if k != initial {
		c = append(c, probesOf(r)...)
		if chance(r, 4) {
			c = append(c, hooksOf(r))
		}
	}
	return "{" + strings.Join(c, ",") + "}"
}

// ruled is a container's restart policy with a rule for exit codes.
func ruled(policy, action, operator, codes string) string {
	return fmt.Sprintf(`"restartPolicy":%q,"restartPolicyRules":[{"action":%q,"exitCodes":{"operator":%q,"values":[%s]}}]`,
		policy, action, operator, codes)
}

func probesOf(r *rand.Rand) []string {
	var all []string
	for _, name := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		if !chance(r, 5) {
			continue
		}
		p := pick(r, `"tcpSocket":{"port":80}`, `"exec":{"command":["true"]}`)
		p += fmt.Sprintf(`,"periodSeconds":%d`, pick(r, 1, 2, 5, 10))
		if chance(r, 3) {
			p += fmt.Sprintf(`,"initialDelaySeconds":%d`, 1+r.IntN(10))
		}
		if chance(r, 3) || name == "startupProbe" {
			p += fmt.Sprintf(`,"failureThreshold":%d`, 1+r.IntN(20))
		}
		if name != "readinessProbe" && chance(r, 4) {
			p += fmt.Sprintf(`,"terminationGracePeriodSeconds":%d`, 1+r.IntN(20))
		}
		all = append(all, fmt.Sprintf(`%q:{%s}`, name, p))
	}
	return all
}

func hooksOf(r *rand.Rand) string {
	handler := func() string {
		return pick(r, `{"sleep":{"seconds":2}}`, `{"exec":{"command":["true"]}}`, `{"httpGet":{"port":80,"path":"/"}}`,
			`{"sleep":{"seconds":20}}`)
	}
	var hooks []string
	if chance(r, 2) {
		hooks = append(hooks, `"postStart":`+handler())
	}
	if chance(r, 2) || len(hooks) == 0 {
		hooks = append(hooks, `"preStop":`+handler())
	}
	return `"lifecycle":{` + strings.Join(hooks, ",") + `}`
}
