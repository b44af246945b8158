package simhost

import (
	"fmt"
	"strings"
)

// options are the parsed arguments of a tool: values by long name, and what is not an option.
type options struct {
	values map[string]string
	args   []string
}

func (o options) has(name string) bool { _, ok := o.values[name]; return ok }

// optionTable maps the spellings of options, without dashes, to their long name; a name that ends in "=" takes a value.
type optionTable map[string]string

// parse reads options and arguments in any order, as getopt_long does. "--" ends the options.
func (table optionTable) parse(argv []string) (options, error) {
	o := options{values: map[string]string{}}
	for i := 0; i < len(argv); i++ {
		arg := argv[i]
		if arg == "--" {
			o.args = append(o.args, argv[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			o.args = append(o.args, arg)
			continue
		}
		spelled, value, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		name, ok := table[spelled]
		if !ok {
			return o, fmt.Errorf("unrecognized option '%s'", arg)
		}
		long, takesValue := strings.CutSuffix(name, "=")
		if takesValue && !inline {
			if i++; i == len(argv) {
				return o, fmt.Errorf("option '%s' requires an argument", arg)
			}
			value = argv[i]
		}
		if !takesValue && inline {
			return o, fmt.Errorf("option '--%s' doesn't allow an argument", long)
		}
		o.values[long] = value
	}
	return o, nil
}
