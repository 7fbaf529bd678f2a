import t from 'tap'
import { tokenEndLine } from '../../../lib/cli/pack/token-end.js'
import type { UploadPermit } from '../../../lib/model/upload-permit.js'

const permit: UploadPermit = {
  success: true,
  project: { id: 'proj_1', name: 'shop', env: 'production' },
  maxUploadBytes: 1,
  maxExtractedBytes: 1,
  features: []
}
const nowMs = Date.parse('2030-01-01T00:00:00Z')

const cases: Array<[what: string, expiresAt: string, days: string | null]> = [
  ['in 14 days', '2030-01-15T00:00:00.000Z', '14 days, on 2030-01-15'],
  ['in a day', '2030-01-01T08:00:00.000Z', '1 day, on 2030-01-01'],
  ['in 15 days', '2030-01-15T00:00:00.001Z', null]
]

for (const [what, expiresAt, days] of cases) {
  t.test(`a token that ends ${what}`, async t => {
    const line = tokenEndLine({ ...permit, token: { name: 'ci-shop', expiresAt } }, nowMs)
    if (days === null) t.equal(line, null)
    else t.match(line, `The token "ci-shop" expires in ${days}. `)
  })
}

t.test('says nothing about a token without an end, and for an older server', async t => {
  t.equal(tokenEndLine(permit, nowMs), null)
  t.equal(tokenEndLine(null, nowMs), null)
})
