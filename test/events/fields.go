package events

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// meanings explain fields that the contract leaves without a comment because their names say it there: by
// Message.field, or by the field's name alone, which means the same in every message.
var meanings = map[string]string{
	"uid":             "The pod's UID.",
	"pod":             "The pod.",
	"pod_name":        "The pod's name.",
	"namespace":       "The pod's namespace.",
	"holder_uid":      "The UID of the pod that holds it.",
	"container":       "The container's name in the manifest.",
	"container_id":    "The runtime's id of the container.",
	"sandbox_id":      "The runtime's id of the sandbox.",
	"intent_id":       "The id of the decision that requested the call.",
	"request_id":      "Grows with each request; an answer names the request that it is for.",
	"source":          "The source's name: file or http.",
	"digest":          "The digest of the pod's manifest.",
	"image":           "The image, as the manifest names it.",
	"image_ref":       "The image, as the runtime names it: by digest.",
	"image_bytes":     "The image's size.",
	"message":         "The details, for people.",
	"reason":          "A word for programs, in CamelCase; empty without a reason.",
	"phase":           "The pod's phase.",
	"network":         "Whose network the pod has.",
	"ips":             "Its addresses; the first is the pod's own.",
	"pod_ips":         "The pod's addresses, for the container's status.",
	"attempt":         "Counts from 0; it distinguishes the instances of one name.",
	"created_at":      "By the runtime's clock.",
	"started_at":      "By the runtime's clock; left out before.",
	"finished_at":     "By the runtime's clock; left out before.",
	"exit_code":       "Of a container that has exited.",
	"grace":           "The time that it gets to end by itself.",
	"milli_cpu":       "CPU in thousandths of a core.",
	"memory_bytes":    "Memory.",
	"problems":        "What is wrong with its pods.",
	"path":            "The file, as in ManifestFile.",
	"elapsed":         "Since the pull began.",
	"duration":        "How long from the event's time.",
	"generation":      "As in TimerSet.",
	"last_transition": "When the condition changed last.",

	"ephemeral_storage_bytes": "Ephemeral storage.",
	"cpu_request_millis":      "CPU request in thousandths of a core.",
	"cpu_limit_millis":        "CPU limit in thousandths of a core; left out without a limit.",
	"memory_request_bytes":    "Memory request.",
	"memory_limit_bytes":      "Memory limit; left out without a limit.",

	"AgentStarted.version":                 "The agent's version, as `journalet version` prints it.",
	"AgentStarted.config":                  "The configuration that deciders use.",
	"AgentStopped.reason":                  "Why it stopped, for people.",
	"AgentConfig.node_name":                "The node's name.",
	"AgentConfig.allocatable":              "What the node has for pods.",
	"AgentConfig.node_labels":              "The node's labels, for node affinity.",
	"JournalDamaged.expected_seq":          "The number that the next record should have had.",
	"JournalDamaged.found_seq":             "The number that was found instead.",
	"Quarantined.kind":                     "The kind of the actor.",
	"Quarantined.id":                       "The id of the actor.",
	"Quarantined.code":                     "What failed.",
	"QuarantineLifted.kind":                "The kind of the actor.",
	"QuarantineLifted.id":                  "The id of the actor.",
	"TimerFired.name":                      "The timer's name within the actor.",
	"TimerCleared.name":                    "The timer's name within the actor.",
	"RuntimeHealthChanged.runtime_ready":   "The runtime answers and is ready.",
	"RuntimeHealthChanged.network_ready":   "The runtime can give pods a network.",
	"RuntimeHealthChanged.runtime_name":    "Such as containerd.",
	"RuntimeHealthChanged.runtime_version": "The runtime's version.",
	"ProbeResult.kind":                     "Which of the container's probes.",
	"ProbeResult.success":                  "Whether it succeeded.",
	"PodUpdated.operation":                 "What has changed.",
	"AdmissionRequested.name":              "The pod's name.",
	"AdmissionRequested.demand":            "What the pod takes of the node.",
	"AdmissionRequested.qos":               "The pod's QoS class.",
	"ResizeRequested.guaranteed":           "The pod's QoS class is Guaranteed.",
	"AdmissionDecided.admitted":            "The pod may run here; otherwise it is rejected.",
	"PodStatusChanged.ready":               "How many containers are ready.",
	"PodStatusChanged.restarts":            "How often containers were restarted, in all.",
	"ImagePullDecided.bytes":               "The image's size.",
	"SandboxObservation.id":                "The runtime's id of the sandbox.",
	"SandboxObservation.state":             "Its state.",
	"ContainerObservation.id":              "The runtime's id of the container.",
	"ContainerObservation.name":            "The container's name in the manifest.",
	"ContainerObservation.state":           "Its state.",
	"PodRef.name":                          "The pod's name.",
	"Condition.type":                       "The condition's name, such as Ready.",
	"Condition.status":                     "True or False of the API.",
	"ManifestProblem.field":                "The field in the manifest, such as spec.containers[0].image.",
	"ManifestProblem.code":                 "A word for programs.",
	"ReadinessGateCondition.type":          "The condition's name.",
	"CleanPod.name":                        "The pod's name.",
	"MemoryLimit.bytes":                    "Memory limit; 0 for none.",
	"RunHook.kind":                         "Which of the container's hooks.",
}

// meaning returns what a field is, "" if nothing says so.
func (p *page) meaning(message, field string) string {
	for _, about := range []string{p.comments[message+"."+field], meanings[message+"."+field], meanings[field]} {
		if about != "" {
			return about
		}
	}
	return ""
}

// meaningOf returns what a field is; of one without a name that says it, what its message is.
func (p *page) meaningOf(f protoreflect.FieldDescriptor) string {
	about := p.meaning(string(f.Parent().Name()), string(f.Name()))
	if about == "" && f.Message() != nil {
		about, _, _ = strings.Cut(p.comments[string(f.Message().Name())], ". ")
	}
	return about
}
