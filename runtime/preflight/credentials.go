package preflight

import (
	"context"
	"strings"

	"github.com/journalet/journalet/runtime/image/credentials"
)

// imageCredentials checks the configuration of credential provider plugins, if there is one: the agent does not start
// with a wrong one.
func (m *machine) imageCredentials(context.Context) []Check {
	path, dir := m.cfg.ImageCredentialProviderConfig, m.cfg.ImageCredentialProviderBinDir
	if path != "" {
		path = m.path(path)
	}
	if dir != "" {
		dir = m.path(dir)
	}
	p, err := credentials.LoadProviders(path, dir, nil)
	switch {
	case err != nil:
		return []Check{{Status: Fail, Message: err.Error(), Remedy: "fix the file, or remove the two flags"}}
	case p == nil:
		return nil
	}
	return []Check{ok("credential providers: %s", strings.Join(p.Names(), ", "))}
}
