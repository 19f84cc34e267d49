package manifest

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/journalet/journalet/test/must"
)

// What decides by a few bytes must decide as the slow way does.
func TestShortWaysOfScalarsAreExact(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const letters = "aAyYnNtTfFoOsSlLeExXuU0123456789~-+._/:<>&\"\\ \t\n\x7f\x80é\u2028"
	alphabet := []rune(letters)
	for range 200_000 {
		word := make([]rune, 1+random.IntN(8))
		for i := range word {
			word[i] = alphabet[random.IntN(len(alphabet))]
		}
		s := string(word)
		if isWord(s) && (decimal().MatchString(s) || resolvable().MatchString(s)) {
			t.Fatalf("%q may be other than a string", s)
		}
		want, err := json.Marshal(s)
		must.OK(t, err)
		if got := quote(s); string(got) != string(want) {
			t.Fatalf("%q is quoted as %s, want %s", s, got, want)
		}
		if got, ok := (&node{raw: want}).text(); !ok || got != s {
			t.Fatalf("%s has the text %q, %v", want, got, ok)
		}
	}
}
