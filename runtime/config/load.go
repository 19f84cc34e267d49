package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	k8sjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	// maxFileBytes bounds one configuration file.
	maxFileBytes = 1 << 20
	// maxDropIns bounds the drop-ins.
	maxDropIns = 256
	// dropInSuffix is the kubelet's; other files in the folder are left alone.
	dropInSuffix = ".conf"

	apiVersion = "kubelet.config.k8s.io/v1beta1"
	apiKind    = "KubeletConfiguration"
)

// Load reads ConfigFile and the drop-ins in ConfigDir, and takes what no flag of flags was given for; flags may be nil.
// What is not carried out is told as problems, in order of files and fields. An error names the file and what to change;
// c is then of no use. Relative paths become absolute: those of a file are read from its folder, those of flags from
// the working folder.
func (c *Config) Load(flags *pflag.FlagSet) ([]Problem, error) {
	given := func(name string) bool {
		if flags == nil || name == "" {
			return false
		}
		return flags.Changed(name) || name == "static-pod-path" && flags.Changed("pod-manifest-path")
	}
	if flags != nil && flags.Changed("static-pod-path") && flags.Changed("pod-manifest-path") {
		return nil, errors.New("--static-pod-path and --pod-manifest-path are two names of one setting; drop one of the two")
	}
	files, err := c.configFiles()
	if err != nil {
		return nil, err
	}
	m := merged{values: map[string]any{}, from: map[string]string{}}
	var problems []Problem
	for _, path := range files {
		p, err := m.add(path)
		if err != nil {
			return nil, err
		}
		problems = append(problems, p...)
	}
	ignored, err := c.take(&m, given)
	if err != nil {
		return nil, err
	}
	for _, path := range []*string{&c.RootDir, &c.StaticPodPath, &c.PodLogDir, &c.ContainerLogDir, &c.RuntimeClassPath} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return nil, fmt.Errorf("the working folder is gone, give absolute paths: %w", err)
			}
		}
	}
	if strings.HasPrefix(c.ContainerRuntimeEndpoint, "/") {
		c.ContainerRuntimeEndpoint = "unix://" + c.ContainerRuntimeEndpoint
	}
	if strings.HasPrefix(c.ImageServiceEndpoint, "/") {
		c.ImageServiceEndpoint = "unix://" + c.ImageServiceEndpoint
	}
	return append(problems, ignored...), nil
}

// configFiles lists the files in the order in which they are merged.
func (c *Config) configFiles() ([]string, error) {
	var out []string
	if c.ConfigFile != "" {
		out = append(out, c.ConfigFile)
	}
	if c.ConfigDir == "" {
		return out, nil
	}
	dropIns := 0
	// Folders within are descended into, in lexical order, as the kubelet does.
	err := filepath.WalkDir(c.ConfigDir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() || filepath.Ext(e.Name()) != dropInSuffix {
			return nil
		}
		if dropIns++; dropIns > maxDropIns {
			return fmt.Errorf("more than %d drop-ins; merge some of them", maxDropIns)
		}
		out = append(out, path)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read --config-dir %s: %w; mend the folder, or drop the flag", c.ConfigDir, err)
	}
	return out, nil
}

// merged is what the files say together.
type merged struct {
	values map[string]any
	from   map[string]string // by field: the file that said it last
}

// add merges one file over those before.
func (m *merged) add(path string) ([]Problem, error) {
	data, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	var problems []Problem
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		lenient, lenientErr := yaml.YAMLToJSON(data)
		if lenientErr != nil {
			return nil, fmt.Errorf("%s: not YAML: %w; mend it", path, lenientErr)
		}
		text = lenient
		problems = append(problems, Problem{File: path, Message: "a key is there twice, the last one counts: " + err.Error()})
	}
	var typed kubeletconfig.KubeletConfiguration
	strict, err := k8sjson.UnmarshalStrict(text, &typed)
	if err != nil {
		return nil, fmt.Errorf("%s: does not fit a %s: %w; mend the value", path, apiKind, err)
	}
	if typed.APIVersion != apiVersion || typed.Kind != apiKind {
		return nil, fmt.Errorf("%s: found apiVersion %q and kind %q; write apiVersion: %s and kind: %s", path, typed.APIVersion, typed.Kind, apiVersion, apiKind)
	}
	for _, e := range strict {
		p := Problem{File: path, Message: "unknown field, ignored: check its spelling"}
		var fe k8sjson.FieldError
		if errors.As(e, &fe) {
			p.Field = fe.FieldPath()
		}
		if strings.Contains(e.Error(), "duplicate") {
			p.Message = "is there twice, the last one counts"
		}
		problems = append(problems, p)
	}
	var values map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&values); err != nil {
		return nil, fmt.Errorf("%s: not an object: %w; mend it", path, err)
	}
	for name := range values {
		m.from[name] = path
	}
	patch(m.values, values)
	return problems, nil
}

// patch merges as the kubelet merges drop-ins: objects field by field, lists as a whole, null takes away (RFC 7386).
func patch(into, from map[string]any) {
	for k, v := range from {
		switch v := v.(type) {
		case nil:
			delete(into, k)
		case map[string]any:
			below, ok := into[k].(map[string]any)
			if !ok {
				below = map[string]any{}
				into[k] = below
			}
			patch(below, v)
		default:
			into[k] = v
		}
	}
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s: more than %d bytes; is it a %s?", path, maxFileBytes, apiKind)
	}
	return data, nil
}

// take carries out what was merged, field by field.
func (c *Config) take(m *merged, given func(string) bool) ([]Problem, error) {
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(m.values)) {
		file := m.from[name]
		f, known := fields[name]
		if !known {
			continue // told as unknown already
		}
		set, err := decodeField("", name, m.values[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		switch {
		case f.ignored != "":
			usual, err := isDefault(f.def, name, m.values[name], set)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if !usual {
				problems = append(problems, Problem{File: file, Field: name, Message: f.ignored})
			}
		case name == "logging":
			problems = append(problems, c.applyLogging(set, file, given)...)
		case fieldOf(set, name).IsZero() || given(f.flag):
		default:
			// The whole, since two fields may have to agree.
			all, err := m.all()
			if err != nil {
				return nil, err
			}
			if err := f.apply(c, all, file); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return problems, nil
}

func (m *merged) all() (*kubeletconfig.KubeletConfiguration, error) {
	data, err := json.Marshal(m.values)
	if err != nil {
		return nil, fmt.Errorf("merge the configuration: %w", err)
	}
	out := &kubeletconfig.KubeletConfiguration{}
	if err := k8sjson.UnmarshalCaseSensitivePreserveInts(data, out); err != nil {
		return nil, fmt.Errorf("merge the configuration: %w", err)
	}
	return out, nil
}

// decodeField gives a configuration in which only one field is set, over its default where there is one.
func decodeField(def, name string, value any) (*kubeletconfig.KubeletConfiguration, error) {
	out := &kubeletconfig.KubeletConfiguration{}
	if def != "" {
		if err := k8sjson.UnmarshalCaseSensitivePreserveInts([]byte(`{"`+name+`":`+def+`}`), out); err != nil {
			return nil, fmt.Errorf("%s: its default does not fit: %w; this is a bug of the agent", name, err)
		}
	}
	if value == nil {
		return out, nil
	}
	data, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := k8sjson.UnmarshalCaseSensitivePreserveInts(data, out); err != nil {
		return nil, fmt.Errorf("%s: %w; mend the value", name, err)
	}
	return out, nil
}

// isDefault tells whether a field says nothing that would not be so without it. Tools write out every field, most as zero.
func isDefault(def, name string, value any, set *kubeletconfig.KubeletConfiguration) (bool, error) {
	if v := fieldOf(set, name); v.IsZero() || (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0 {
		return true, nil
	}
	if def == "" {
		// A pointer to zero is the zero value written out.
		v := fieldOf(set, name)
		return v.Kind() == reflect.Pointer && v.Elem().IsZero(), nil
	}
	usual, err := decodeField(def, name, nil)
	if err != nil {
		return false, err
	}
	over, err := decodeField(def, name, prune(value))
	if err != nil {
		return false, err
	}
	return reflect.DeepEqual(fieldOf(usual, name).Interface(), fieldOf(over, name).Interface()), nil
}

// prune leaves out what an object writes out as empty, which means the default there too.
func prune(value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return value
	}
	out := map[string]any{}
	for k, v := range object {
		if v = prune(v); v != "" && v != "0s" && v != nil {
			out[k] = v
		}
	}
	return out
}

// fieldOf is the field with this JSON name.
func fieldOf(k *kubeletconfig.KubeletConfiguration, name string) reflect.Value {
	v := reflect.ValueOf(k).Elem()
	for i := range v.NumField() {
		if jsonName(v.Type().Field(i)) == name {
			return v.Field(i)
		}
	}
	switch name {
	case "kind":
		return reflect.ValueOf(k.Kind)
	case "apiVersion":
		return reflect.ValueOf(k.APIVersion)
	}
	panic("config: no field " + name + " in " + apiKind)
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// applyLogging takes the two parts of the logging configuration that are honoured.
func (c *Config) applyLogging(k *kubeletconfig.KubeletConfiguration, file string, given func(string) bool) []Problem {
	l := k.Logging
	if l.Format != "" && !given("log-format") {
		c.LogFormat = l.Format
	}
	if l.Verbosity != 0 && !given("v") {
		c.Verbosity = int(l.Verbosity)
	}
	var out []Problem
	ignore := func(name string) {
		out = append(out, Problem{File: file, Field: "logging." + name, Message: notYet})
	}
	// Tools write the API's default out: 5 s, in nanoseconds.
	if d := l.FlushFrequency.Duration.Duration; d != 0 && d != defaultFlush {
		ignore("flushFrequency")
	}
	if len(l.VModule) > 0 {
		ignore("vmodule")
	}
	for _, o := range []struct {
		name  string
		split bool
		size  bool
	}{
		{"options.text", l.Options.Text.SplitStream, !l.Options.Text.InfoBufferSize.IsZero()},
		{"options.json", l.Options.JSON.SplitStream, !l.Options.JSON.InfoBufferSize.IsZero()},
	} {
		if o.split || o.size {
			ignore(o.name)
		}
	}
	return out
}
