package simhost

import "path/filepath"

var sgSATOptions = optionTable{"r": "raw", "raw": "raw", "R": "readonly", "readonly": "readonly", "V": "version", "version": "version"}

// sgSATIdentify is sg_sat_identify of sg3_utils 1.46; it knows its binary output only.
func sgSATIdentify(c *call) (int, error) {
	o, code, err := c.sgArguments(sgSATOptions)
	if code != 0 || err != nil || o.args == nil {
		return code, err
	}
	if !o.has("raw") {
		return c.fail(sgSyntax, "sg_sat_identify: only --raw DEVICE is simulated\n")
	}
	s, err := c.m.view()
	if err != nil {
		return 0, err
	}
	name := filepath.Base(o.args[0])
	for _, d := range s.Spec.SATA {
		if s.present(d.Key) && (name == d.Generic || name == d.Key) {
			return c.run(d.Key, "query", func() (int, error) {
				_, err := c.stdout.Write(d.identify(s.SATA[d.Key].Running.Version))
				return 0, err
			})
		}
	}
	return c.sgMissing(o.args[0])
}
