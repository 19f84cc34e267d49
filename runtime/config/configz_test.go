package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/journalet/journalet/test/must"
)

func TestConfigurationInEffectIsShownWithoutSecrets(t *testing.T) {
	c := Defaults()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	c.AddFlags(flags)
	must.OK(t, flags.Parse([]string{
		"--max-pods=7", "--manifest-url=http://me:canary@host/p?token=canary", "--manifest-url-header=X:canary",
	}))
	k, err := c.KubeletConfiguration()
	must.OK(t, err)
	data, err := json.Marshal(k)
	must.OK(t, err)
	for _, want := range []string{
		`"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1"`, `"maxPods":7`, `"port":10250`,
		`"enableDebuggingHandlers":true`, `"streamingConnectionIdleTimeout":"4h0m0s"`, `"X":["(withheld)"]`,
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %s in %s", want, data)
		}
	}
	values, err := json.Marshal(Values(flags))
	must.OK(t, err)
	if strings.Contains(string(data)+string(values), "canary") {
		t.Errorf("a secret shows: %s %s", data, values)
	}
	if Values(flags)["max-pods"] != "7" {
		t.Errorf("got %s", values)
	}
}
