import t from 'tap'
import type { Report } from '../../../lib/cli/audit/report.js'
import { htmlOf } from '../../../lib/cli/audit/report-html.js'

const hostile = '=<script>alert("&")</script>'
const report: Report = {
  head: { server: 'http://127.0.0.1', since: '2030-01-01', until: '2030-02-01', by: 'admin', at: '2030-02-01' },
  rows: {
    deployments: [['2030-01-02T03:04:05.000Z', hostile, hostile, hostile, 'failed', hostile]],
    approvals: [],
    rights: [],
    settings: [],
    failures: [],
    others: []
  },
  refusedSignIns: 7,
  entries: 12,
  proof: { size: 40, root: 'cm9vdA==', key: 'svc+1+key', verdict: null }
}

t.test('the HTML is one file without scripts, and every text is escaped', t => {
  const html = [...htmlOf(report)].join('')
  t.notMatch(html, /<script|javascript:|<link|<img|\son\w+=/i)
  t.notMatch(html, /https?:\/\/(?!127\.0\.0\.1)/)
  t.match(html, '=&lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt;')
  t.match(html, '<td class="bad">failed</td>')
  t.match(html, /<dt>Refused attempts to sign in<\/dt><dd>7<\/dd>/)
  t.match(html, /Approvals, confirmations and corrections \(0\)<\/h2>\n<p>None in this period/)
  t.match(html, /<dt>Root<\/dt><dd>cm9vdA==<\/dd>/)
  t.end()
})
