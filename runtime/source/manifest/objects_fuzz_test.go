package manifest

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/journalet/journalet/test/must"
)

var objectsInput = regexp.MustCompile(`(?ms)^objects\n(.*?)^----$`)

// FuzzDecodeObjects checks for any bytes that DecodeObjects does not panic, returns equal results twice, that a broken
// object has a problem, and that a valid one is within Kubernetes' bounds and is decoded again from its JSON.
func FuzzDecodeObjects(f *testing.F) {
	text, err := os.ReadFile("testdata/manifests/objects")
	must.OK(f, err)
	for _, m := range objectsInput.FindAllSubmatch(text, -1) {
		f.Add(m[1])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		found, problems, ok := DecodeObjects("fuzz.yaml", data)
		again, problemsAgain, _ := DecodeObjects("fuzz.yaml", data)
		if !reflect.DeepEqual(found, again) || !reflect.DeepEqual(problems, problemsAgain) {
			t.Fatalf("%v %v, then %v %v", found, problems, again, problemsAgain)
		}
		if !ok && (len(problems) != 1 || len(found) > 0) {
			t.Errorf("not parsed: %v %v", found, problems)
		}
		seen := map[string]bool{}
		for _, o := range found {
			key := o.Kind + o.Namespace + "/" + o.Name
			if seen[key] || o.Name == "" || (o.Value == nil) != (o.Problem != "") || o.Line < 1 {
				t.Errorf("%+v", o)
			}
			seen[key] = true
			checkObject(t, o)
		}
	})
}

func checkObject(t *testing.T, o Object) {
	size, keys := 0, []string{}
	switch v := o.Value.(type) {
	case *corev1.ConfigMap:
		for k, value := range v.Data {
			size, keys = size+len(value), append(keys, k)
		}
		for k, value := range v.BinaryData {
			size, keys = size+len(value), append(keys, k)
		}
	case *corev1.Secret:
		for k, value := range v.Data {
			size, keys = size+len(value), append(keys, k)
		}
	default:
		return
	}
	for _, k := range keys {
		if len(validation.IsConfigMapKey(k)) > 0 {
			t.Errorf("key %q", k)
		}
	}
	if size > corev1.MaxSecretSize || o.Value.GetName() != o.Name || o.Value.GetNamespace() != o.Namespace {
		t.Errorf("%d bytes, %s/%s", size, o.Value.GetNamespace(), o.Value.GetName())
	}
	text, err := json.Marshal(o.Value)
	must.OK(t, err)
	again, problems, _ := DecodeObjects("again.json", text)
	if len(again) != 1 || len(problems) > 0 || !equality.Semantic.DeepEqual(again[0].Value, o.Value) {
		t.Errorf("decoded again: %v %v\nfrom %s", again, problems, text)
	}
}
