package files
import ("testing";"time";"context";"syscall";"os";"path/filepath";"fmt";"github.com/journalet/journalet/runtime/objects";"github.com/journalet/journalet/test/must")
func TestIdleCPU(t *testing.T) {
	dir := t.TempDir()
	b := New(Options{Manifests: filepath.Join(dir,"none"), Objects: dir})
	for i := range 1000 {
		must.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.yaml", i)), []byte(configMapYAML(fmt.Sprint("c", i), "value")), 0o600))
		b.Watch(key(configMap, fmt.Sprint("c",i)))
	}
	got := 0
	go b.Run(context.Background(), func(m map[objects.Key]objects.Object){ got += len(m) })
	time.Sleep(25*time.Second)
	var a, c syscall.Rusage
	syscall.Getrusage(0,&a)
	time.Sleep(60*time.Second)
	syscall.Getrusage(0,&c)
	d := func(r syscall.Rusage) time.Duration { return time.Duration(r.Utime.Nano()+r.Stime.Nano()) }
	t.Log(got, d(c)-d(a))
}
