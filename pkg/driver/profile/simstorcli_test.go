package profile_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// raid is a controller of the simulated storcli64, which the test binary is when called by its name. The order of the
// controllers is that of their numbers.
type raid struct {
	PCI, SAS, Serial, Product, Package string
	// Stored is the package that runs after a reboot.
	Stored string
	// Dead controllers are listed with a failure and nothing else.
	Dead bool
}

func loadRAID(dir string) (all []raid, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "controllers"))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}

func saveRAID(dir string, all []raid) error {
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "controllers"), text, 0o600)
}

// runStorcli answers as versions 007 do: it exits with 0 whatever happened.
func runStorcli(dir string, args []string) int {
	all, err := loadRAID(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if text, fails := faulty(dir, "exit"); fails {
		code, _ := strconv.Atoi(text)
		return code
	}
	file, downloads := "", false
	if len(args) == 3 && args[1] == "download" {
		file, downloads = strings.CutPrefix(args[2], "file=")
	}
	switch {
	case strings.Join(args, " ") == "/call show J":
		fmt.Println(showAll(all))
		listing := strconv.Itoa(count(dir))
		if _, turns := faulty(dir, "turn-after-"+listing); turns {
			return saved(saveRAID(dir, append(all[1:], all[0])))
		}
		if _, swaps := faulty(dir, "swap-after-"+listing); swaps {
			all[0].PCI, all[1].PCI = all[1].PCI, all[0].PCI
			return saved(saveRAID(dir, all))
		}
		return 0
	case len(args) == 4 && strings.Join(args[1:], " ") == "show all J":
		fmt.Println(showHealth(dir, all))
		return 0
	case downloads:
		number, err := strconv.Atoi(strings.TrimPrefix(args[0], "/c"))
		if err != nil || number >= len(all) {
			fmt.Println("Controller = 9\nStatus = Failure\nDescription = Controller 9 not found")
			return 0
		}
		return download(dir, all, number, file)
	}
	fmt.Println("syntax error, unexpected TOKEN_UNKNOWN")
	return 0
}

// count is the number of the listing, from 1.
func count(dir string) int {
	name := filepath.Join(dir, "listings")
	text, _ := os.ReadFile(name)
	_ = os.WriteFile(name, append(text, '.'), 0o600)
	return len(text) + 1
}

func showAll(all []raid) string {
	controllers := []map[string]any{}
	for number, r := range all {
		status := map[string]any{"CLI Version": "007.1623.0000.0000 May 17, 2021", "Controller": number, "Status": "Success", "Description": "None"}
		c := map[string]any{"Command Status": status}
		if r.Dead {
			status["Status"], status["Description"] = "Failure", "Controller is not responding"
		} else {
			c["Response Data"] = map[string]any{
				"Product Name": r.Product, "Serial Number": r.Serial, "SAS Address": " " + r.SAS, "PCI Address": r.PCI,
				"FW Package Build": r.Package, "FW Version": "5.160.02-3552", "Vendor Id": 4096, "Drive Groups": 1,
				"TOPOLOGY": []map[string]any{{"DG": 0, "Type": "RAID1"}},
			}
		}
		controllers = append(controllers, c)
	}
	text, _ := json.MarshalIndent(map[string]any{"Controllers": controllers}, "", "\t")
	return string(text)
}

// showHealth shows each controller's status, which is optimal unless the files "status" and "memory" say otherwise.
func showHealth(dir string, all []raid) string {
	controllers := []map[string]any{}
	for number, r := range all {
		health := map[string]any{"Controller Status": "Optimal", "Memory Correctable Errors": 0, "Memory Uncorrectable Errors": 0}
		if text, set := faulty(dir, "status"); set && r.Serial == rear.Serial {
			health["Controller Status"] = text
		}
		if text, set := faulty(dir, "memory"); set && r.Serial == rear.Serial {
			health["Memory Uncorrectable Errors"] = json.Number(text)
		}
		controllers = append(controllers, map[string]any{
			"Command Status": map[string]any{"CLI Version": "007.1623.0000.0000 May 17, 2021", "Controller": number, "Status": "Success"},
			"Response Data": map[string]any{
				"Basics": map[string]any{"Controller": number, "Serial Number": r.Serial, "PCI Address": r.PCI}, "Status": health,
			},
		})
	}
	text, _ := json.MarshalIndent(map[string]any{"Controllers": controllers}, "", "\t")
	return string(text)
}

func download(dir string, all []raid, number int, file string) int {
	text, err := os.ReadFile(file)
	version, whole := strings.CutPrefix(string(text), "mr package ")
	status := "Status = Success\nDescription = CRITICAL! Flash successful. Please power cycle the system for the changes to take effect"
	_, fails := faulty(dir, "fail")
	if _, turns := faulty(dir, "turn-in-write"); turns {
		all = append(all[1:], all[0])
	}
	if fails || err != nil || !whole {
		status = "Status = Failure\nDescription = image corrupted"
	} else {
		all[number].Stored = version
	}
	fmt.Printf("Downloading image.Please wait...\n\nCLI Version = 007.1623.0000.0000 May 17, 2021\nOperating system = Linux 6.1.0\nController = %d\n%s\n\n",
		number, status)
	return saved(saveRAID(dir, all))
}

// newStorcli installs the tool with controllers and returns its directory.
func newStorcli(t *testing.T, tool string, all ...raid) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(dir, tool)))
	require.NoError(t, saveRAID(dir, all))
	return dir
}

// stored are the packages the controllers hold and do not run, by serial number.
func stored(t *testing.T, dir string) map[string]string {
	t.Helper()
	all, err := loadRAID(dir)
	require.NoError(t, err)
	held := map[string]string{}
	for _, r := range all {
		if r.Stored != "" {
			held[r.Serial] = r.Stored
		}
	}
	return held
}
