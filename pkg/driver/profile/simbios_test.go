package profile_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// choice is a setting of the simulated system firmware.
type choice struct {
	Name, Current, Next, Default string
	Values                       []string
	Fixed                        bool
}

// bios is the system firmware behind the simulated tools of its vendors. What Committed needs to be is for racadm alone.
type bios struct {
	Settings  []choice
	Committed bool
}

func loadBIOS(dir string) (b bios, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "bios"))
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	return b, err
}

func (b bios) save(dir string) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bios"), text, 0o600)
}

func (b bios) find(name string) *choice {
	i := slices.IndexFunc(b.Settings, func(c choice) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &b.Settings[i]
}

// biosTools are the tools, each with what it does. The test binary is one when called by its name.
var biosTools = map[string]func(dir string, args []string) error{
	"dmidecode": runDmidecode, "racadm": runRacadm, "onecli": runOneCLI, "ilorest": runILOrest, "saa": runSUM,
}

func runBIOSTool(name, dir string, args []string) int {
	if _, garbage := faulty(dir, "garbage"); garbage && name != "dmidecode" {
		fmt.Println("Segmentation fault=core dumped")
		return 0
	}
	if err := biosTools[name](dir, args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runDmidecode(dir string, _ []string) error {
	text, err := os.ReadFile(filepath.Join(dir, "dmi"))
	fmt.Print(string(text))
	return err
}

// read is the system firmware, for a command that reads.
func read(dir string) (bios, error) {
	if _, gone := faulty(dir, "gone"); gone {
		return bios{}, errors.New("ERROR: unable to connect to the management controller")
	}
	return loadBIOS(dir)
}

// change stores values, or does what else is to be done to the system firmware.
func change(dir string, do func(b *bios) error) error {
	if text, fails := faulty(dir, "fail"); fails {
		return errors.New(text)
	}
	for _, hangs := faulty(dir, "hang"); hangs; _, hangs = faulty(dir, "hang") {
		_ = os.WriteFile(filepath.Join(dir, "hangs"), nil, 0o600)
		time.Sleep(5 * time.Millisecond) // sleeps: plays a tool that takes its time
	}
	b, err := read(dir)
	if err == nil {
		err = do(&b)
	}
	if _, lies := faulty(dir, "lie"); lies || err != nil {
		return err
	}
	return b.save(dir)
}

// said is an error as the tool prints it.
type said string

func (s said) Error() string { return string(s) }

func (b *bios) tell(name, value string) error {
	switch c := b.find(name); {
	case c == nil || c.Fixed || len(c.Values) > 0 && !slices.Contains(c.Values, value):
		return said("ERROR: RAC947: Invalid object value specified.")
	default:
		c.Next = value
		return nil
	}
}

// runRacadm prints as published outputs of iDRAC 9 look, with the blanks that pad its lines.
func runRacadm(dir string, args []string) error {
	switch line := strings.Join(args, " "); {
	case strings.HasPrefix(line, "get BIOS."):
		group := strings.TrimPrefix(line, "get BIOS.")
		b, err := read(dir)
		fmt.Printf("[Key=BIOS.Setup.1-1#%s]            \n", group)
		for _, c := range b.Settings {
			name, of := strings.CutPrefix(c.Name, group+".")
			switch {
			case !of:
			case c.Fixed:
				fmt.Printf("#%s=%s\n", name, c.Current)
			case c.Next != c.Current:
				fmt.Printf("%s=%s (Pending Value=%s)\n", name, c.Current, c.Next)
			default:
				fmt.Printf("%s=%s\n", name, c.Current)
			}
		}
		return err
	case line == "jobqueue view":
		b, err := read(dir)
		fmt.Printf("-------------------------JOB QUEUE------------------------\n[Job ID=JID_000000000001]\nJob Name=Firmware Update: BIOS\nStatus=Completed\n")
		if b.Committed {
			fmt.Printf("[Job ID=JID_927008261880]\nJob Name=Configure: BIOS.Setup.1-1\nStatus=Scheduled\nStart Time=[Now]\n")
		}
		return err
	case line == "jobqueue create BIOS.Setup.1-1":
		return change(dir, func(b *bios) error {
			if b.Committed || !slices.ContainsFunc(b.Settings, func(c choice) bool { return c.Next != c.Current }) {
				return errors.New("ERROR: RAC1020: a job exists already, or nothing is pending")
			}
			b.Committed = true
			fmt.Print("RAC1024: Successfully scheduled a job.\nVerify the job status using \"racadm jobqueue view -i JID_xxxxx\" command.\nCommit JID = JID_927008261880\n")
			return nil
		})
	case len(args) == 3 && args[0] == "set":
		return change(dir, func(b *bios) error {
			fmt.Print("[Key=BIOS.Setup.1-1#ProcSettings]\nRAC1017: Successfully modified the object value and the change is in \n       pending state.\n")
			if b.Committed {
				return errors.New("ERROR: RAC1018: a configuration job exists already")
			}
			return b.tell(strings.TrimPrefix(args[1], "BIOS."), args[2])
		})
	}
	return said("ERROR: RAC901: Invalid command syntax.")
}

func runOneCLI(dir string, args []string) error {
	fmt.Print("\nLenovo XClarity Essentials OneCLI lxce_onecli02h-4.1.0\n(C) Lenovo Corporation 2013-2023. All rights reserved.\n\n")
	switch {
	case len(args) == 4 && args[1] == "show":
		b, err := read(dir)
		for _, c := range b.Settings {
			if strings.HasPrefix(c.Name, args[2]+".") {
				fmt.Printf("%s=%s\n", c.Name, c.Next)
			}
		}
		fmt.Println("Success.")
		return err
	case len(args) == 5 && args[1] == "set":
		return change(dir, func(b *bios) error { return b.tell(args[2], args[3]) })
	}
	return errors.New("invalid command")
}

func runILOrest(dir string, args []string) error {
	object := func(value func(c choice) string) map[string]string {
		b, _ := loadBIOS(dir)
		out := map[string]string{}
		for _, c := range b.Settings {
			out[c.Name] = value(c)
		}
		return out
	}
	show := func(v any) error {
		_, err := read(dir)
		text, _ := json.MarshalIndent(v, "", "  ")
		fmt.Println(string(text))
		return err
	}
	switch strings.Join(args[1:3], " ") {
	case "rawget /redfish/v1/systems/1/bios/":
		return show(map[string]any{"AttributeRegistry": "BiosAttributeRegistryU32", "Attributes": object(func(c choice) string { return c.Current })})
	case "rawget /redfish/v1/systems/1/bios/settings/":
		return show(map[string]any{"Attributes": object(func(c choice) string { return c.Next })})
	case "rawget /redfish/v1/systems/1/bios/baseconfigs/":
		return show(map[string]any{"BaseConfigs": []any{map[string]any{"default": object(func(c choice) string { return c.Default })}}})
	}
	return change(dir, func(b *bios) error {
		for _, arg := range args[2:] {
			if name, value, assigns := strings.Cut(arg, "="); assigns && name != "--selector" {
				if err := b.tell(name, value); err != nil {
					return err
				}
			}
		}
		fmt.Println("Committing changes...\nOne or more properties were changed and will not take effect until system is reset.")
		return nil
	})
}

// The document of SUM. A setting that is not an Option has another attribute.
type (
	biosMenu struct {
		Name     string        `xml:"name,attr"`
		Menus    []biosMenu    `xml:"Menu"`
		Settings []biosSetting `xml:"Setting"`
	}
	biosSetting struct {
		Name     string   `xml:"name,attr"`
		Order    string   `xml:"order,attr,omitempty"`
		Selected *string  `xml:"selectedOption,attr"`
		Number   *string  `xml:"numericValue,attr"`
		Type     string   `xml:"type,attr"`
		Default  string   `xml:"Information>DefaultOption,omitempty"`
		Fallback string   `xml:"Information>DefaultValue,omitempty"`
		Options  []string `xml:"Information>AvailableOptions>Option"`
		Help     string   `xml:"Information>Help,omitempty"`
	}
)

func runSUM(dir string, args []string) error {
	fmt.Print("Supermicro Update Manager (for UEFI BIOS) 2.9.0 (2022/08/18) (x86_64)\nCopyright(C) 2013-2022 Super Micro Computer, Inc. All rights reserved.\n\n")
	if strings.Join(args, " ") == "-c GetCurrentBiosCfg" {
		b, err := read(dir)
		menus := map[string]*biosMenu{}
		for _, c := range b.Settings {
			path := strings.Split(c.Name, "|")
			menu := menus[path[0]]
			if menu == nil {
				menu = &biosMenu{Name: path[0]}
				menus[path[0]] = menu
			}
			s := biosSetting{Name: path[1], Type: "Option", Selected: &c.Current, Default: c.Default, Options: c.Values, Help: "Intel\u00ae technology"}
			if len(path) == 3 {
				s.Order = path[2]
			}
			if len(c.Values) == 0 {
				s.Type, s.Selected, s.Number, s.Default, s.Fallback = "Numeric", nil, &c.Current, "", c.Default
			}
			menu.Settings = append(menu.Settings, s)
		}
		text := `<?xml version="1.0" encoding="ISO-8859-1" standalone="yes"?>` + "\n<BiosCfg>\n"
		for _, menu := range menus {
			menu.Settings = append(menu.Settings, biosSetting{Name: "Administrator Password", Type: "Password"})
			part, _ := xml.MarshalIndent(struct {
				XMLName xml.Name `xml:"Menu"`
				*biosMenu
			}{biosMenu: menu}, "", "  ")
			text += string(part) + "\n"
		}
		for _, c := range text + "</BiosCfg>\n" {
			os.Stdout.Write([]byte{byte(c)})
		}
		return err
	}
	document, err := os.ReadFile(args[3])
	if err != nil {
		return err
	}
	_ = os.WriteFile(filepath.Join(dir, "document"), document, 0o600)
	var told struct {
		Menus []biosMenu `xml:"Menu"`
	}
	var latin []rune
	for _, c := range document {
		latin = append(latin, rune(c))
	}
	_, body, _ := strings.Cut(string(latin), "?>")
	if err := xml.Unmarshal([]byte(body), &told); err != nil {
		return err
	}
	return change(dir, func(b *bios) error {
		for _, menu := range told.Menus {
			for _, s := range menu.Settings {
				name := menu.Name + "|" + s.Name
				if s.Order != "" {
					name += "|" + s.Order
				}
				value := s.Selected
				if value == nil {
					value = s.Number
				}
				if value == nil {
					return errors.New("a password would be set")
				}
				if err := b.tell(name, *value); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
