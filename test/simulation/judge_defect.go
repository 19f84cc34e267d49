package simulation

import (
	"bytes"
	"context"
	"log/slog"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/defect"
)

// defects judges a record by what a failure or a rejection says that a panic has become.
func (j *judge) defects(rec *journaletv1.Record, encoded []byte) {
	if bytes.Contains(encoded, []byte(defect.Remedy)) {
		j.broken(noDefect, rec.GetActor().GetId(), "%v", rec)
	}
}

// defectLog is where drivers log that a panic has become a failure of one pod's work (runtime/defect): a violation.
type defectLog struct{ run *run }

// defects returns a log for drivers that recover from panics.
func defects(r *run) *slog.Logger { return slog.New(defectLog{r}) }

// Enabled implements slog.Handler.
func (defectLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

// Handle implements slog.Handler.
func (l defectLog) Handle(_ context.Context, rec slog.Record) error {
	var text strings.Builder
	text.WriteString(rec.Message)
	rec.Attrs(func(a slog.Attr) bool {
		text.WriteString(" " + a.String())
		return true
	})
	if strings.Contains(text.String(), defect.Remedy) { // before a record has it
		l.run.judge.broken(noDefect, "", "%s", text.String())
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (l defectLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l defectLog) WithGroup(string) slog.Handler { return l }
