package agent

import (
	"github.com/journalet/journalet/runtime/image/credentials"
)

// newCredentials creates the driver of the credentials of pulls. As the kubelet, the agent does not start with a wrong
// configuration of plugins.
func (a *agent) newCredentials() (*credentials.Driver, error) {
	policy, err := credentials.NewPolicy(a.cfg.ImagePullVerification, a.cfg.PreloadedImages)
	if err != nil {
		return nil, err
	}
	providers, err := credentials.LoadProviders(a.cfg.ImageCredentialProviderConfig, a.cfg.ImageCredentialProviderBinDir,
		a.log)
	if err != nil {
		return nil, err
	}
	providers.Observe(a.metrics.CredentialPlugin)
	a.serviceAccountPulls = providers.UseServiceAccounts()
	return credentials.New(credentials.Options{
		RootDir: a.cfg.RootDir, Objects: a.objects, Digest: a.objects.Digest, Providers: providers, Policy: policy,
		Log: a.log,
	}), nil
}
