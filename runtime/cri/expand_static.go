package cri

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/runtime/cri/expand"
)

// ExpandStatic expands a probe's command by the literal values of the manifest. The decoder refuses a manifest whose
// probe expands to more than a process can be given; in a manifest that was stored before, the command is left as
// written.
func ExpandStatic(command []string, env []corev1.EnvVar) []string {
	out, err := expand.Static(command, env)
	if err != nil {
		return command
	}
	return out
}
