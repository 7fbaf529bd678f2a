import t from 'tap'
import { csvOf, htmlOf, proofLines, type Report, sectionOf } from '../../../lib/cli/audit/report.js'
import { auditActions } from '../../../lib/base/shared/audit-actions.js'

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

t.test('each action belongs to a part, or to the rows of the deployments', t => {
  const parts = Object.fromEntries(auditActions.map(action => [action, sectionOf(action)]))
  t.match(parts, {
    'deployment.upload': null,
    'deployment.end': null,
    'deployment.undo': null,
    'deployment.promote': null,
    'deployment.approve': 'approvals',
    'deployment.reject': 'approvals',
    'deployment.confirm': 'approvals',
    'rollout.approve': 'approvals',
    'token.rotate': 'rights',
    'second_factor.enrol': 'rights',
    'audit.rotate_key': 'rights',
    'project.regenerate_token': 'rights',
    'settings.update': 'settings',
    'project.update': 'settings',
    'auth.login_failed': 'failures',
    'auth.login': 'others',
    'deploy.post_deploy_failed': 'others'
  })
  t.end()
})

t.test('the CSV has the same rows, and no formulas', t => {
  const lines = [...csvOf(report)].join('').split('\r\n')
  t.equal(lines[0], 'Part,Time,Project,Who,What,Result,Detail')
  t.ok(lines.includes('Report,,,,Refused attempts to sign in,,7'))
  const cell = `"'=<script>alert(""&"")</script>"`
  t.ok(lines.includes(['Deployments,2030-01-02T03:04:05.000Z', cell, cell, cell, 'failed', cell].join(',')))
  t.ok(lines.includes('Proof of the log,,,,Root,,cm9vdA=='))
  t.end()
})

t.test('it says how the log proved itself', t => {
  const verdict = { faults: [], entries: 40, removed: 2, size: 42 } as never
  t.match(proofLines({ ...report.proof, verdict }).at(-1), [/^Verification/, /^Verified: 40 entries .* of 42, 2 were/])
  const broken = { faults: ['Entry 7 was changed'], entries: 40, removed: 0, size: 42 } as never
  t.match(proofLines({ ...report.proof, verdict: broken }).at(-1), [/^Ver/, 'Broken: Entry 7 was changed'])
  t.match(proofLines(report.proof).at(-1), [/^Ver/, /^Not verified/])
  t.end()
})

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
