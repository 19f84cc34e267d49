package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"

	"github.com/journalet/journalet/test/must"
)

// podWithPullSecrets has an image whose pulls need credentials, of each source.
const podWithPullSecrets = `apiVersion: v1
kind: Pod
metadata: {name: private}
spec:
  serviceAccountName: robot
  imagePullSecrets: [{name: badpull}, {name: pull}, {name: missing}]
  containers: [{name: main, image: "registry.example/private:1"}]
`

// pullCredentials are what an error of the runtime repeats of the credentials of podWithPullSecrets.
func pullCredentials() string {
	return strings.Join([]string{secret("pullname"), secret("pullpassword"), secret("filepassword"),
		secret("pluginpassword"), secret("token"), basicAuth()}, " ")
}

// basicAuth is how a request to the registry has the credential of the pull secret.
func basicAuth() string {
	return base64.StdEncoding.EncodeToString([]byte(secret("pullname") + ":" + secret("pullpassword")))
}

// writePullCredentials writes a registry file into the home, and credential provider plugins: one that gives
// credentials, one that fails and writes some to its error output, and one whose output is broken.
func (n *secretNode) writePullCredentials() (config, programs string) {
	home := filepath.Join(n.dir, "home")
	programs, config = filepath.Join(n.dir, "plugins"), filepath.Join(n.dir, "providers.yaml")
	n.t.Setenv("HOME", home)
	must.OK(n.t, os.MkdirAll(filepath.Join(home, ".docker"), 0o700))
	must.OK(n.t, os.Mkdir(programs, 0o700))
	must.OK(n.t, os.WriteFile(filepath.Join(home, ".docker", "config.json"),
		[]byte(`{"auths": {"registry.example": {"username": "u", "password": "`+secret("filepassword")+`"}}}`), 0o600))
	for name, script := range map[string]string{
		"good": `echo '{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", ` +
			`"cacheKeyType": "Global", "auth": {"registry.example": {"username": "u", "password": "` +
			secret("pluginpassword") + `"}}}'`,
		"bad":    `echo ` + secret("pluginerror") + ` $KEY >&2; exit 1`,
		"broken": `echo '{"` + secret("pluginoutput") + `":'`,
	} {
		must.OK(n.t, os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	text := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	for _, name := range []string{"good", "bad", "broken"} {
		text += "- name: " + name + "\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n" +
			"  matchImages: [registry.example/private]\n  defaultCacheDuration: 1h\n" +
			"  env: [{name: KEY, value: " + secret("pluginenv") + "}]\n" +
			"  tokenAttributes: {serviceAccountTokenAudience: r, requireServiceAccount: true, cacheType: Token}\n"
	}
	must.OK(n.t, os.WriteFile(config, []byte(text), 0o600))
	return config, programs
}
