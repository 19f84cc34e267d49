package preflight

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

func TestConfigurationOfCredentialProvidersIsChecked(t *testing.T) {
	m := testMachine(t)
	if got := m.imageCredentials(t.Context()); len(got) > 0 {
		t.Errorf("not configured: %v", got)
	}
	wants := func(want string) {
		t.Helper()
		got := m.imageCredentials(t.Context())
		if len(got) != 1 || !strings.Contains(fmt.Sprint(got[0].Status, " ", got[0].Message), want) {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	m.cfg.ImageCredentialProviderConfig = "/etc/providers.yaml"
	wants("fail --image-credential-provider-config and --image-credential-provider-bin-dir need each other")
	m.cfg.ImageCredentialProviderBinDir = "/usr/lib/providers"
	m.write(t, "etc/providers.yaml", "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"+
		"- {name: ecr, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: ['*.example'], "+
		"defaultCacheDuration: 1h}\n")
	wants("fail --image-credential-provider-bin-dir: provider ecr")
	m.write(t, "usr/lib/providers/ecr", "#!/bin/sh\n")
	must.OK(t, os.Chmod(m.path("/usr/lib/providers/ecr"), 0o755))
	wants("ok credential providers: ecr")
	m.write(t, "etc/providers.yaml", "providers: 1\n")
	wants("fail --image-credential-provider-config")
}
