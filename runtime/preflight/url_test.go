package preflight

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestManifestURLIsFetchedOnceWithoutShowingSecrets(t *testing.T) {
	m := testMachine(t)
	if found := m.manifestURL(context.Background()); len(found) != 0 {
		t.Errorf("without a URL: %v", found)
	}
	response := ""
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Token") != "s3cret" {
			t.Error("the header is missing")
		}
		if response == "" {
			out.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(out, response)
	}))
	t.Cleanup(server.Close)
	m.cfg.StaticPodURL = server.URL + "/pods?token=s3cret"
	m.cfg.StaticPodURLHeader = map[string][]string{"X-Token": {"s3cret"}}
	for _, c := range []struct {
		response, want string
		status         Status
	}{
		{"", "404", Warn},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n", ":4: spec.containers", Warn},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: x}]}\n", "has 1 pods", OK},
	} {
		response = c.response
		found := m.manifestURL(context.Background())
		if len(found) != 1 || found[0].Status != c.status || !strings.Contains(found[0].Message, c.want) ||
			strings.Contains(fmt.Sprint(found), "s3cret") {
			t.Errorf("%q: %+v", c.response, found)
		}
	}
}
