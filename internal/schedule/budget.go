package schedule

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Budget is maxUnavailable in nodes, for a pool of the given size. A percentage is rounded down, but a positive one to no
// less than 1. A value that is neither a number of at least 0 nor a percentage from 0% to 100% admits nothing.
func Budget(maxUnavailable intstr.IntOrString, nodes int) int {
	if maxUnavailable.Type == intstr.Int {
		return max(0, int(maxUnavailable.IntVal))
	}
	digits, ok := strings.CutSuffix(maxUnavailable.StrVal, "%")
	percent, err := strconv.Atoi(digits)
	if !ok || err != nil || percent <= 0 || percent > 100 {
		return 0
	}
	return max(1, nodes*percent/100)
}
