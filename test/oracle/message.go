package oracle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/journalet/journalet/test/oracle/pods"
)

// messageCase is a case of a terminated container.
type messageCase struct {
	Pod *corev1.Pod `json:"pod"`
	// Runtime is the runtime's message.
	Runtime string `json:"runtime,omitempty"`
	// File is the content of its termination message file, repeated FileTimes; NoFile: there is no file.
	File      string `json:"file,omitempty"`
	FileTimes int    `json:"fileTimes,omitempty"`
	NoFile    bool   `json:"noFile,omitempty"`
	// Log holds the lines of its log, repeated LogTimes; a line that ends in \ is partial. NoLog: there is no log.
	Log      []string `json:"log,omitempty"`
	LogTimes int      `json:"logTimes,omitempty"`
	NoLog    bool     `json:"noLog,omitempty"`
	ExitCode int32    `json:"exitCode,omitempty"`
}

// generateMessage returns a terminated container with a message file and a log.
func generateMessage(m *pods.Generator) string {
	p := m.Small()
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.Spec.Containers = p.Spec.Containers[:1]
	c := &p.Spec.Containers[0]
	const logs = "FallbackToLogsOnError"
	c.TerminationMessagePolicy = pods.Pick[corev1.TerminationMessagePolicy](m, "", "File", logs, logs)
	c.TerminationMessagePath = pods.Pick(m, "", "", "/var/x", "rel/path")
	w := messageCase{
		Runtime: pods.Pick(m, "", "", "could not start"), NoFile: m.Chance(10), NoLog: m.Chance(10),
		File:      pods.Pick(m, "", "", "x", "it failed\n", "ü", "0123456789"),
		FileTimes: pods.Pick(m, 1, 2, 409, 410, 2048, 4096, 5000),
		LogTimes:  pods.Pick(m, 1, 1, 2, 40, 79, 80, 81, 200), ExitCode: pods.Pick[int32](m, 0, 1, 1, 137),
	}
	for range m.N(4) {
		w.Log = append(w.Log, pods.Pick(m,
			"", "one line", "partial\\", strings.Repeat("long ", 60), "ü", " leading space", "tab\tand more"))
	}
	return podAnd(p, nil) + strings.Replace(toYAML(w), "pod: null\n", "", 1)
}

// compareMessages compares the termination message.
func compareMessages(c *testCase) {
	words := messageCase{}
	_, manifest, ok := readHistory(c.text)
	if !ok || yaml.Unmarshal([]byte(c.text), &words) != nil {
		return
	}
	w := c.world(manifest)
	if w == nil {
		return
	}
	defer w.close()
	w.theirs.leave(w.parsed.Pod, words)
	w.ours.leave(w.parsed.Pod, words)
	seen, err := w.newKubelet().Status(context.Background(), w.parsed.Pod)
	check("the kubelet has no status", err)
	ours := w.newDecider(nil).Observed().GetContainers()[0].GetMessage()
	theirs := strings.ReplaceAll(seen.ContainerStatuses[0].Message, w.theirs.opts.PodLogDir, w.ours.opts.PodLogDir)
	key := "message"
	switch {
	case strings.Contains(theirs, "Error on reading termination message from logs"):
		key = "message with a log that is gone"
	case strings.ToValidUTF8(theirs, "") != theirs:
		key = "message that is cut within a character"
	case len(theirs) > maxMessage && len(ours) > maxMessage-utf8.UTFMax:
		key = "message beyond 4096 bytes"
	}
	c.differs(key, fmt.Sprintf("%d bytes: %q", len(ours), ours), fmt.Sprintf("%d bytes: %q", len(theirs), theirs))
}

// maxMessage is our bound on the whole message, in bytes.
const maxMessage = 4096

// leave adds the terminated container with its files to a side's node.
func (s side) leave(p *corev1.Pod, words messageCase) {
	spec := &p.Spec.Containers[0]
	s.fill(p, pods.History{Sandboxes: []pods.SandboxPast{{Ready: true}}})
	c := containerOf(p, spec, pods.ContainerPast{Name: spec.Name, State: pods.Exited, ExitCode: words.ExitCode})
	c.Message = words.Runtime
	c.Config.Annotations["io.kubernetes.container.terminationMessagePath"] = spec.TerminationMessagePath
	c.Config.Annotations["io.kubernetes.container.terminationMessagePolicy"] = string(spec.TerminationMessagePolicy)
	file := filepath.Join(s.opts.RootDir, "pods", string(p.UID), "containers", spec.Name, "0")
	inside := spec.TerminationMessagePath
	if !filepath.IsAbs(inside) {
		inside = filepath.Join("/", inside)
	}
	c.Config.Mounts = []*runtimeapi.Mount{{ContainerPath: inside, HostPath: file}}
	if !words.NoFile {
		put(file, strings.Repeat(words.File, words.FileTimes))
	}
	c.LogPath = filepath.Join(s.opts.PodLogDir, p.Namespace+"_"+p.Name+"_"+string(p.UID), spec.Name, "0.log")
	if !words.NoLog {
		put(c.LogPath, logOf(words))
	}
	s.fake.AddContainer(c)
}

func logOf(words messageCase) string {
	var b strings.Builder
	for range words.LogTimes {
		for _, line := range words.Log {
			tag := "F"
			if rest, partial := strings.CutSuffix(line, `\`); partial {
				line, tag = rest, "P"
			}
			fmt.Fprintf(&b, "2026-03-01T12:00:00.000000000Z stdout %s %s\n", tag, line)
		}
	}
	return b.String()
}

func put(path, content string) {
	err := os.MkdirAll(filepath.Dir(path), 0o750)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	check("write a file of a case", err)
}
