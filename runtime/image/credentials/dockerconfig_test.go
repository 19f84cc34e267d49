package credentials

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

// A password in another encoding would reach the registry as another one.
func TestRegistryFilesThatAreNoTextAreRefused(t *testing.T) {
	const password = "caf\xe9-canary"
	auth := base64.StdEncoding.EncodeToString([]byte("me:" + password))
	for name, read := range map[string]func() error{
		"auth": func() error {
			_, err := parseConfigJSON([]byte(`{"auths": {"example.com": {"auth": "` + auth + `"}}}`))
			return err
		},
		"password": func() error {
			_, err := parseConfigJSON([]byte(`{"auths": {"example.com": {"username": "me", "password": "` + password + `"}}}`))
			return err
		},
		"older auth": func() error {
			_, err := parseDockercfg([]byte(`{"example.com": {"auth": "` + auth + `"}}`))
			return err
		},
		"older password": func() error {
			_, err := parseDockercfg([]byte(`{"example.com": {"username": "me", "password": "` + password + `"}}`))
			return err
		},
	} {
		if err := read(); !errors.Is(err, errUTF8) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
