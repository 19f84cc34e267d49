package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/journalet/journalet/test/must"
)

func TestConfigurationInEffectIsShownWithoutSecrets(t *testing.T) {
	c := Defaults()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	c.AddFlags(flags)
	must.OK(t, flags.Parse([]string{
		"--max-pods=7", "--image-gc-high-threshold=70", "--image-gc-low-threshold=0", "--minimum-image-ttl-duration=3m",
		"--container-log-max-size=1Mi", "--container-log-max-files=3", "--manifest-url=http://me:canary@host/p?token=canary", "--manifest-url-header=X:canary",
	}))
	c.ImageGC.MaxAge, c.ContainerLogs.MonitorInterval = time.Hour, 4*time.Second
	c.Shutdown.ByPriority = []ShutdownGroup{{Priority: 9, Seconds: 60}}
	k, err := c.KubeletConfiguration()
	must.OK(t, err)
	data, err := json.Marshal(k)
	must.OK(t, err)
	for _, want := range []string{
		`"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1"`, `"maxPods":7`, `"port":10250`,
		`"enableDebuggingHandlers":true`, `"streamingConnectionIdleTimeout":"4h0m0s"`, `"X":["(withheld)"]`,
		`"imageGCHighThresholdPercent":70`, `"imageGCLowThresholdPercent":0`, `"imageMinimumGCAge":"3m0s"`,
		`"imageMaximumGCAge":"1h0m0s"`, `"containerLogMaxSize":"1Mi"`, `"containerLogMaxFiles":3`,
		`"containerLogMonitorInterval":"4s"`, `"containerLogMaxWorkers":1`, `"shutdownGracePeriod":"0s"`,
		`"shutdownGracePeriodByPodPriority":[{"priority":9,"shutdownGracePeriodSeconds":60}]`,
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
