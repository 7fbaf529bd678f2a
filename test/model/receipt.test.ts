import t from 'tap'
import { listOf } from '../../lib/core/proof/receipt.js'
import { propertiesOf, type Receipt } from '../../lib/model/receipt.js'
import { aStatement, newTestKey } from '../support/receipts.js'

t.test('a verification result states what is true', async t => {
  const { receipt } = aStatement(newTestKey(), 1)
  const approved = {
    decision: 'approved' as const,
    name: 'ben',
    tokenId: null,
    at: '2026-11-01T00:00:00Z',
    treeSha256: null
  }
  const cases: Array<[Partial<Receipt>, string[]]> = [
    [{}, []],
    [{ origin: { ...receipt.origin, exact: true } }, ['EXACT']],
    [{ checks: listOf([{ check: 'GET /', ok: true, attempts: 1 }]) }, ['GATED']],
    [{ approvals: listOf([approved]) }, ['APPROVED']],
    [{ approvals: listOf([{ ...approved, decision: 'rejected' as const }]) }, []],
    [{ signers: listOf([{ name: 'ana', fingerprint: 'SHA256:x' }]) }, ['SIGNED']],
    [
      {
        deployment: { ...receipt.deployment, status: 'failed' },
        origin: { ...receipt.origin, exact: true },
        reverted: { at: '2026-11-01T00:00:00Z', reason: 'check' }
      },
      ['REVERTED']
    ]
  ]
  for (const [patch, wanted] of cases) t.strictSame(propertiesOf({ ...receipt, ...patch }), wanted)
})
