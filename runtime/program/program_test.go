package program

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// given is what an agent may have in its environment and no program gets.
func given(t *testing.T) {
	for _, name := range network {
		t.Setenv(name, "") // back at the end of the test
		must.OK(t, os.Unsetenv(name))
	}
	for name, value := range map[string]string{
		"NOTIFY_SOCKET": "/run/systemd/notify", "WATCHDOG_USEC": "1", "LISTEN_FDS": "1", "CREDENTIALS_DIRECTORY": "/run/c",
		"GOMEMLIMIT": "1", "AWS_SECRET_ACCESS_KEY": "s", "LD_PRELOAD_NOT": "x", "HOME": "/elsewhere", "LC_MESSAGES": "de_DE",
		"PATH": t.TempDir(), "HTTPS_PROXY": "http://proxy:3128", "no_proxy": "",
	} {
		t.Setenv(name, value)
	}
}

func TestAProgramGetsNothingOfTheAgentsEnvironment(t *testing.T) {
	given(t)
	cmd := Command(t.Context(), "env")
	cmd.Env = append(cmd.Env, "HOME=/mine")
	out, err := cmd.Output()
	must.OK(t, err)
	got := strings.Fields(string(out))
	slices.Sort(got)
	if want := []string{"HOME=/mine", "LANG=C", "LC_ALL=C", "PATH=" + Path}; !slices.Equal(got, want) {
		t.Errorf("the environment is %q, want %q", got, want)
	}
}

func TestAProgramThatReachesServersKnowsTheProxy(t *testing.T) {
	given(t)
	if got, want := Network(), []string{"HTTPS_PROXY=http://proxy:3128", "no_proxy="}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAProgramThatIsNotInThePathIsNotFound(t *testing.T) {
	cmd := Command(t.Context(), "journalet-no-such-program", "x")
	if err := cmd.Run(); !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v", err)
	}
	if got := strings.Join(cmd.Args, " "); got != "journalet-no-such-program x" {
		t.Errorf("arguments %s", got)
	}
	if err := Command(t.Context(), "/no/such/program").Run(); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("a path: error %v", err)
	}
}
