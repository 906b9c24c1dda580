{{- /*
The manifests are those under files/, as `kubectl apply -k` takes them; here only what the values say
is changed in them.
*/}}

{{- /* What all names begin with. The release's own name is not part of it: one cluster has one Swell. */}}
{{- define "swell.fullname" -}}
{{- default (default "swell" .Values.nameOverride) .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- /* The text of a file with the names of this release: in names, labels and selectors alike. */}}
{{- define "swell.file" -}}
{{- $names := printf "${1}%s-" (include "swell.fullname" .root) }}
{{- $parts := "operator|scheduler|page|metrics-reader|viewer|editor|admin" }}
{{- $pattern := printf "(\\W)swell-(?:(%s)\\b)" $parts }}
{{- regexReplaceAll $pattern (.root.Files.Get .file) (printf "%s${2}" $names) }}
{{- end }}

{{- /* One object, with the namespace and the labels that Helm's objects have. Takes: root, object. */}}
{{- define "swell.object" -}}
{{- $chart := .root.Chart }}
{{- $labels := dict "app.kubernetes.io/managed-by" .root.Release.Service }}
{{- $_ := set $labels "app.kubernetes.io/instance" .root.Release.Name }}
{{- $_ := set $labels "app.kubernetes.io/version" $chart.AppVersion }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $chart.Name ($chart.Version | replace "+" "_")) }}
{{- $_ := set .object.metadata "labels" (merge (default dict .object.metadata.labels) $labels) }}
{{- if not (hasPrefix "Cluster" .object.kind) }}
{{- $_ := set .object.metadata "namespace" .root.Release.Namespace }}
{{- end }}
---
{{ toYaml .object }}
{{- end }}

{{- /* The objects of one component. Takes: root, name, values. */}}
{{- define "swell.component" -}}
{{- $root := .root }}
{{- $name := .name }}
{{- $values := .values }}
{{- range $file := list "rbac" "deployment" "service" "pdb" }}
{{- if or (ne $file "pdb") (gt (int $values.replicas) 1) }}
{{- $text := include "swell.file" (dict "root" $root "file" (printf "files/%s/%s.yaml" $name $file)) }}
{{- range $part := splitList "\n---\n" $text }}
{{- $object := fromYaml $part }}
{{- include "swell.account" (dict "root" $root "values" $values "object" $object) }}
{{- if eq $object.kind "Deployment" }}
{{- include "swell.deployment" (dict "root" $root "values" $values "object" $object) }}
{{- end }}
{{- if (default dict $values.reports).enabled }}
{{- include "swell.reports" (dict "root" $root "values" $values "object" $object) }}
{{- end }}
{{- if (default dict $values.reports).proxy }}
{{- include "swell.proxy" $object }}
{{- end }}
{{- if or (ne $object.kind "ServiceAccount") $values.serviceAccount.create }}
{{- include "swell.object" (dict "root" $root "object" $object) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The account of a component, where it is made, bound and used. */}}
{{- define "swell.account" -}}
{{- $account := .values.serviceAccount }}
{{- $object := .object }}
{{- range $subject := $object.subjects }}
{{- $_ := set $subject "namespace" $.root.Release.Namespace }}
{{- with $account.name }}{{ $_ := set $subject "name" . }}{{ end }}
{{- end }}
{{- if eq $object.kind "ServiceAccount" }}
{{- with $account.name }}{{ $_ := set $object.metadata "name" . }}{{ end }}
{{- with $account.annotations }}{{ $_ := set $object.metadata "annotations" . }}{{ end }}
{{- end }}
{{- if eq $object.kind "Deployment" }}
{{- with $account.name }}{{ $_ := set $object.spec.template.spec "serviceAccountName" . }}{{ end }}
{{- end }}
{{- end }}

{{- define "swell.deployment" -}}
{{- $image := .root.Values.image }}
{{- $template := .object.spec.template }}
{{- $pod := $template.spec }}
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
{{- with .values.affinity }}{{ $_ := set $pod "affinity" . }}{{ end }}
{{- with .values.podAnnotations }}{{ $_ := set $template.metadata "annotations" . }}{{ end }}
{{- with .values.podLabels }}{{ $_ := set $template.metadata "labels" (merge $template.metadata.labels .) }}{{ end }}
{{- with .values.podSecurityContext }}{{ $_ := set $pod "securityContext" . }}{{ end }}
{{- with .values.securityContext }}{{ $_ := set $container "securityContext" . }}{{ end }}
{{- end }}

{{- /* Reports through the API server: a flag of the operator, and the right that it needs. */}}
{{- define "swell.proxy" -}}
{{- if and (eq .kind "ClusterRole") (eq .metadata.name "swell-operator") }}
{{- $right := dict "apiGroups" (list "") "resources" (list "pods/proxy") "verbs" (list "get") }}
{{- $_ := set . "rules" (append .rules $right) }}
{{- end }}
{{- if eq .kind "Deployment" }}
{{- $container := first .spec.template.spec.containers }}
{{- $_ := set $container "args" (append $container.args "--reports-proxy") }}
{{- end }}
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
{{- $own := printf "%s://%s-operator.%s:%d" $scheme (include "swell.fullname" .root) .root.Release.Namespace $port }}
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
