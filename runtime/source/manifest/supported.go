package manifest

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// supportedFields lists the fields that this version supports, with "[]" for the elements of a list. A listed path
// includes all fields below it; the validate files refuse single values of them. Every other field that is set is
// refused, also fields that a later Kubernetes adds: no field is silently ignored.
//
// Fields of containers are supported for init containers, too. The validate files refuse fields that the API allows
// only for sidecars.
var supportedFields = newFieldSet(append(schedulerFields, alsoForInit(withVolumes(withHooks(withProbes(
	"apiVersion", "kind",
	"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations",
	"metadata.creationTimestamp", "metadata.deletionGracePeriodSeconds",

	"spec.restartPolicy", "spec.terminationGracePeriodSeconds", "spec.activeDeadlineSeconds",
	"spec.dnsPolicy", "spec.dnsConfig.nameservers", "spec.dnsConfig.searches",
	"spec.dnsConfig.options[].name", "spec.dnsConfig.options[].value",
	"spec.runtimeClassName", "spec.overhead", "spec.resources.limits", "spec.resources.requests",
	"spec.nodeName", "spec.nodeSelector", "spec.affinity.nodeAffinity",
	"spec.hostNetwork", "spec.hostPID", "spec.hostIPC", "spec.shareProcessNamespace",
	"spec.hostname", "spec.subdomain", "spec.setHostnameAsFQDN",
	"spec.hostAliases[].ip", "spec.hostAliases[].hostnames",
	"spec.tolerations", "spec.priority", "spec.priorityClassName", "spec.schedulerName",
	"spec.readinessGates[].conditionType", "spec.imagePullSecrets[].name",
	"spec.serviceAccountName", "spec.serviceAccount",
	"spec.enableServiceLinks", "spec.automountServiceAccountToken", "spec.os.name",
	"spec.hostUsers", "spec.hostnameOverride", "spec.resourceClaims",

	"spec.securityContext.runAsUser", "spec.securityContext.runAsGroup", "spec.securityContext.runAsNonRoot",
	"spec.securityContext.supplementalGroups", "spec.securityContext.sysctls[].name",
	"spec.securityContext.sysctls[].value", "spec.securityContext.seccompProfile",
	"spec.securityContext.appArmorProfile", "spec.securityContext.supplementalGroupsPolicy",
	"spec.securityContext.fsGroup", "spec.securityContext.fsGroupChangePolicy",
	"spec.securityContext.seLinuxOptions", "spec.securityContext.seLinuxChangePolicy",
	"spec.securityContext.windowsOptions",

	"spec.containers[].name", "spec.containers[].image", "spec.containers[].imagePullPolicy",
	"spec.containers[].command", "spec.containers[].args", "spec.containers[].workingDir",
	"spec.containers[].restartPolicy", "spec.containers[].restartPolicyRules[].action",
	"spec.containers[].restartPolicyRules[].exitCodes",
	"spec.containers[].ports[].name", "spec.containers[].ports[].containerPort", "spec.containers[].ports[].protocol",
	"spec.containers[].ports[].hostPort", "spec.containers[].ports[].hostIP",
	"spec.containers[].env[].name", "spec.containers[].env[].value",
	"spec.containers[].env[].valueFrom.fieldRef", "spec.containers[].env[].valueFrom.resourceFieldRef",
	"spec.containers[].env[].valueFrom.configMapKeyRef", "spec.containers[].env[].valueFrom.secretKeyRef",
	"spec.containers[].env[].valueFrom.fileKeyRef",
	"spec.containers[].envFrom[].prefix", "spec.containers[].envFrom[].configMapRef",
	"spec.containers[].envFrom[].secretRef",
	"spec.containers[].resources.limits", "spec.containers[].resources.requests", "spec.containers[].resources.claims",
	"spec.containers[].resizePolicy[].resourceName", "spec.containers[].resizePolicy[].restartPolicy",
	"spec.containers[].volumeMounts[].name", "spec.containers[].volumeMounts[].mountPath",
	"spec.containers[].volumeMounts[].readOnly", "spec.containers[].volumeMounts[].mountPropagation",
	"spec.containers[].volumeMounts[].subPath", "spec.containers[].volumeMounts[].subPathExpr",
	"spec.containers[].volumeMounts[].recursiveReadOnly",
	"spec.containers[].terminationMessagePath", "spec.containers[].terminationMessagePolicy",
	"spec.containers[].stdin", "spec.containers[].stdinOnce", "spec.containers[].tty",
	"spec.containers[].securityContext.privileged", "spec.containers[].securityContext.capabilities",
	"spec.containers[].securityContext.runAsUser", "spec.containers[].securityContext.runAsGroup",
	"spec.containers[].securityContext.runAsNonRoot", "spec.containers[].securityContext.readOnlyRootFilesystem",
	"spec.containers[].securityContext.allowPrivilegeEscalation", "spec.containers[].securityContext.seccompProfile",
	"spec.containers[].securityContext.procMount", "spec.containers[].securityContext.appArmorProfile",
	"spec.containers[].securityContext.seLinuxOptions", "spec.containers[].securityContext.windowsOptions",
)...)...)...)...)...)

// alsoForInit adds the same fields of init containers.
func alsoForInit(paths ...string) []string {
	all := paths
	for _, path := range paths {
		if below, ok := strings.CutPrefix(path, "spec.containers[]"); ok {
			all = append(all, "spec.initContainers[]"+below)
		}
	}
	return all
}

// fieldSet maps a path to true if it is listed, and to false if it is a parent of a listed one.
type fieldSet map[string]bool

func newFieldSet(paths ...string) func() fieldSet {
	return sync.OnceValue(func() fieldSet { return fieldSetOf(paths) })
}

func fieldSetOf(paths []string) fieldSet {
	set := fieldSet{}
	for _, path := range paths {
		for i := range path {
			if path[i] == '.' || path[i] == '[' {
				if _, known := set[path[:i]]; !known {
					set[path[:i]] = false
				}
			}
			if path[i] == ']' {
				set[path[:i+1]] = false
			}
		}
		set[path] = true
	}
	return set
}

// checkSupported refuses every field of the pod that is set and not supported.
func checkSupported(r *report, pod *corev1.Pod) {
	status := pod.Status
	pod.Status = corev1.PodStatus{} // dropped with a warning, not refused
	if !reflect.ValueOf(status).IsZero() {
		r.warn("status", "is ignored; the agent observes it")
	}
	walkFields(r, reflect.ValueOf(*pod), "", "")
}

// walkFields visits the fields that are set below v. at is the path with list indexes, pattern the same with "[]".
func walkFields(r *report, v reflect.Value, at, pattern string) {
	if !isSet(v) {
		return
	}
	if listed, known := supportedFields()[pattern]; listed {
		return
	} else if !known && pattern != "" {
		r.notYet(at, "")
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		walkFields(r, v.Elem(), at, pattern)
	case reflect.Struct:
		for i := range v.NumField() {
			if !isSet(v.Field(i)) {
				continue // most are not: their paths are not worth writing
			}
			f := v.Type().Field(i)
			name := jsonName(f)
			switch {
			case name != "":
				walkFields(r, v.Field(i), join(at, name), join(pattern, name))
			case f.Anonymous:
				walkFields(r, v.Field(i), at, pattern)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			walkFields(r, v.Index(i), fmt.Sprintf("%s[%d]", at, i), pattern+"[]")
		}
	default:
		// supportedFields has a path below a type without fields: it does not fit the Kubernetes types.
		r.notYet(strings.TrimSuffix(at, "."), "")
	}
}

// isSet reports whether the field has a value. An empty object behind a pointer counts, as in "lifecycle: {}".
func isSet(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	}
	return !v.IsZero()
}
