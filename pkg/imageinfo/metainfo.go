package imageinfo

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// component is the part of AppStream's metainfo that LVFS uses (https://lvfs.readthedocs.io/en/latest/metainfo.html).
type component struct {
	XMLName  xml.Name `xml:"component"`
	Type     string   `xml:"type,attr"`
	Provides struct {
		Firmware []struct {
			Type string `xml:"type,attr"`
			GUID string `xml:",chardata"`
		} `xml:"firmware"`
	} `xml:"provides"`
	Releases struct {
		Release []struct {
			Version string `xml:"version,attr"`
		} `xml:"release"`
	} `xml:"releases"`
}

var (
	guid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	// number is a version that fwupd spells in another way than the metainfo does.
	number = regexp.MustCompile(`^(0[xX][0-9a-fA-F]+|[0-9]+)$`)
)

// metainfo reads a description. Entities other than those of XML itself are an error, and nothing outside of it is read.
func metainfo(r io.Reader) (Firmware, error) {
	var c component
	if err := xml.NewDecoder(r).Decode(&c); err != nil {
		return Firmware{}, err
	}
	if c.Type != "firmware" {
		return Firmware{}, fmt.Errorf("it describes %q and not firmware", c.Type)
	}
	out := Firmware{GUIDs: true}
	for _, f := range c.Provides.Firmware {
		id := strings.ToLower(strings.TrimSpace(f.GUID))
		if !guid.MatchString(id) {
			return Firmware{}, fmt.Errorf("%.100q is no GUID", id)
		}
		out.Boards = append(out.Boards, id)
	}
	if len(out.Boards) == 0 {
		return Firmware{}, errors.New("it names no GUID")
	}
	spelled := true
	for _, r := range c.Releases.Release {
		spelled = spelled && !number.MatchString(r.Version) && r.Version != ""
		out.Versions = append(out.Versions, r.Version)
	}
	if len(out.Versions) == 0 {
		return Firmware{}, errors.New("it names no release")
	}
	if !spelled {
		out.Versions = nil
	}
	return out, nil
}
