package oracle

import "github.com/journalet/journalet/test/oracle/pods"

// generateMounts returns a pod that mounts volumes of each kind, and paths in them. compareConfigs compares its mounts.
func generateMounts(m *pods.Generator) string {
	p := m.Small()
	m.AddMounts(p)
	return text(p)
}
