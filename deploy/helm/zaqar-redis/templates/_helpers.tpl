{{- define "zaqar-redis.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "zaqar-redis.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "zaqar-redis.labels" -}}
{{ include "zaqar-redis.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- define "zaqar-redis.secret" -}}
{{- if .Values.secrets.existing -}}
{{- .Values.secrets.existing -}}
{{- else -}}
{{- include "zaqar-redis.name" . -}}
{{- end -}}
{{- end -}}

{{- define "zaqar-redis.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "zaqar-redis.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
  {{- if .Values.tls.secret }}
  scheme: HTTPS
  {{- end }}
{{- end -}}
