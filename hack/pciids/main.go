// Command pciids trims the database of PCI ids (https://pci-ids.ucw.cz) to what the product can show: devices that
// can be a network adapter, a drive or a storage controller, and their vendors. It reads the database from standard input
// and writes to standard output.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"slices"
	"strings"
)

// all of the devices of these vendors are kept: they make adapters, drives and their controllers, and little else.
var all = []string{
	"025e", "1000", "1077", "10df", "1179", "1344", "1414", "1425", "144d", "15ad", "15b3", "15b7", "1924", "19e5", "1ae0",
	"1af4", "1b36", "1b96", "1bb1", "1c5c", "1d0f", "1dd8", "1e0f", "9005",
}

// some of the devices of the others are kept: those whose names have one of these words.
var some = regexp.MustCompile(`(?i)ethernet|network|\bnic\b|infiniband|omni-path|\bhfi|fib(re|er) channel|gigabit|` +
	`\b\d+ ?gbe|gbase|\braid|\bsas|\bscsi|\bhba|host bus|nvme?\b|\bssd|solid state|optane|` +
	`virtual storage|smart array|netxtreme|connectx|bluefield`)

// none of these devices are shown: virtual functions are part of their card, and servers have no wireless adapters.
var none = regexp.MustCompile(`(?i)virtual function|\bvf\b|wireless|wi-?fi|wlan|802\.11|bluetooth`)

func main() {
	if err := trim(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// trim keeps the comment at the head, which names the version and the licence. Subsystems, and the classes at the end, are
// left out.
func trim(from io.Reader, to io.Writer) error {
	out := bufio.NewWriter(to)
	vendor, head := "", true // vendor is the line of one that is not written yet
	id := ""
	for lines := bufio.NewScanner(from); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return fmt.Errorf("read the database: %w", err)
			}
			break
		}
		line := lines.Text()
		switch {
		case head && strings.HasPrefix(line, "#"):
		case line == "" && head:
			head = false
			line = "#\tTrimmed for node-firmware-operator by hack/pciids.\n"
		case line == "", line[0] == '#', strings.HasPrefix(line, "\t\t"):
			continue
		case strings.HasPrefix(line, "C "):
			return out.Flush()
		case line[0] == '\t':
			if none.MatchString(line) || !slices.Contains(all, id) && !some.MatchString(line) {
				continue
			}
			line, vendor = vendor+line, ""
		default:
			id, vendor = line[:4], line+"\n"
			continue
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return fmt.Errorf("write the database: %w", err)
		}
	}
	return out.Flush()
}
