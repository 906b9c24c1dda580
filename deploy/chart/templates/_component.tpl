{{- /*
The manifests of one component are those under files/, as `kubectl apply -k` takes them; here only
what the values say is changed in them. Takes: root, name, values.
*/}}
{{- define "swell.component" -}}
{{- $root := .root }}
{{- $name := .name }}
{{- $values := .values }}
{{- range $file := list "rbac" "deployment" "service" "pdb" }}
{{- if or (ne $file "pdb") (gt (int $values.replicas) 1) }}
{{- range $text := splitList "\n---\n" ($root.Files.Get (printf "files/%s/%s.yaml" $name $file)) }}
{{- $object := fromYaml $text }}
{{- if not (hasPrefix "Cluster" $object.kind) }}
{{- $_ := set $object.metadata "namespace" $root.Release.Namespace }}
{{- end }}
{{- range $subject := $object.subjects }}
{{- $_ := set $subject "namespace" $root.Release.Namespace }}
{{- end }}
{{- if eq $object.kind "Deployment" }}
{{- include "swell.deployment" (dict "root" $root "values" $values "object" $object) }}
{{- end }}
{{- if (default dict $values.reports).enabled }}
{{- include "swell.reports" (dict "root" $root "values" $values "object" $object) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "swell.deployment" -}}
{{- $image := .root.Values.image }}
{{- $pod := .object.spec.template.spec }}
{{- $container := first $pod.containers }}
{{- $tag := default .root.Chart.AppVersion $image.tag }}
{{- $_ := set .object.spec "replicas" (int .values.replicas) }}
{{- $_ := set $container "image" (printf "%s:%s" $image.repository $tag) }}
{{- $_ := set $container "imagePullPolicy" $image.pullPolicy }}
{{- $_ := set $container "args" (concat $container.args .values.args) }}
{{- $_ := set $container "resources" .values.resources }}
{{- $_ := set $pod "priorityClassName" .root.Values.priorityClassName }}
{{- with $image.pullSecrets }}
{{- $secrets := list }}
{{- range . }}{{ $secrets = append $secrets (dict "name" .) }}{{ end }}
{{- $_ := set $pod "imagePullSecrets" $secrets }}
{{- end }}
{{- with .values.nodeSelector }}{{ $_ := set $pod "nodeSelector" . }}{{ end }}
{{- with .values.tolerations }}{{ $_ := set $pod "tolerations" . }}{{ end }}
{{- end }}

{{- /* The endpoint for reports: a port of the Deployment and of its Service, and the flags. */}}
{{- define "swell.reports" -}}
{{- $reports := .values.reports }}
{{- $port := int $reports.port }}
{{- if eq .object.kind "Service" }}
{{- $listed := dict "name" "reports" "port" $port "targetPort" "reports" }}
{{- $_ := set .object.spec "ports" (append .object.spec.ports $listed) }}
{{- end }}
{{- if eq .object.kind "Deployment" }}
{{- $pod := .object.spec.template.spec }}
{{- $container := first $pod.containers }}
{{- $scheme := ternary "https" "http" (ne $reports.certSecret "") }}
{{- $own := printf "%s://swell-operator.%s:%d" $scheme .root.Release.Namespace $port }}
{{- $flags := list (printf "--reports-addr=:%d" $port) (printf "--reports-url=%s" (default $own $reports.url)) }}
{{- $listening := dict "name" "reports" "containerPort" $port }}
{{- $_ := set $container "ports" (append $container.ports $listening) }}
{{- with $reports.certSecret }}
{{- $flags = append $flags "--reports-cert-dir=/etc/swell/reports" }}
{{- $_ := set $pod "volumes" (list (dict "name" "reports-cert" "secret" (dict "secretName" .))) }}
{{- $mount := dict "name" "reports-cert" "mountPath" "/etc/swell/reports" "readOnly" true }}
{{- $_ := set $container "volumeMounts" (list $mount) }}
{{- end }}
{{- $_ := set $container "args" (concat $container.args $flags) }}
{{- end }}
{{- end }}
