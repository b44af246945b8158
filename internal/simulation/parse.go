package simulation

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseByModel reads a value with exceptions for models: "25m,B=40m".
func ParseByModel[T any](text string, parse func(string) (T, error)) (ByModel[T], error) {
	out := ByModel[T]{Models: map[string]T{}}
	given := false
	for part := range strings.SplitSeq(text, ",") {
		model, value, exception := strings.Cut(part, "=")
		if !exception {
			model, value = "", part
		}
		v, err := parse(strings.TrimSpace(value))
		switch {
		case err != nil:
			return out, err
		case !exception && given:
			return out, fmt.Errorf("%q has two values without a model", text)
		case exception:
			out.Models[strings.TrimSpace(model)] = v
		default:
			out.Default, given = v, true
		}
	}
	if !given {
		return out, fmt.Errorf("%q has no value for the other models", text)
	}
	return out, nil
}

// ParseRate reads a share from 0 to 1, or from 0% to 100%.
func ParseRate(text string) (float64, error) {
	digits, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(digits, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) { // NaN is neither
		return 0, fmt.Errorf("%q is not a share from 0 to 1, or from 0%% to 100%%", text)
	}
	return v, nil
}

// ParseWeighted reads values with weights: "A:3,B:1". A value without a weight has the weight 1.
func ParseWeighted(text string) ([]Weighted, error) {
	var out []Weighted
	for part := range strings.SplitSeq(text, ",") {
		w := Weighted{Value: strings.TrimSpace(part), Weight: 1}
		if at := strings.LastIndexByte(part, ':'); at >= 0 {
			weight, err := strconv.Atoi(part[at+1:])
			if err != nil || weight < 0 || weight > 1_000_000 {
				return nil, fmt.Errorf("%q: the weight after the colon is not a number from 0 to 1000000", part)
			}
			w = Weighted{strings.TrimSpace(part[:at]), weight}
		}
		if w.Value == "" {
			return nil, fmt.Errorf("%q has an empty value", text)
		}
		out = append(out, w)
	}
	return out, nil
}

// ParseLabels reads labels, each with its values and weights: "pool=gpu:3,storage:1".
func ParseLabels(texts []string) (map[string][]Weighted, error) {
	out := map[string][]Weighted{}
	for _, text := range texts {
		key, values, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not of the form key=value:weight,value:weight", text)
		}
		w, err := ParseWeighted(values)
		if err != nil {
			return nil, err
		}
		out[key] = w
	}
	return out, nil
}
