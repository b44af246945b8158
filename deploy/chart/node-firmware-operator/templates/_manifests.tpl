{{/* The manifests in a directory of files/ as they are, in the namespace of the release. A file of admission policies has nothing else. */}}
{{- define "manifests" -}}
{{- $namespace := .root.Release.Namespace | quote }}
{{- range $path, $_ := .root.Files.Glob (printf "files/%s/*.yaml" .directory) }}
{{- $text := $.root.Files.Get $path | replace "node-firmware-system" $namespace }}
{{- if or $.root.Values.admissionPolicies.enabled (not (contains "kind: ValidatingAdmissionPolicy" $text)) }}
---
{{ $text }}
{{- end }}
{{- end }}
{{- end }}

{{/* What operator and daemon have in common: sets what the values say of a program in its workload. */}}
{{- define "program" -}}
{{- $pod := .workload.spec.template.spec }}
{{- $container := first $pod.containers }}
{{- $_ := set $container "image" (printf "%s:%s" .values.image.repository (.values.image.tag | default .root.Chart.AppVersion)) }}
{{- $_ := set $container "imagePullPolicy" .values.image.pullPolicy }}
{{- $_ := set $container "args" (concat $container.args .values.args) }}
{{- range $container.env }}
{{- if hasKey $.env .name }}{{ $_ := set . "value" (index $.env .name) }}{{ end }}
{{- end }}
{{- $_ := set $container "env" (concat $container.env .values.env) }}
{{- $_ := set $container "resources" .values.resources }}
{{- range $key := list "nodeSelector" "affinity" "tolerations" "priorityClassName" }}
{{- $_ := unset $pod $key }}
{{- with index $.values $key }}{{ $_ := set $pod $key . }}{{ end }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- end }}
