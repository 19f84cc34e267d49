package picture

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Colours of docs/pods.svg, and some more of the same palette.
const (
	ground  = "#0d1117"
	bar     = "#1c2128"
	rule    = "#30363d"
	plain   = "#d5dbe3"
	faint   = "#7d8590"
	bright  = "#ffffff"
	green   = "#7ee787"
	blue    = "#79c0ff"
	violet  = "#d2a8ff"
	red     = "#ff9d8a"
	amber   = "#e3b341"
	slate   = "#57606a"
	teal    = "#56d4c6"
	mono    = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
	width   = 984.0
	margin  = 22.0
	head    = 34.0 // of the bar above
	charSum = 0.61 // a character's width over the font's size, of the widest of these fonts
)

// canvas is a card that is drawn on from above.
type canvas struct {
	bytes.Buffer
	title, about string
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}

// px is a coordinate with a tenth of a pixel, the shortest way.
func px(x float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}

func (c *canvas) text(x, y, size float64, colour, s string) {
	c.anchored(x, y, size, colour, "start", s)
}

func (c *canvas) anchored(x, y, size float64, colour, anchor, s string) {
	if s == "" {
		return
	}
	at := ""
	if anchor != "start" {
		at = fmt.Sprintf(` text-anchor="%s"`, anchor)
	}
	fmt.Fprintf(c, `<text x="%s" y="%s" font-size="%s" fill="%s"%s>%s</text>`+"\n", px(x), px(y), px(size), colour, at, escape(s))
}

func (c *canvas) rect(x, y, w, h float64, colour string, opacity float64) {
	o := ""
	if opacity < 1 {
		o = fmt.Sprintf(` opacity="%g"`, opacity)
	}
	fmt.Fprintf(c, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s"%s/>`+"\n", px(x), px(y), px(max(w, 0.8)), px(h), colour, o)
}

func (c *canvas) line(x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(c, `<path d="M%s %sL%s %s" stroke="%s"/>`+"\n", px(x1), px(y1), px(x2), px(y2), colour)
}

// boxes are many rectangles of one colour, in one path.
type boxes struct{ d strings.Builder }

func (b *boxes) add(x, y, w, h float64) {
	fmt.Fprintf(&b.d, "M%s %sh%sv%sh-%sz", px(x), px(y), px(max(w, 0.8)), px(h), px(max(w, 0.8)))
}

func (c *canvas) boxes(b *boxes, colour string) {
	if b.d.Len() > 0 {
		fmt.Fprintf(c, `<path d="%s" fill="%s"/>`+"\n", b.d.String(), colour)
	}
}

// key is one entry of a legend.
type key struct{ colour, text string }

// legend writes entries side by side, on as many lines as they take, and gives the y below them.
func (c *canvas) legend(y float64, keys ...key) float64 {
	x := margin
	for _, k := range keys {
		w := 16 + float64(len([]rune(k.text)))*12*charSum + 18
		if x > margin && x+w > width-margin {
			x, y = margin, y+18
		}
		c.rect(x, y-9, 10, 10, k.colour, 1)
		c.text(x+16, y, 12, plain, k.text)
		x += w
	}
	return y + 18
}

// axis draws the time below a field from x0 to x1 and rules through it.
func (c *canvas) axis(x0, x1, top, bottom float64, span time.Duration) {
	step := stepOf(span)
	for t := time.Duration(0); t <= span; t += step {
		x := x0 + (x1-x0)*float64(t)/float64(span)
		c.line(x, top, x, bottom, rule)
		label := t.String()
		if t == 0 {
			label = "0"
		}
		c.anchored(x, bottom+14, 11, faint, "middle", label)
	}
}

// stepOf is a round step that cuts a span into at most ten.
func stepOf(span time.Duration) time.Duration {
	for unit := time.Microsecond; ; unit *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if span <= 10*n*unit {
				return n * unit
			}
		}
	}
}

// write ends the picture at a height and writes it.
func (c *canvas) write(w io.Writer, height float64) error {
	height = math.Ceil(height)
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]s %[2]s" width="%[1]s" height="%[2]s" role="img" aria-labelledby="t d">
<title id="t">%[3]s</title>
<desc id="d">%[4]s</desc>
<rect width="%[1]s" height="%[2]s" rx="10" fill="%[5]s"/>
<path d="M10 0H974a10 10 0 0 1 10 10V34H0V10A10 10 0 0 1 10 0Z" fill="%[6]s"/>
<text x="492" y="22" text-anchor="middle" font-family="%[7]s" font-size="12.5" fill="%[8]s">%[3]s</text>
<g font-family="%[7]s">
%[9]s</g></svg>
`, px(width), px(height), escape(c.title), escape(c.about), ground, bar, mono, faint, c.String())
	return err
}

// ms is a duration in milliseconds, as people read it.
func ms(d time.Duration) string {
	x := float64(d) / float64(time.Millisecond)
	if x >= 100 {
		return fmt.Sprintf("%.0f ms", x)
	}
	return fmt.Sprintf("%.1f ms", x)
}
