// Command vulns runs govulncheck on every module of this repository. It fails if a module calls code with a known
// vulnerability. Without the database it checks nothing, reports that, and succeeds: an outage of another's server
// must not stop a build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/vuln/scan"

	"github.com/journalet/journalet/test/tools/supply/modules"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	db := flag.String("db", "https://vuln.go.dev", "vulnerability database; file:///... for a copy")
	flag.Parse()
	if err := run(context.Background(), *root, *db, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vulns:", err)
		os.Exit(1)
	}
}

// run checks all modules below root.
func run(ctx context.Context, root, db string, out io.Writer) error {
	if err := reach(ctx, db); err != nil {
		_, err := fmt.Fprintf(out, "vulns: NOT CHECKED: the vulnerability database is out of reach: %v\n", err)
		return err
	}
	all, err := modules.Find(root)
	if err != nil {
		return err
	}
	var affected []string
	for _, m := range all {
		fmt.Fprintf(out, "vulns: %s\n", m.Dir) //nolint:errcheck // progress
		found, err := check(ctx, filepath.Join(root, m.Dir), db, append([]string{"-tags", m.Tags}, m.Patterns...), out)
		if err != nil {
			return fmt.Errorf("check module %s: %w", m.Dir, err)
		}
		if found {
			affected = append(affected, m.Dir)
		}
	}
	if len(affected) > 0 {
		return fmt.Errorf("these modules call vulnerable code: %s; raise the versions that are named above",
			strings.Join(affected, ", "))
	}
	_, err = fmt.Fprintf(out, "vulns: none of %d modules calls code with a known vulnerability\n", len(all))
	return err
}

// reachTimeout bounds the first request to the database.
const reachTimeout = 15 * time.Second

// reach returns an error if the database does not answer.
func reach(ctx context.Context, db string) error {
	if strings.HasPrefix(db, "file://") {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, reachTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(db, "/")+"/index/db.json", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	return nil
}

// vulnerable is govulncheck's exit code if the code calls something vulnerable.
const vulnerable = 3

// check runs govulncheck on one module, and reports whether it calls vulnerable code.
func check(ctx context.Context, dir, db string, patterns []string, out io.Writer) (bool, error) {
	c := scan.Command(ctx, append([]string{"-C", dir, "-db", db}, patterns...)...)
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		return false, err
	}
	err := c.Wait()
	var code interface{ ExitCode() int }
	if errors.As(err, &code) && code.ExitCode() == vulnerable {
		return true, nil
	}
	return false, err
}
