// Package dl opens shared libraries without cgo and says why one could not be opened.
package dl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/samber/lo"
	"golang.org/x/sys/unix"
)

// Library is an open shared library. Its methods may be called concurrently, but nothing may use the library or its
// symbols once Close is called.
type Library struct {
	handle uintptr
	path   string
}

// Attempt is a library that could not be opened.
type Attempt struct {
	Name string // name or path, as given to Open
	Err  error  // what the loader said
}

// NotFoundError says that none of several libraries could be opened.
type NotFoundError struct{ Tried []Attempt }

func (e *NotFoundError) Error() string {
	return strings.Join(lo.Map(e.Tried, func(a Attempt, _ int) string { return a.Err.Error() }), "; ")
}

// Open opens the first library that the loader takes. A name without a slash is searched for as the loader does
// (LD_LIBRARY_PATH, its cache, its default folders); its symbols are not offered to libraries opened later. The error
// is a *NotFoundError with every name tried.
func Open(names ...string) (*Library, error) {
	var tried []Attempt
	for _, name := range names {
		lib, err := open(name)
		if err == nil {
			return lib, nil
		}
		tried = append(tried, Attempt{Name: name, Err: err})
	}
	if len(tried) == 0 {
		return nil, errors.New("no library named")
	}
	return nil, &NotFoundError{Tried: tried}
}

func open(name string) (*Library, error) {
	if name == "" || strings.ContainsRune(name, 0) {
		return nil, fmt.Errorf("library name %q: empty, or with a zero byte", name) // dlopen takes "" to be the program
	}
	if strings.Contains(name, "/") {
		if err := checkFile(name); err != nil {
			return nil, err
		}
	}
	// The loader keeps its message for the thread that failed.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, loaderError(name, err)
	}
	path, err := mappedPath(handle)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), purego.Dlclose(handle))
	}
	return &Library{handle: handle, path: path}, nil
}

// loaderError makes sure that the message begins with the name and does not repeat it.
func loaderError(name string, err error) error {
	text := strings.TrimSpace(err.Error())
	if strings.HasPrefix(text, name+":") {
		return errors.New(text)
	}
	return fmt.Errorf("%s: %s", name, lo.CoalesceOrEmpty(text, "cannot be opened, and the loader does not say why"))
}

// linkMap is the part of glibc's struct link_map that its header promises.
type linkMap struct {
	_    uintptr
	name *byte
}

// mappedPath is the absolute path of the file that the loader mapped.
func mappedPath(handle uintptr) (string, error) {
	const linkMapRequest = 2 // RTLD_DI_LINKMAP
	address, err := purego.Dlsym(purego.RTLD_DEFAULT, "dlinfo")
	if err != nil {
		return "", fmt.Errorf("find dlinfo: %w", err)
	}
	var dlinfo func(handle uintptr, request int32, info unsafe.Pointer) int32
	purego.RegisterFunc(&dlinfo, address)
	var m *linkMap
	if dlinfo(handle, linkMapRequest, unsafe.Pointer(&m)) != 0 || m == nil || m.name == nil {
		return "", errors.New("dlinfo does not tell the library's path")
	}
	return filepath.Abs(unix.BytePtrToString(m.name))
}

// Path is the absolute path of the file that was opened.
func (l *Library) Path() string { return l.path }

// SymbolError says that a library lacks a symbol.
type SymbolError struct{ Library, Symbol string }

func (e *SymbolError) Error() string { return fmt.Sprintf("%s: no symbol %s", e.Library, e.Symbol) }

// Symbol is the address of a symbol; the error is a *SymbolError.
func (l *Library) Symbol(name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	address, err := purego.Dlsym(l.handle, name)
	if err != nil {
		return 0, &SymbolError{Library: l.path, Symbol: name}
	}
	return address, nil
}

// Has reports whether the library has a symbol.
func (l *Library) Has(name string) bool {
	_, err := l.Symbol(name)
	return err == nil
}

// Bind makes the function variable at fptr call the symbol. Calls cost about a microsecond: it is for setting up.
func (l *Library) Bind(fptr any, name string) error {
	address, err := l.Symbol(name)
	if err != nil {
		return err
	}
	purego.RegisterFunc(fptr, address)
	return nil
}

// Close gives the library up. The loader unloads it when nobody else in the process uses it.
func (l *Library) Close() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := purego.Dlclose(l.handle); err != nil {
		return fmt.Errorf("close %s: %w", l.path, err)
	}
	return nil
}

// checkFile refuses what the loader would wait for or describe wrongly.
func checkFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, errors.Unwrap(err))
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", path)
	}
	return checkMachine(path)
}
