import t from 'tap'
import { tokenFindings } from '../../../lib/cli/doctor/tokens.js'
import type { ReportedToken } from '../../../lib/model/access-report.js'
import { aToken } from '../../support/a-token.js'

function reported(patch: Partial<ReportedToken>): ReportedToken {
  return { ...aToken(), daysLeft: 60, secretDays: 30, advice: [], ...patch }
}

t.test('says nothing on a server without named tokens, and passes if there is no advice', async t => {
  t.same(tokenFindings({ tokens: [], rotateDays: 0 }), [])
  t.same(tokenFindings({ tokens: [reported({}), reported({ name: 'b' })], rotateDays: 0 }), [
    { check: 'Named tokens', result: 'pass', detail: '2 valid', advice: null }
  ])
})

t.test('warns about tokens that expire soon, are unused, or have an old secret', async t => {
  const findings = tokenFindings({
    tokens: [
      reported({ name: 'soon', daysLeft: 1, advice: ['expires_soon'] }),
      reported({ name: 'old', daysLeft: 9, secretDays: 100, advice: ['expires_soon', 'unused', 'rotate'] })
    ],
    rotateDays: 90
  })
  t.match(findings, [
    { result: 'warning', detail: '"soon" expires in 1 day, "old" expires in 9 days', advice: 'svc token rotate' },
    { result: 'warning', detail: '"old" was not used for 90 days', advice: 'svc token revoke' },
    {
      result: 'warning',
      detail: '"old" has a secret of 100 days (token_rotate_days is 90)',
      advice: 'svc token rotate'
    }
  ])
})

t.test('names ten tokens', async t => {
  const tokens = Array.from({ length: 12 }, (_, index) => reported({ name: `t${index}`, advice: ['unused'] }))
  const [finding] = tokenFindings({ tokens, rotateDays: 0 })
  t.match(finding?.detail, /"t9" was not used for 90 days, and 2 more$/)
})
