/** One sample of a Prometheus text, parsed. */
export interface ParsedSample {
  name: string
  labels: Record<string, string>
  value: number
}

export interface ParsedMetric {
  name: string
  type: string
  help: string
  samples: ParsedSample[]
}

const name = '[a-zA-Z_:][a-zA-Z0-9_:]*'
const suffixes: Readonly<Record<string, readonly string[]>> = {
  counter: [''],
  gauge: [''],
  histogram: ['_bucket', '_sum', '_count'],
  summary: ['', '_sum', '_count']
}

/**
 * A strict reading of the text format 0.0.4: HELP, then TYPE, then the samples of that metric and no others; no series
 * twice, whole escapes, buckets that grow and end with +Inf. Throws at the first line that violates this.
 */
export function parseMetrics(text: string): Map<string, ParsedMetric> {
  if (!text.endsWith('\n')) throw new Error('the last line does not end')
  const metrics = new Map<string, ParsedMetric>()
  const series = new Set<string>()
  let current: ParsedMetric | undefined
  let help: [name: string, text: string] | undefined
  for (const line of text.slice(0, -1).split('\n')) {
    const [, helpName, helpText] = new RegExp(`^# HELP (${name}) (.+)$`).exec(line) ?? []
    const [, typeName, type] =
      new RegExp(`^# TYPE (${name}) (counter|gauge|histogram|summary|untyped)$`).exec(line) ?? []
    if (helpName !== undefined && helpText !== undefined) {
      if (metrics.has(helpName)) throw new Error(`${helpName} is there twice`)
      help = [helpName, helpText]
    } else if (typeName !== undefined && type !== undefined) {
      if (help?.[0] !== typeName) throw new Error(`${typeName} has no help`)
      current = { name: typeName, type, help: help[1], samples: [] }
      metrics.set(typeName, current)
    } else {
      const sample = parseSample(line)
      if (
        current === undefined ||
        !(suffixes[current.type] ?? []).some(suffix => sample.name === current?.name + suffix)
      ) {
        throw new Error(`a sample that is not of ${current?.name}: ${line}`)
      }
      const key = line.slice(0, line.lastIndexOf(' '))
      if (series.has(key)) throw new Error(`a series that is there twice: ${key}`)
      series.add(key)
      current.samples.push(sample)
    }
  }
  for (const metric of metrics.values()) check(metric)
  return metrics
}

function parseSample(line: string): ParsedSample {
  const label = `[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\[\\\\n"])*"`
  const [, found, labels = '', value = ''] =
    new RegExp(`^(${name})(?:\\{(${label}(?:,${label})*)\\})? (\\S+)$`).exec(line) ?? []
  if (found === undefined) throw new Error(`not a sample: ${line}`)
  if (!/^(?:[+-]Inf|NaN|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/.test(value)) throw new Error(`not a number: ${line}`)
  const pairs = [...labels.matchAll(/([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g)]
  const unescaped = pairs.map(
    ([, key = '', text = '']) => [key, text.replace(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c))] as const
  )
  return {
    name: found,
    labels: Object.fromEntries(unescaped),
    value: value === '+Inf' ? Infinity : value === '-Inf' ? -Infinity : Number(value)
  }
}

function check({ name, type, samples }: ParsedMetric): void {
  if (type === 'counter' && (!name.endsWith('_total') || samples.some(({ value }) => value < 0)))
    throw new Error(`${name} is no counter`)
  if (type !== 'histogram') return
  const seriesOf = (sample: ParsedSample): string => JSON.stringify({ ...sample.labels, le: undefined })
  for (const key of new Set(samples.map(seriesOf))) {
    const of = samples.filter(sample => seriesOf(sample) === key)
    const buckets = of.filter(sample => sample.name === `${name}_bucket`)
    const count = of.find(sample => sample.name === `${name}_count`)?.value
    const bounds = buckets.map(({ labels }) => (labels['le'] === '+Inf' ? Infinity : Number(labels['le'])))
    if (bounds.at(-1) !== Infinity || buckets.at(-1)?.value !== count)
      throw new Error(`${name} does not end with +Inf, or not with its count`)
    for (let at = 1; at < buckets.length; at++) {
      const isGrowing =
        (bounds[at] as number) > (bounds[at - 1] as number) &&
        (buckets[at]?.value ?? 0) >= (buckets[at - 1]?.value ?? 0)
      if (!isGrowing) throw new Error(`the buckets of ${name} do not grow`)
    }
    if (!of.some(sample => sample.name === `${name}_sum`)) throw new Error(`${name} has no sum`)
  }
}
