import t from 'tap'
import { metricsText } from '../../lib/machine/metrics-text.js'
import { parseMetrics } from '../support/prometheus.js'

t.test('writes each type of metric in the text format', async t => {
  t.equal(
    metricsText([
      { name: 'svc_a_total', type: 'counter', help: 'A \\ help\nin two lines.', samples: [{ value: 3 }] },
      {
        name: 'svc_b',
        type: 'gauge',
        help: 'B.',
        samples: [
          { labels: { name: 'a "b"\\\nc' }, value: 0.5 },
          { labels: { name: '汉' }, value: Infinity }
        ]
      },
      { name: 'svc_none', type: 'gauge', help: 'Without samples.', samples: [] },
      {
        name: 'svc_c_seconds',
        type: 'histogram',
        help: 'C.',
        series: [{ labels: { of: 'x' }, figures: { buckets: [{ atMost: 0.5, count: 1 }], sum: 3.25, count: 2 } }]
      },
      {
        name: 'svc_d_seconds',
        type: 'summary',
        help: 'D.',
        quantiles: [{ quantile: 0.99, value: 1e-7 }],
        sum: 1,
        count: 2
      }
    ]),
    `# HELP svc_a_total A \\\\ help\\nin two lines.
# TYPE svc_a_total counter
svc_a_total 3
# HELP svc_b B.
# TYPE svc_b gauge
svc_b{name="a \\"b\\"\\\\\\nc"} 0.5
svc_b{name="汉"} +Inf
# HELP svc_c_seconds C.
# TYPE svc_c_seconds histogram
svc_c_seconds_bucket{of="x",le="0.5"} 1
svc_c_seconds_bucket{of="x",le="+Inf"} 2
svc_c_seconds_sum{of="x"} 3.25
svc_c_seconds_count{of="x"} 2
# HELP svc_d_seconds D.
# TYPE svc_d_seconds summary
svc_d_seconds{quantile="0.99"} 1e-7
svc_d_seconds_sum 1
svc_d_seconds_count 2
`
  )
})

t.test('the reader of the tests refuses other formats', async t => {
  const good = '# HELP a_total A.\n# TYPE a_total counter\na_total{b="c"} 1\n'
  t.equal(parseMetrics(good).get('a_total')?.samples[0]?.labels['b'], 'c')
  const head = '# HELP h H.\n# TYPE h histogram\n'
  for (const wrong of [
    good.trim(),
    `${good}${good}`,
    `${good}a_total{b="c"} 2\n`,
    `${good}b 1\n`,
    good.replace('"c"', '"c'),
    good.replace('"c"', '"\\c"'),
    good.replace(' 1', ' one'),
    good.replace('# HELP a_total A.\n', ''),
    good.replace('counter', 'count'),
    good.replaceAll('a_total', 'a'),
    `${head}h_bucket{le="1"} 1\nh_sum 1\nh_count 1\n`,
    `${head}h_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n`,
    `${head}h_bucket{le="+Inf"} 1\nh_count 1\n`,
    `${head}h_bucket{le="+Inf"} 1\nh_sum 1\nh_count 2\n`
  ])
    t.throws(() => parseMetrics(wrong), wrong)
})
