package pluginv1

import (
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plain"
)

// What a plugin may say of itself: an engine keeps it for as long as it runs, and shows it to people.
const (
	MaxBackends    = 256  // of one plugin
	MaxName        = 64   // bytes of the name of a plugin or backend
	MaxVersion     = 128  // bytes of a plugin's version
	MaxDescription = 1024 // bytes of a backend's description
	MaxListed      = 256  // entries of one requirement
	MaxWord        = 256  // bytes of one entry
)

// MaxSmallAnswer is the largest message, in bytes, that a plugin may answer with to everything but a question for a plan.
const MaxSmallAnswer = 4 << 20

var smallAnswer = grpc.MaxCallRecvMsgSize(MaxSmallAnswer)

// said is an error of a plugin that is bounded in length and plain in one line, as its words are shown to people.
func said(err error) error {
	words := err.Error()
	if short := shortened(words); short != words {
		return &wording{short, err}
	}
	return err
}

func shortened(words string) string { return plain.Cut(plain.Line(words), backend.MaxReasonBytes) }

// wording is an error in other words.
type wording struct {
	words string
	err   error
}

func (w *wording) Error() string { return w.words }
func (w *wording) Unwrap() error { return w.err }

// checkWords refuses texts of a requirement that are too many or too long, or that match nothing because nobody could see them.
func checkWords(what string, words []string) error {
	if len(words) > MaxListed {
		return tooMany(what, len(words))
	}
	for i, w := range words {
		if len(w) > MaxWord {
			return fmt.Errorf("%s %d has %d bytes, at most %d", what, i, len(w), MaxWord)
		}
		if plain.Line(w) != w {
			return fmt.Errorf("%s %d has control characters: %q", what, i, w)
		}
	}
	return nil
}

func tooMany(what string, n int) error {
	return fmt.Errorf("%s has %d entries, at most %d", what, n, MaxListed)
}

// checkBounds refuses requirements that are longer than anybody's, before they take memory.
func checkBounds(m *Requirements) error {
	errs := []error{
		checkWords("vendors", m.GetVendors()), checkWords("capabilities", m.GetCapabilities()), checkWords("platforms", m.GetPlatforms()),
		checkWords("driver", []string{m.GetDriver()}), checkWords("memories", m.GetMemories()), checkWords("data_types", m.GetDataTypes()),
		checkWords("ops", m.GetOps()), checkWords("links", m.GetLinks()), checkWords("modes", m.GetModes()),
		checkWords("scope, p2p or placement", []string{m.GetScope(), m.GetP2P(), m.GetPlacement()}),
	}
	for what, n := range map[string]int{"world_sizes": len(m.GetWorldSizes()), "libraries": len(m.GetLibraries()), "windows": len(m.GetWindows())} {
		if n > MaxListed {
			errs = append(errs, tooMany(what, n))
		}
	}
	for _, l := range m.GetLibraries() {
		errs = append(errs, checkWords("libraries", []string{l.GetName(), l.GetPath(), l.GetVersion()}))
	}
	for _, w := range m.GetWindows() {
		errs = append(errs, checkWords("windows", []string{w.GetCapability(), w.GetMode(), w.GetLink(), w.GetDataType()}))
	}
	return firstOf(errs...)
}

// firstOf is the first error: one line tells a person what to mend next.
func firstOf(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return oneLine(err)
	}
	return nil
}

// checkOffer refuses what no plugin says of itself.
func checkOffer(name, version string, backends int) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("advertises itself %w", err)
	}
	if len(version) > MaxVersion {
		return fmt.Errorf("version of %d bytes, at most %d", len(version), MaxVersion)
	}
	return checkCount(backends)
}

func checkCount(backends int) error {
	switch {
	case backends == 0:
		return errors.New("offers no backends")
	case backends > MaxBackends:
		return fmt.Errorf("offers %d backends, a plugin at most %d", backends, MaxBackends)
	}
	return nil
}

// What a rank may bring: every plugin and every other rank is told.
const (
	maxHost      = 255
	maxLibraries = 64
	maxPath      = 4096
)

// checkFacts refuses facts of a rank that are longer than anybody's.
func checkFacts(m *Rank) error {
	d := m.GetDevice()
	for _, f := range []struct {
		what, text string
		most       int
	}{
		{"host name", m.GetHost(), maxHost},
		{"driver", m.GetDriver(), MaxWord},
		{"NUMA node", m.GetNuma(), MaxWord},
		{"UUID of the device", d.GetUuid(), MaxWord},
		{"bus id of the device", d.GetPciBusId(), MaxWord},
		{"name of the device", d.GetName(), MaxWord},
		{"capability of the device", d.GetCapability(), MaxWord},
		{"NUMA node of the device", d.GetNuma(), MaxWord},
		{"cores of the device", d.GetCpuAffinity(), maxPath},
		{"maker of the device", d.GetVendor(), MaxWord},
	} {
		if len(f.text) > f.most {
			return fmt.Errorf("%s of %d bytes, at most %d", f.what, len(f.text), f.most)
		}
	}
	if n := len(m.GetLibraries()); n > maxLibraries {
		return fmt.Errorf("%d libraries, at most %d", n, maxLibraries)
	}
	for _, l := range m.GetLibraries() {
		if len(l.GetName()) > MaxWord || len(l.GetPath()) > maxPath || len(l.GetVersion()) > MaxWord {
			return fmt.Errorf("library %q: name, path or version is too long", plain.Cut(l.GetName(), 40))
		}
	}
	return nil
}
