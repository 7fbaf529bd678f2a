/*
 * The Prometheus text format, version 0.0.4: for each metric a HELP line, a TYPE line, and one line for each sample.
 */
import type { HistogramFigures } from '../base/histogram.js'

/** The content type of the format. */
export const metricsContentType = 'text/plain; version=0.0.4; charset=utf-8'

/** Labels of a sample, by name. */
export type Labels = Readonly<Record<string, string>>

/** One value of a metric. */
export interface Sample {
  labels?: Labels
  value: number
}

/** A metric with its samples. Names follow Prometheus: base units, `_total` for counters. */
export type Metric = { name: string; help: string } & (
  | { type: 'counter' | 'gauge'; samples: readonly Sample[] }
  | { type: 'histogram'; series: ReadonlyArray<{ labels?: Labels; figures: HistogramFigures }> }
  | { type: 'summary'; quantiles: ReadonlyArray<{ quantile: number; value: number }>; sum: number; count: number }
)

/** Returns the metrics as text, without those that have no samples. */
export function metricsText(metrics: readonly Metric[]): string {
  return metrics.map(textOf).join('')
}

function textOf(metric: Metric): string {
  const lines = samplesOf(metric)
  if (lines.length === 0) return ''
  const { name, help, type } = metric
  return [`# HELP ${name} ${escapeHelp(help)}`, `# TYPE ${name} ${type}`, ...lines, ''].join('\n')
}

function samplesOf(metric: Metric): string[] {
  const { name } = metric
  switch (metric.type) {
    case 'counter':
    case 'gauge':
      return metric.samples.map(({ labels = {}, value }) => line(name, labels, value))
    case 'histogram':
      return metric.series.flatMap(({ labels = {}, figures: { buckets, sum, count } }) => [
        ...buckets.map(({ atMost, count }) => line(`${name}_bucket`, { ...labels, le: numberText(atMost) }, count)),
        line(`${name}_bucket`, { ...labels, le: '+Inf' }, count),
        line(`${name}_sum`, labels, sum),
        line(`${name}_count`, labels, count)
      ])
    case 'summary':
      return [
        ...metric.quantiles.map(({ quantile, value }) => line(name, { quantile: numberText(quantile) }, value)),
        line(`${name}_sum`, {}, metric.sum),
        line(`${name}_count`, {}, metric.count)
      ]
  }
}

function line(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`)
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${numberText(value)}`
}

function numberText(value: number): string {
  if (value === Infinity) return '+Inf'
  return value === -Infinity ? '-Inf' : String(value)
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '"': '\\"', '\n': '\\n' }

function escapeLabel(text: string): string {
  return text.replace(/[\\"\n]/g, found => escapes[found] as string)
}

function escapeHelp(text: string): string {
  return text.replace(/[\\\n]/g, found => escapes[found] as string)
}
