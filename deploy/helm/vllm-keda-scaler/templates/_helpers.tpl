{{/* The service's name in labels. */}}
{{- define "vllm-scaler.name" -}}
{{- .Values.nameOverride | default "vllm-scaler" | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of the objects; short enough for what is put behind it. */}}
{{- define "vllm-scaler.fullname" -}}
{{- $name := include "vllm-scaler.name" . -}}
{{- $full := printf "%s-%s" .Release.Name $name -}}
{{- if contains $name .Release.Name -}}
{{- $full = .Release.Name -}}
{{- end -}}
{{- .Values.fullnameOverride | default $full | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "vllm-scaler.selectorLabels" -}}
app.kubernetes.io/name: {{ include "vllm-scaler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "vllm-scaler.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "vllm-scaler.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: external-scaler
app.kubernetes.io/part-of: {{ .Chart.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
keda.sh/addon: {{ .Chart.Name }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The metadata of an object; takes a dict of root, and of suffix, namespace, labels and annotations where they are. */}}
{{- define "vllm-scaler.metadata" -}}
metadata:
  name: {{ include "vllm-scaler.fullname" .root }}{{ .suffix }}
  namespace: {{ .namespace | default .root.Release.Namespace }}
  labels:
    {{- include "vllm-scaler.labels" .root | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with merge (dict) (.annotations | default dict) .root.Values.additionalAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "vllm-scaler.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "vllm-scaler.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "vllm-scaler.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The host of a trigger's scalerAddress, which a certificate has to name. */}}
{{- define "vllm-scaler.host" -}}
{{ include "vllm-scaler.fullname" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{/* What KEDA is told in a trigger's scalerAddress. */}}
{{- define "vllm-scaler.address" -}}
{{ include "vllm-scaler.host" . }}:{{ .Values.grpc.port }}
{{- end -}}

{{/* One endpoint of a ServiceMonitor or PodMonitor; takes its values. Our label namespace is the pool's: it must win. */}}
{{- define "vllm-scaler.endpoint" -}}
- port: http
  path: /metrics
  interval: {{ .interval }}
  honorLabels: true
  {{- with .relabelings }}
  relabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
