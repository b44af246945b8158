package guest

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Main runs the program under the name it was started by and returns its exit code.
func Main(argv []string) int {
	var err error
	switch filepath.Base(argv[0]) {
	case "systemctl":
		err = systemctl(argv[1:])
	case FlashTool:
		err = flashTool(argv[1:])
	case "pause":
		pause()
	default:
		if len(argv) > 1 && argv[1] == "agent" {
			err = agent()
			break
		}
		err = first()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(argv[0]), err)
		return 1
	}
	return 0
}

// pause waits until it is asked to end: it keeps the namespaces of a pod.
func pause() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}

// systemctl supports only what the daemon needs for a reboot.
func systemctl(args []string) error {
	if slices.Equal(args, []string{"show", "--property=Version"}) {
		_, err := fmt.Println("Version=257")
		return err
	}
	if !slices.Equal(args, []string{"reboot"}) {
		return fmt.Errorf("this machine has no systemd: %q is not known", args)
	}
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Post(fmt.Sprintf("http://127.0.0.1:%d/reboot", AgentPort), "", nil)
	if err != nil {
		return fmt.Errorf("ask for a reboot: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask for a reboot: %s", response.Status)
	}
	return nil
}
