package profile_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nodefirmware/node-firmware-operator/pkg/driver/drivertest"
	"github.com/nodefirmware/node-firmware-operator/pkg/inventory"
)

// simflash is a vendor's tool with one card, which the test binary is when called by its name. What it keeps, and what is
// to go wrong, are files beside it.
const simflash = "simflash"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == simflash {
		os.Exit(runSimflash(filepath.Dir(os.Args[0]), os.Args[1:]))
	}
	if name := filepath.Base(os.Args[0]); biosTools[name] != nil {
		os.Exit(runBIOSTool(name, filepath.Dir(os.Args[0]), os.Args[1:]))
	}
	if name := filepath.Base(os.Args[0]); name == "storcli64" || name == "perccli64" {
		os.Exit(runStorcli(filepath.Dir(os.Args[0]), os.Args[1:]))
	}
	os.Exit(m.Run())
}

// card is the state of the card, printed as the tool prints it.
type card struct {
	Status, Address, Running string
	Stored                   string `json:",omitempty"`
	Board                    string `json:"Board Id"`
	MAC                      string
	Knobs                    []choice `json:",omitempty"`
}

// reset makes what is stored run.
func (c card) reset(dir string) error {
	c.Running, c.Stored = c.holds(), ""
	for i := range c.Knobs {
		c.Knobs[i].Current = c.Knobs[i].Next
	}
	return c.save(dir)
}

func (c card) holds() string {
	if c.Stored != "" {
		return c.Stored
	}
	return c.Running
}

func loadCard(dir string) (c card, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "card"))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	return c, err
}

func (c card) save(dir string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "card"), text, 0o600)
}

// faulty reads a file that says that something is to go wrong.
func faulty(dir, fault string) (text string, wrong bool) {
	content, err := os.ReadFile(filepath.Join(dir, fault))
	return string(content), err == nil
}

func runSimflash(dir string, args []string) int {
	if _, garbage := faulty(dir, "garbage"); garbage {
		fmt.Println("Segmentation fault")
		return 0
	}
	c, err := loadCard(dir)
	if err != nil {
		return 1
	}
	line := strings.Join(args, " ")
	device := "-d " + c.Address + " "
	switch {
	case strings.HasPrefix(line, "-i ") && strings.HasSuffix(line, " show"):
		return showImage(args[1])
	case !strings.HasPrefix(line, device):
		return 5
	}
	if _, gone := faulty(dir, "gone"); gone {
		return 5
	}
	switch verb := strings.TrimPrefix(line, device); {
	case verb == "show":
		text, _ := json.Marshal(map[string][]card{"Controllers": {c}})
		fmt.Println(string(text))
		return 0
	case verb == "reset":
		if _, refuses := faulty(dir, "no-reset"); refuses {
			return 2
		}
		return saved(c.reset(dir))
	case verb == "knobs":
		for _, k := range c.Knobs {
			fmt.Printf("%s is %s, then %s, of %s (%s)\n", k.Name, k.Current, k.Next, strings.Join(k.Values, "/"), k.Default)
		}
		return 0
	case strings.HasPrefix(verb, "turn "):
		return turnKnob(dir, c, args[3], args[4])
	case verb == "selftest" || verb == "clear":
		return runVerb(dir, verb)
	case strings.HasPrefix(verb, "--image=") && strings.HasSuffix(verb, " write"):
		return writeCard(dir, c, strings.TrimPrefix(args[2], "--image="))
	}
	return 9
}

// runVerb answers as the file that is named after the verb says: an exit code, and what is printed.
func runVerb(dir, verb string) int {
	for _, hangs := faulty(dir, "hang"); hangs; _, hangs = faulty(dir, "hang") {
		_ = os.WriteFile(filepath.Join(dir, "hangs"), nil, 0o600)
		time.Sleep(5 * time.Millisecond) // sleeps: plays a tool that takes its time
	}
	text, _ := faulty(dir, verb+".txt")
	code, output, _ := strings.Cut(text, "\n")
	fmt.Print(output)
	exit, _ := strconv.Atoi(code)
	return exit
}

func turnKnob(dir string, c card, name, value string) int {
	if text, fails := faulty(dir, "fail"); fails {
		fmt.Fprintln(os.Stderr, text)
		return 1
	}
	for _, hangs := faulty(dir, "hang"); hangs; _, hangs = faulty(dir, "hang") {
		_ = os.WriteFile(filepath.Join(dir, "hangs"), nil, 0o600)
		time.Sleep(5 * time.Millisecond) // sleeps: plays a tool that takes its time
	}
	if _, lies := faulty(dir, "lie"); lies {
		return 0
	}
	for i := range c.Knobs {
		if c.Knobs[i].Name == name {
			c.Knobs[i].Next = value
		}
	}
	return saved(c.save(dir))
}

func saved(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func readImage(path string) (board, version string, whole bool) {
	content, err := os.ReadFile(path)
	fields := strings.SplitN(string(content), "\n", 4)
	if err != nil || len(fields) != 4 {
		return "", "", false
	}
	board, version = fields[1], fields[2]
	return board, version, string(content) == string(drivertest.ImageBytes(board, inventory.Version(version)))
}

func showImage(path string) int {
	board, version, whole := readImage(path)
	if !whole {
		fmt.Fprintln(os.Stderr, "bad image")
		return 4
	}
	fmt.Printf("board %s\nversion %s\n", board, version)
	return 0
}

func writeCard(dir string, c card, image string) int {
	if text, fails := faulty(dir, "fail"); fails {
		fmt.Fprintln(os.Stderr, text)
		return 1
	}
	board, version, whole := readImage(image)
	if !whole || board != c.Board {
		return 4
	}
	fmt.Println("Flashing 0%")
	for _, hangs := faulty(dir, "hang"); hangs; _, hangs = faulty(dir, "hang") {
		_ = os.WriteFile(filepath.Join(dir, "hangs"), nil, 0o600)
		time.Sleep(5 * time.Millisecond) // sleeps: plays a tool that takes its time
	}
	fmt.Println("Flashing 50%")
	fmt.Println("Flashing 100%")
	if _, lies := faulty(dir, "lie"); lies {
		return 0
	}
	if version == c.holds() {
		return 3
	}
	c.Stored = version
	if version == c.Running {
		c.Stored = ""
	}
	return saved(c.save(dir))
}

// newTool installs the tool with a card that runs 1.0.0, and returns the tool's directory.
func newTool(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(dir, simflash)))
	require.NoError(t, card{Status: "Success", Address: "0000:3b:00.0", Running: "1.0.0", Board: "SIM 0001", MAC: "02:00:00:00:00:01", Knobs: []choice{
		{Name: "queues", Current: "8", Next: "8", Default: "4", Values: []string{"4", "8", "16"}},
		{Name: "wake", Current: "on LAN", Next: "on LAN", Default: "never", Values: []string{"never", "on LAN"}},
	}}.save(dir))
	return dir
}
