// runc for hosts whose bounding set lacks CAP_SYS_RESOURCE: it takes the capability out of the container's
// configuration and then becomes the real runc. Where the host has the capability it changes nothing.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	realRunc   = "/usr/sbin/runc"
	capability = "CAP_SYS_RESOURCE"
	bit        = 24
)

// hostHas says whether this process's bounding set holds the capability.
func hostHas() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, "CapBnd:"); found {
			set, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return err != nil || set&(1<<bit) != 0
		}
	}
	return true
}

// specOf finds the file that holds the process's capabilities: the bundle's config.json, or exec's process file.
func specOf(arguments []string) string {
	verb, path := "", ""
	for i, argument := range arguments {
		name, value, joined := strings.Cut(argument, "=")
		if !joined && i+1 < len(arguments) {
			value = arguments[i+1]
		}
		switch name {
		case "create", "run", "restore", "exec":
			if verb == "" {
				verb = name
			}
		case "--bundle", "-b":
			path = filepath.Join(value, "config.json")
		case "--process", "-p":
			path = value
		}
	}
	if verb == "" || (verb == "exec" && path == "") {
		return ""
	}
	if path == "" {
		return "config.json"
	}
	return path
}

// strip removes the capability from every set of a process; it reports whether there was one.
func strip(process map[string]any) bool {
	sets, _ := process["capabilities"].(map[string]any)
	changed := false
	for name, value := range sets {
		list, _ := value.([]any)
		kept := slices.DeleteFunc(slices.Clone(list), func(item any) bool { return item == capability })
		changed = changed || len(kept) != len(list)
		sets[name] = kept
	}
	return changed
}

func rewrite(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // 64-bit limits must survive
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		return err
	}
	process, nested := document["process"].(map[string]any)
	if !nested {
		process = document
	}
	if !strip(process) {
		return nil
	}
	out, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return os.WriteFile(path, out, 0o600)
}

func main() {
	if path := specOf(os.Args[1:]); path != "" && !hostHas() {
		if err := rewrite(path); err != nil && !os.IsNotExist(err) {
			fmt.Fprintf(os.Stderr, "runc wrapper: %s: %v\n", path, err)
			os.Exit(1)
		}
	}
	err := syscall.Exec(realRunc, append([]string{"runc"}, os.Args[1:]...), os.Environ())
	fmt.Fprintf(os.Stderr, "runc wrapper: %s: %v\n", realRunc, err)
	os.Exit(127)
}
