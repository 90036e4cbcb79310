package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cnikit/cnikit/skel/skeltest"
)

// width is that of the table, in columns.
const width = 100

// line is what -json prints for a requirement.
type line struct {
	skeltest.Outcome
	Level   skeltest.Level `json:"level"`
	Section string         `json:"section"`
	Text    string         `json:"text"`
	Explain string         `json:"explain"`
}

// judge prints what becomes of each requirement; ok says that nothing failed.
func (o *options) judge(ctx context.Context, w io.Writer) (ok bool, err error) {
	chosen := o.chosen()
	if o.listed {
		for _, r := range chosen {
			text := header("        ", r) + wrapped(r.Text)
			if o.explain {
				text += wrapped(r.Explain)
			}
			if _, err := io.WriteString(w, text); err != nil {
				return false, err
			}
		}
		return true, nil
	}
	if os.Getuid() != 0 {
		return false, fmt.Errorf("needs root: it makes namespaces and links")
	}
	began, counts := time.Now(), map[skeltest.Status]int{}
	ok = true
	skeltest.Judge(ctx, o.target, chosen, func(r skeltest.Requirement, out skeltest.Outcome) bool {
		counts[out.Status]++
		ok = ok && out.OK()
		if o.json {
			err = json.NewEncoder(w).Encode(line{out, r.Level, r.Section, r.Text, r.Explain})
		} else {
			_, err = io.WriteString(w, o.row(r, out))
		}
		return err == nil && (r.ID != chosen[0].ID || out.OK()) // all others need an ADD that works
	})
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("not all is judged: %w", context.Cause(ctx))
	}
	if err != nil || o.json {
		return ok, err
	}
	total := counts[skeltest.Pass] + counts[skeltest.NotApplicable] + counts[skeltest.Failed] + counts[skeltest.NotJudged]
	others := ""
	if total < len(chosen) {
		others = wrapped(fmt.Sprintf("The other %d are not judged: they need what the first one asks for.", len(chosen)-total))
	}
	_, err = fmt.Fprintf(w, others+"%d requirements: %d passed, %d failed, %d not judged, %d not applicable; %.1f s\n", len(chosen),
		counts[skeltest.Pass], counts[skeltest.Failed], counts[skeltest.NotJudged]+len(chosen)-total, counts[skeltest.NotApplicable], time.Since(began).Seconds())
	return ok, err
}

// header is the first line, or two where the section is told at length.
func header(status string, r skeltest.Requirement) string {
	text := fmt.Sprintf("%s %-26s %-6s ", status, r.ID, r.Level)
	if 9+27+7+len(r.Section) > width {
		return strings.TrimRight(text, " ") + "\n" + wrapped(r.Section)
	}
	return text + r.Section + "\n"
}

// row is what the table says of a requirement.
func (o *options) row(r skeltest.Requirement, out skeltest.Outcome) string {
	var s strings.Builder
	s.WriteString(header(o.paint(out.Status), r))
	if out.Status == skeltest.NotApplicable {
		s.WriteString(wrapped(out.Detail))
	}
	if !out.OK() || o.explain {
		s.WriteString(wrapped(r.Text))
	}
	if !out.OK() {
		for l := range strings.Lines(strings.TrimSpace(out.Detail) + "\n") {
			s.WriteString(quote(strings.TrimRight(l, "\n")))
		}
	}
	if !out.OK() || o.explain {
		s.WriteString(wrapped(r.Explain))
	}
	return s.String()
}

// quote writes a line of what was seen, broken where it is too long for the table.
func quote(text string) string {
	var s strings.Builder
	for sign := "         | "; ; sign = "         |   " {
		room := width - len(sign)
		if len(text) <= room {
			return s.String() + sign + text + "\n"
		}
		at := room
		if blank := strings.LastIndexByte(text[:room], ' '); blank > room/2 {
			at = blank + 1
		}
		for at > 1 && !utf8.RuneStart(text[at]) {
			at--
		}
		s.WriteString(sign + text[:at] + "\n")
		text = text[at:]
	}
}

// paint writes a status in its colour, where there are colours.
func (o *options) paint(s skeltest.Status) string {
	text := fmt.Sprintf("%-8s", s)
	colours := map[skeltest.Status]string{skeltest.Pass: "32", skeltest.Failed: "1;31", skeltest.NotJudged: "1;35", skeltest.NotApplicable: "2"}
	if !o.colour {
		return text
	}
	return "\x1b[" + colours[s] + "m" + text + "\x1b[0m"
}

// wrapped breaks a text into lines that fit the table, indented.
func wrapped(text string) string {
	const indent = "         "
	var s strings.Builder
	column := width
	for _, word := range strings.Fields(text) {
		if column+1+len(word) > width {
			if s.Len() > 0 {
				s.WriteString("\n")
			}
			s.WriteString(indent + word)
			column = len(indent) + len(word)
			continue
		}
		s.WriteString(" " + word)
		column += 1 + len(word)
	}
	if s.Len() > 0 {
		s.WriteString("\n")
	}
	return s.String()
}
