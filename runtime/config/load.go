package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	k8sjson "sigs.k8s.io/json"

	"github.com/journalet/journalet/runtime/bounded"
)

const (
	// maxFileBytes bounds one configuration file.
	maxFileBytes = 1 << 20
	// maxDropIns bounds the drop-ins.
	maxDropIns = 256
	// dropInSuffix is the kubelet's; other files in the directory are ignored.
	dropInSuffix = ".conf"

	apiVersion = "kubelet.config.k8s.io/v1beta1"
	apiKind    = "KubeletConfiguration"
)

// Load reads ConfigFile and the drop-ins in ConfigDir and applies the fields whose flags are not set; flags may be nil.
// It returns problems for what is not supported, in the order of files and fields. An error names the file and what to
// change, and leaves c unusable. Relative paths become absolute: paths in a file against its directory, paths in flags
// against the working directory.
func (c *Config) Load(flags *pflag.FlagSet) ([]Problem, error) {
	given := func(name string) bool {
		if flags == nil || name == "" {
			return false
		}
		return flags.Changed(name) || name == "static-pod-path" && flags.Changed("pod-manifest-path")
	}
	if flags != nil && flags.Changed("static-pod-path") && flags.Changed("pod-manifest-path") {
		return nil, errors.New("--static-pod-path and --pod-manifest-path are the same setting; remove one of the two")
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
	problems = append(problems, m.addFlags(flags)...)
	ignored, err := c.apply(&m, given)
	if err != nil {
		return nil, err
	}
	if err := c.absolute(); err != nil {
		return nil, fmt.Errorf("the working directory is gone, use absolute paths: %w", err)
	}
	if strings.HasPrefix(c.ContainerRuntimeEndpoint, "/") {
		c.ContainerRuntimeEndpoint = "unix://" + c.ContainerRuntimeEndpoint
	}
	if strings.HasPrefix(c.ImageServiceEndpoint, "/") {
		c.ImageServiceEndpoint = "unix://" + c.ImageServiceEndpoint
	}
	problems = append(problems, ignored...)
	return slices.Concat(problems, c.evictionProblems(m.from), c.shownSecrets(given), c.dead.problems(given),
		c.clusterFlags(flags), c.raiseTLS(m.from, given)), nil
}

// absolute makes the paths absolute.
func (c *Config) absolute() (err error) {
	for _, path := range []*string{&c.RootDir, &c.StaticPodPath, &c.PodLogDir, &c.ContainerLogDir, &c.RuntimeClassPath,
		&c.ObjectsPath, &c.APISocket, &c.LockFile, &c.ImageCredentialProviderConfig, &c.ImageCredentialProviderBinDir,
		&c.Cluster.Kubeconfig, &c.Cluster.BootstrapKubeconfig, &c.Cluster.CertDir, &c.Server.TLSCertFile,
		&c.Server.TLSPrivateKeyFile, &c.Server.ClientCAFile} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
	}
	for account, path := range c.ServiceAccountTokenFiles {
		if path != "" {
			if c.ServiceAccountTokenFiles[account], err = filepath.Abs(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// configFiles lists the files in the order of merging.
func (c *Config) configFiles() ([]string, error) {
	var out []string
	if c.ConfigFile != "" {
		out = append(out, c.ConfigFile)
	}
	if c.ConfigDir == "" {
		return out, nil
	}
	// Subdirectories are included, in lexical order, as in the kubelet.
	dropIns, err := bounded.Files(c.ConfigDir, dropInSuffix, maxDropIns)
	if err != nil {
		return nil, fmt.Errorf("read --config-dir %s: %w; fix the directory, or remove the flag", c.ConfigDir, err)
	}
	return append(out, dropIns...), nil
}

// merged are the merged values of the files.
type merged struct {
	values map[string]any
	from   map[string]string // by field: the last file that set it
}

// add merges one file over those before.
func (m *merged) add(path string) ([]Problem, error) {
	data, err := bounded.ReadFile(path, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	var problems []Problem
	text, err := bounded.YAMLToJSONStrict(data, maxFileBytes)
	if err != nil {
		lenient, lenientErr := bounded.YAMLToJSON(data, maxFileBytes)
		if lenientErr != nil {
			return nil, fmt.Errorf("%s: invalid YAML: %w", path, lenientErr)
		}
		text = lenient
		problems = append(problems, Problem{File: path, Message: "duplicate key, the last one counts: " + err.Error()})
	}
	var typed kubeletConfig
	strict, err := k8sjson.UnmarshalStrict(text, &typed)
	if err != nil {
		return nil, fmt.Errorf("%s: not a valid %s: %w", path, apiKind, err)
	}
	if typed.APIVersion != apiVersion || typed.Kind != apiKind {
		return nil, fmt.Errorf("%s: found apiVersion %q and kind %q, want %q and %q",
			path, typed.APIVersion, typed.Kind, apiVersion, apiKind)
	}
	for _, e := range strict {
		p := Problem{File: path, Message: "unknown field, ignored: check its spelling"}
		var fe k8sjson.FieldError
		if errors.As(e, &fe) {
			p.Field = fe.FieldPath()
		}
		if strings.Contains(e.Error(), "duplicate") {
			p.Message = "duplicate field, the last one counts"
		}
		problems = append(problems, p)
	}
	var values map[string]any
	if err := bounded.JSON(text, len(text), &values, (*json.Decoder).UseNumber); err != nil {
		return nil, fmt.Errorf("%s: not an object: %w", path, err)
	}
	for name := range values {
		m.from[name] = path
	}
	patch(m.values, values)
	return problems, nil
}

// patch merges as the kubelet merges drop-ins: objects field by field, lists as a whole, null removes (RFC 7386).
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

// apply applies the merged values, field by field.
func (c *Config) apply(m *merged, given func(string) bool) ([]Problem, error) {
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(m.values)) {
		file := m.from[name]
		f, known := fields[name]
		if !known {
			continue // already a problem of add
		}
		set, err := decodeField("", name, m.values[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		switch {
		case f.ignored != "" || f.cluster && !c.InCluster():
			isDef, err := isDefault(f.def, name, m.values[name], set)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if !isDef {
				problems = append(problems, Problem{File: file, Field: name, Message: cmp.Or(f.ignored, noCluster)})
			}
		case name == "logging":
			problems = append(problems, c.applyLogging(set, file, given)...)
		case name == "featureGates":
			problems = append(problems, c.applyGates(set.FeatureGates, file)...)
		case name == "tracing":
			c.applyTracing(set, given)
		case name == "authentication":
			c.Server.applyAuthentication(set, file, given)
		case name == "authorization":
			c.Server.applyAuthorization(set, given)
		case fieldOf(set, name).IsZero() || given(f.flag):
		default:
			// All fields, since two may have to agree.
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

func (m *merged) all() (*kubeletConfig, error) {
	data, err := json.Marshal(m.values)
	if err != nil {
		return nil, fmt.Errorf("merge the configuration: %w", err)
	}
	out := &kubeletConfig{}
	if err := k8sjson.UnmarshalCaseSensitivePreserveInts(data, out); err != nil {
		return nil, fmt.Errorf("merge the configuration: %w", err)
	}
	return out, nil
}

// decodeField returns a configuration with only one field set, over its default if it has one.
func decodeField(def, name string, value any) (*kubeletConfig, error) {
	out := &kubeletConfig{}
	if def != "" {
		if err := k8sjson.UnmarshalCaseSensitivePreserveInts([]byte(`{"`+name+`":`+def+`}`), out); err != nil {
			return nil, fmt.Errorf("%s: invalid default: %w; this is a bug of the agent", name, err)
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
		return nil, fmt.Errorf("%s: %w; fix the value", name, err)
	}
	return out, nil
}

// isDefault reports whether a field has its default value. Tools write all fields, most of them as zero.
func isDefault(def, name string, value any, set *kubeletConfig) (bool, error) {
	if v := fieldOf(set, name); v.IsZero() || (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0 {
		return true, nil
	}
	if def == "" {
		// A pointer to zero is an explicit zero value.
		v := fieldOf(set, name)
		return v.Kind() == reflect.Pointer && v.Elem().IsZero(), nil
	}
	byDefault, err := decodeField(def, name, nil)
	if err != nil {
		return false, err
	}
	over, err := decodeField(def, name, prune(value))
	if err != nil {
		return false, err
	}
	return reflect.DeepEqual(fieldOf(byDefault, name).Interface(), fieldOf(over, name).Interface()), nil
}

// prune removes empty values from objects: there they mean the default, too.
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

// fieldOf returns the field with a JSON name.
func fieldOf(k *kubeletConfig, name string) reflect.Value {
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

// applyLogging applies the two supported parts of the logging configuration.
func (c *Config) applyLogging(k *kubeletConfig, file string, given func(string) bool) []Problem {
	l := k.Logging
	if l.Format != "" && !given("log-format") {
		c.LogFormat = l.Format
	}
	if l.Verbosity != 0 && !given("v") {
		c.Verbosity = int(l.Verbosity)
	}
	var out []Problem
	ignore := func(name string) {
		out = append(out, Problem{File: file, Field: "logging." + name, Message: notSupported})
	}
	// Tools write the API's default: 5 s, in nanoseconds.
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
